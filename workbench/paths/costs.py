"""What selectors were measured to take, so that a change of op can be given its price: medians of one run on an H200.

The figures are those of ``docs/results/bench-kernels-h200.json``, warm L2, plain random scores; a test holds them
equal. Nothing else was measured: no repair, no other release, no other device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MEASURED_ON = "H200"
MEASURED_OF = {"vllm": "vllm==0.26.0", "sglang": "sglang-kernel==0.4.6", "torch": "torch 2.11.0"}
NEAR = 4.0  # shapes further off than this factor, in rows or in length, tell nothing of a call

Shape = tuple[int, int]  # rows, scores of each

# Microseconds by k, of a shape, of an op on the path that its rows take.
MEDIANS_US: dict[tuple[str, str], dict[Shape, dict[int, float]]] = {
    ("vllm.persistent_topk", "vllm.histogram_2048"): {
        (1, 8192): {512: 13.888, 2048: 14.016},
        (16, 8192): {512: 14.752, 2048: 16.064},
    },
    ("vllm.cooperative_topk", "vllm.histogram_4096"): {
        (1, 8192): {512: 6.56, 2048: 6.784},
        (16, 8192): {512: 6.784, 2048: 6.976},
    },
    ("torch.topk", "torch.topk"): {
        (1, 8192): {512: 51.744, 2048: 52.416},
        (1, 32768): {512: 72.032, 2048: 72.96},
        (1, 131072): {512: 81.216, 2048: 82.56},
        (1, 262144): {512: 92.448, 2048: 93.344},
        (16, 8192): {512: 61.312, 2048: 66.592},
        (16, 32768): {512: 81.504, 2048: 81.664},
        (16, 131072): {512: 105.216, 2048: 107.36},
        (16, 262144): {512: 120.064, 2048: 121.664},
        (64, 8192): {512: 80.032, 2048: 80.704},
        (64, 32768): {512: 99.232, 2048: 101.376},
        (64, 131072): {512: 167.168, 2048: 172.192},
        (64, 262144): {512: 284.864, 2048: 288.48},
        (128, 8192): {512: 90.048, 2048: 91.712},
        (128, 32768): {512: 125.856, 2048: 129.792},
        (128, 131072): {512: 286.848, 2048: 291.392},
        (128, 262144): {512: 480.512, 2048: 485.568},
        (1024, 8192): {512: 184.256, 2048: 219.52},
        (1024, 32768): {512: 496.736, 2048: 542.848},
        (1024, 131072): {512: 1596.544, 2048: 1659.424},
        (1024, 262144): {512: 3028.864, 2048: 3078.08},
    },
    ("sglang.fast_topk_v2", "sglang.fast_topk"): {
        (1, 8192): {2048: 10.816},
        (1, 32768): {2048: 19.776},
        (1, 131072): {2048: 58.368},
        (1, 262144): {2048: 107.168},
        (16, 8192): {2048: 12.032},
        (16, 32768): {2048: 20.832},
        (16, 131072): {2048: 60.448},
        (16, 262144): {2048: 109.984},
        (64, 8192): {2048: 12.448},
        (64, 32768): {2048: 21.056},
        (64, 131072): {2048: 60.576},
        (64, 262144): {2048: 170.784},
        (128, 8192): {2048: 12.256},
        (128, 32768): {2048: 21.536},
        (128, 131072): {2048: 94.912},
        (128, 262144): {2048: 186.08},
        (1024, 8192): {2048: 49.472},
        (1024, 32768): {2048: 125.632},
        (1024, 131072): {2048: 449.824},
        (1024, 262144): {2048: 891.392},
    },
    ("vllm.persistent_topk", "vllm.histogram_256"): {
        (1, 32768): {512: 18.336, 2048: 20.96},
        (16, 32768): {512: 22.528, 2048: 25.76},
    },
    ("vllm.cooperative_topk", "vllm.cooperative_8"): {
        (1, 32768): {512: 10.88, 2048: 12.192},
        (1, 131072): {512: 13.504, 2048: 15.616},
        (1, 262144): {512: 16.928, 2048: 18.464},
    },
    ("vllm.persistent_topk", "vllm.radix"): {
        (1, 131072): {512: 23.968, 2048: 23.744},
        (1, 262144): {512: 24.416, 2048: 24.448},
        (16, 131072): {512: 45.92, 2048: 47.2},
        (16, 262144): {512: 51.392, 2048: 52.48},
    },
    ("vllm.cooperative_topk", "vllm.cooperative_4"): {
        (16, 32768): {512: 12.192, 2048: 13.504},
        (16, 131072): {512: 17.088, 2048: 19.456},
        (16, 262144): {512: 27.008, 2048: 29.408},
    },
    ("vllm.persistent_topk", "vllm.histogram_4096"): {
        (64, 8192): {512: 7.232, 2048: 7.456},
        (64, 32768): {512: 13.344, 2048: 17.248},
        (128, 8192): {512: 7.712, 2048: 7.712},
        (128, 32768): {512: 14.016, 2048: 17.952},
        (1024, 8192): {512: 35.84, 2048: 37.856},
        (1024, 32768): {512: 89.152, 2048: 110.24},
    },
    ("vllm.persistent_topk", "vllm.filtered"): {
        (64, 131072): {512: 40.576, 2048: 49.696},
        (64, 262144): {512: 94.464, 2048: 110.432},
        (128, 131072): {512: 56.64, 2048: 64.768},
        (128, 262144): {512: 103.904, 2048: 127.616},
        (1024, 131072): {512: 412.32, 2048: 486.784},
        (1024, 262144): {512: 778.432, 2048: 944.608},
    },
}


@dataclass(frozen=True)
class Cost:
    """What a selector takes beside another, as a ratio of medians.

    Attributes:
        least, most: the ratio, over the shapes that were measured near the calls in question.
        shapes: those, as (rows, scores of each). ops: who was measured, the one that is changed to first.
    """

    least: float
    most: float
    shapes: tuple[Shape, ...]
    ops: tuple[str, str]

    def beside(self, other: Cost | None) -> Cost:
        """Both together, of rows that a change takes to the same op."""
        if other is None:
            return self
        shapes = tuple(sorted({*self.shapes, *other.shapes}))
        return Cost(min(self.least, other.least), max(self.most, other.most), shapes, self.ops)


def cost_of(
    then: tuple[str, str], now: tuple[str, str], rows: int | None, length: int, k: int | None = None
) -> Cost | None:
    """What a call takes on another op, over what it takes now, at the nearest shape that both were measured at.

    Args:
        then, now: op and path. rows: of the call; ``None`` for any number. length: of the row. k: of the call: its own
            figures where there are some, else those of every k.

    Returns:
        The cost; ``None`` where it was not measured at a shape within a factor of ``NEAR``.
    """
    if then == now:
        return None
    one, other = MEDIANS_US.get(then, {}), MEDIANS_US.get(now, {})
    near = {shape: _distance(shape, rows, length) for shape in one if shape in other}
    near = {shape: off for shape, off in near.items() if max(off) <= math.log2(NEAR)}
    if not near:
        return None
    least = min(map(sum, near.values()))
    chosen = sorted(shape for shape, off in near.items() if sum(off) == least)
    ratios = []
    for shape in chosen:
        ks = [one_k for one_k in one[shape] if one_k in other[shape]]
        ratios += [one[shape][each] / other[shape][each] for each in ([k] if k in ks else ks)]
    return Cost(min(ratios), max(ratios), tuple(chosen), (then[0], now[0])) if ratios else None


def _distance(shape: Shape, rows: int | None, length: int) -> tuple[float, float]:
    """How far a shape is from a call, in powers of two: in rows and in length."""
    off_rows = 0.0 if rows is None else abs(math.log2(shape[0] / max(rows, 1)))
    return off_rows, abs(math.log2(shape[1] / max(length, 1)))
