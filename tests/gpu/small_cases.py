"""Run every kernel once on one small row: what compute-sanitizer is given.

compute-sanitizer --tool memcheck|racecheck|synccheck --error-exitcode 1 python3 -m tests.gpu.small_cases [GLOB]
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch

import torch

from tests.kernels.expected import CASES, rows_for, takes
from workbench.engines.cuda.launch import launch


def main(pattern: str = "*") -> int:
    """Launch each path and variant on the shortest row that it takes."""
    for path, variant in CASES:
        if not fnmatch(f"{path.name} {variant}", pattern):
            continue
        fitting = [row for row in rows_for(path, variant) if takes(path, path.variant(variant), row[1], row[2])]
        name, scores, k = min(fitting, key=lambda row: row[1].numel())
        lengths = torch.tensor([scores.numel(), k, 0], dtype=torch.int32, device="cuda")
        rows = scores.cuda()[None].expand(3, -1).contiguous()
        made = launch(path, variant, rows, lengths, k, histograms=True, dropped=64)
        torch.cuda.synchronize()
        print(f"{path.name} {variant}: {name}, k {k}, length {scores.numel()}, {len(made.reports)} rows", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
