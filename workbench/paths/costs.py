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
        (1, 8192): {512: 13.792, 2048: 13.856},
        (16, 8192): {512: 14.496, 2048: 15.808},
    },
    ("vllm.cooperative_topk", "vllm.histogram_4096"): {
        (1, 8192): {512: 6.464, 2048: 6.784},
        (16, 8192): {512: 6.784, 2048: 6.976},
    },
    ("torch.topk", "torch.topk"): {
        (1, 8192): {512: 51.712, 2048: 52.32},
        (1, 32768): {512: 71.424, 2048: 72.736},
        (1, 131072): {512: 81.312, 2048: 82.592},
        (1, 262144): {512: 91.968, 2048: 92.64},
        (16, 8192): {512: 61.376, 2048: 66.528},
        (16, 32768): {512: 80.576, 2048: 81.024},
        (16, 131072): {512: 104.832, 2048: 106.944},
        (16, 262144): {512: 119.552, 2048: 121.92},
        (64, 8192): {512: 79.488, 2048: 80.48},
        (64, 32768): {512: 98.88, 2048: 101.024},
        (64, 131072): {512: 167.136, 2048: 170.528},
        (64, 262144): {512: 289.696, 2048: 290.976},
        (128, 8192): {512: 89.408, 2048: 91.232},
        (128, 32768): {512: 126.08, 2048: 128.896},
        (128, 131072): {512: 290.016, 2048: 295.488},
        (128, 262144): {512: 486.656, 2048: 491.072},
        (1024, 8192): {512: 180.736, 2048: 221.024},
        (1024, 32768): {512: 503.648, 2048: 548.96},
        (1024, 131072): {512: 1618.112, 2048: 1682.336},
        (1024, 262144): {512: 3074.016, 2048: 3123.008},
    },
    ("sglang.fast_topk_v2", "sglang.fast_topk"): {
        (1, 8192): {2048: 10.912},
        (1, 32768): {2048: 19.84},
        (1, 131072): {2048: 58.528},
        (1, 262144): {2048: 107.392},
        (16, 8192): {2048: 12.224},
        (16, 32768): {2048: 20.8},
        (16, 131072): {2048: 60.384},
        (16, 262144): {2048: 109.92},
        (64, 8192): {2048: 12.448},
        (64, 32768): {2048: 21.024},
        (64, 131072): {2048: 60.896},
        (64, 262144): {2048: 175.168},
        (128, 8192): {2048: 12.448},
        (128, 32768): {2048: 21.088},
        (128, 131072): {2048: 96.736},
        (128, 262144): {2048: 188.32},
        (1024, 8192): {2048: 49.408},
        (1024, 32768): {2048: 125.408},
        (1024, 131072): {2048: 450.4},
        (1024, 262144): {2048: 890.272},
    },
    ("vllm.persistent_topk", "vllm.histogram_256"): {
        (1, 32768): {512: 18.272, 2048: 20.736},
        (16, 32768): {512: 22.048, 2048: 24.832},
    },
    ("vllm.cooperative_topk", "vllm.cooperative_8"): {
        (1, 32768): {512: 10.72, 2048: 12.064},
        (1, 131072): {512: 13.504, 2048: 15.488},
        (1, 262144): {512: 16.8, 2048: 18.432},
    },
    ("vllm.persistent_topk", "vllm.radix"): {
        (1, 131072): {512: 23.872, 2048: 23.712},
        (1, 262144): {512: 24.224, 2048: 24.384},
        (16, 131072): {512: 45.728, 2048: 47.2},
        (16, 262144): {512: 51.552, 2048: 52.352},
    },
    ("vllm.cooperative_topk", "vllm.cooperative_4"): {
        (16, 32768): {512: 12.032, 2048: 13.376},
        (16, 131072): {512: 16.992, 2048: 19.424},
        (16, 262144): {512: 26.784, 2048: 29.248},
    },
    ("vllm.persistent_topk", "vllm.histogram_4096"): {
        (64, 8192): {512: 7.136, 2048: 7.328},
        (64, 32768): {512: 13.12, 2048: 17.056},
        (128, 8192): {512: 7.52, 2048: 7.68},
        (128, 32768): {512: 13.952, 2048: 17.888},
        (1024, 8192): {512: 35.84, 2048: 37.664},
        (1024, 32768): {512: 88.896, 2048: 110.56},
    },
    ("vllm.persistent_topk", "vllm.filtered"): {
        (64, 131072): {512: 40.256, 2048: 49.76},
        (64, 262144): {512: 95.84, 2048: 111.872},
        (128, 131072): {512: 57.184, 2048: 65.248},
        (128, 262144): {512: 103.616, 2048: 126.208},
        (1024, 131072): {512: 414.432, 2048: 488.608},
        (1024, 262144): {512: 780.992, 2048: 945.696},
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
