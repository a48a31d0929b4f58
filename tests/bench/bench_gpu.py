"""Measure reference and risk on a CUDA device and write docs/results/bench-gpu.json.

python tests/bench/bench_gpu.py [--output FILE]
"""

from __future__ import annotations

import time

import torch

from tests.bench.results import keep, on_gpu, parser_for
from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import census
from workbench.capture.row import Row

ROWS, LENGTH, K = 33, 262144, 2048


def seconds(device: str) -> dict[str, float]:
    """Wall-clock seconds for the census and the reference of 33 rows, best of five."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(LENGTH, generator=generator).to(device) for _ in range(ROWS)]
    best = {"census of every path": 1e9, "reference": 1e9}
    for _ in range(5):
        for name, work in {
            "census of every path": lambda row: census(RowProfile(row, "float32", K)),
            "reference": lambda row: reference(Row(row, LENGTH), K),
        }.items():
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for row in rows:
                work(row)
            if device == "cuda":
                torch.cuda.synchronize()
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: round(value, 4) for name, value in best.items()}


def main() -> None:
    """Measure on the GPU and, beside it, on the host's CPU."""
    output = parser_for(__doc__, "bench-gpu.json").parse_args().output
    result = {
        **on_gpu(),
        "command": "python tests/bench/bench_gpu.py",
        "what": f"{ROWS} normal float32 rows of {LENGTH}, k {K}, one after another; seconds, best of five",
        "cuda": seconds("cuda"),
        "host cpu": seconds("cpu") | {"threads": torch.get_num_threads()},
    }
    keep(output, result)


if __name__ == "__main__":
    main()
