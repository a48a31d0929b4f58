"""Measure reference and risk on a CUDA device and write docs/results/bench-gpu.json.

python tests/bench/bench_gpu.py [--output FILE]
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from importlib.metadata import version
from pathlib import Path

import torch

from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import census
from workbench.capture.row import Row

ROOT = Path(__file__).parents[2]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "bench-gpu.json")
    output = parser.parse_args().output
    result = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "versions": {name: version(name) for name in ("torch", "numpy")} | {"cuda": torch.version.cuda},
        "command": "python tests/bench/bench_gpu.py",
        "what": f"{ROWS} normal float32 rows of {LENGTH}, k {K}, one after another; seconds, best of five",
        "cuda": seconds("cuda"),
        "host cpu": seconds("cpu") | {"threads": torch.get_num_threads()},
    }
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    output.write_text(text)


if __name__ == "__main__":
    main()
