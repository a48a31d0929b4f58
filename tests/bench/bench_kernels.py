"""Time released ops and the workbench's kernels of the paths that they take, side by side, and write one JSON.

python3 -m tests.bench.bench_kernels --output FILE [--l2 warm|cold|both] [--samples N] [--rows N,N…] [--width N,N…]

It needs a GPU, CuPy and the releases in the store (`workbench vendor add`, or `workbench vendor unpack` without a
network). The kernels are built without telemetry. Interrupted, it leaves what is done. The exit code is 1 if a
selection was wrong or a kernel takes more than 1.5 times as long as its op, 2 if nothing was measured.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from workbench.engines.timing import Sampling
from workbench.runs.bench import Bench, Plan, run_bench
from workbench.runs.bench_grid import caches, contenders, grid
from workbench.runs.bench_saved import BenchFile
from workbench.runs.bench_words import bench_sentence

OPS = ("vllm.persistent_topk", "vllm.cooperative_topk", "sglang.fast_topk_v2")
RELEASES = ("vllm==0.26.0", "sglang-kernel==0.4.6")
ENGINES = ("vendor", "cuda", "torch.topk")
ROWS, WIDTHS, KS = (1, 16, 64, 128, 1024), (8192, 32768, 131072, 262144), (512, 2048)
MOST = 1.5


def plan(given: argparse.Namespace) -> Plan:
    """What is measured."""
    shapes = grid(_integers(given.rows), _integers(given.width), KS)
    return Plan(
        tuple(shapes),
        tuple(contenders(ENGINES, OPS, RELEASES)),
        caches(given.l2),
        given.device,
        Sampling(given.samples, given.warmups),
    )


def summary(bench: Bench) -> list[str]:
    """A line for each kernel beside its op, those beyond the bound marked, and one for each reason of a refusal."""
    found = [bench_sentence(bench)]
    for at, ratio in bench.beside_op().items():
        cell = bench.cells[at]
        shape, spread = cell.shape, cell.spread
        assert spread is not None
        found.append(
            f"{'OVER' if ratio.of_medians > MOST else 'ok  '} {ratio.of_medians:5.2f} ({ratio.low:.2f} to "
            f"{ratio.high:.2f}) {spread.median:9.2f} µs {cell.l2} rows {shape.rows} width {shape.width} k {shape.k} "
            f"{cell.contender.op} {', '.join(cell.paths)}"
        )
    refused = {(str(cell.contender), "; ".join(cell.refused) or cell.fault) for cell in bench.cells if not cell.spread}
    return [*found, *(f"not measured: {who}: {why}" for who, why in sorted(refused))]


def over(bench: Bench) -> int:
    """Kernels that take too long."""
    return sum(ratio.of_medians > MOST for ratio in bench.beside_op().values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--l2", default="both")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--warmups", type=int, default=3)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--width", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--device", default="h200", help="as routing knows the GPU")
    given = parser.parse_args(arguments)
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    command = shlex.join(["python3", "-m", "tests.bench.bench_kernels", *words])
    file, held = BenchFile(given.output, overwrite=True), []

    def keep(bench: Bench) -> None:
        held[:] = [replace(bench, about=bench.about | {"command": command})]
        file.keep(held[0])
        print(f"{len(bench.cells)} of {bench.plan.cells} cells", file=sys.stderr)

    try:
        run_bench(plan(given), on_cells=keep)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    file.keep(held[0], now=True)
    print("\n".join(summary(held[0])))
    if not held[0].measured:
        return 2
    return 1 if held[0].wrong or over(held[0]) else 0


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
