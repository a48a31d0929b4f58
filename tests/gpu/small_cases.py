"""Run every kernel on small rows: what compute-sanitizer is given.

compute-sanitizer --tool memcheck|racecheck|synccheck --error-exitcode 1 python3 -m tests.gpu.small_cases [GLOB] [KINDS]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatch

import torch

from tests.kernels.expected import CASES, rows_for, takes
from tests.kernels.returned import emissions
from workbench.engines.cuda.launch import launch
from workbench.paths.spec import Path

KINDS = (
    "least length",
    "minus infinity",
    "one bin",
)  # what the cut falls into: nothing, more than is ranked, a full buffer


def chosen(path: Path, variant: str, kinds: int) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Of each kind the shortest row that a variant takes."""
    fitting = [row for row in rows_for(path, variant) if takes(path, path.variant(variant), row[1], row[2])]
    for kind in KINDS[:kinds]:
        of_kind = [row for row in fitting if row[0] == kind] or fitting
        yield min(of_kind, key=lambda row: row[1].numel())


def main(pattern: str = "*", kinds: str = "1") -> int:
    """Launch each path and variant on a row of each kind, once as positions and once through page tables."""
    for path, variant in CASES:
        if not fnmatch(f"{path.name} {variant}", pattern):
            continue
        for name, scores, k in chosen(path, variant, int(kinds)):
            lengths = [scores.numel(), k, 0]
            rows, given = scores.cuda()[None].expand(3, -1).contiguous(), torch.tensor(lengths, dtype=torch.int32)
            emission = next(iter(emissions(lengths, "cuda")))[1]
            made = launch(path, variant, rows, given.cuda(), k, histograms=True, dropped=64)
            launch(path, variant, rows, given.cuda(), k, emission=emission, positions=True)
            torch.cuda.synchronize()
            print(
                f"{path.name} {variant}: {name}, k {k}, length {scores.numel()}, {len(made.reports)} rows", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
