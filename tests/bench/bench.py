"""Measure what the speed claims rest on and write it to docs/results/bench-cpu.json.

    python tests/bench/bench.py [--output FILE]

Ratios are taken within one run, alternating, best of many: other work on the machine shifts both sides alike.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import workbench as wb
from tests.bench.results import keep, on_host, parser_for
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import census
from workbench.paths.catalog import find_paths, get_path

LENGTH, K, ROWS = 262144, 2048, 33


def best(*functions: Callable[[], object], rounds: int = 60) -> list[float]:
    """Least milliseconds of each function over alternating rounds."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, seen in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            seen.append((time.perf_counter() - start) * 1e3)
    return [min(seen) for seen in times]


SIX = (
    "vllm.histogram_2048",
    "vllm.histogram_256",
    "vllm.histogram_4096",
    "vllm.filtered",
    "vllm.radix",
    "sglang.fast_topk",
)


def risk_against_topk() -> dict[str, object]:
    """Risk on the six first paths and on every path, against torch.topk, on one core."""
    torch.set_num_threads(1)
    six, every = tuple(map(get_path, SIX)), find_paths()
    found = []
    for seed in range(5):
        row = torch.randn(LENGTH, generator=torch.Generator().manual_seed(seed))
        topk_ms, six_ms, every_ms = best(
            lambda row=row: torch.topk(row, K),
            lambda row=row: census(RowProfile(row, "float32", K), six),
            lambda row=row: census(RowProfile(row, "float32", K), every),
        )
        found.append(
            {
                "seed": seed,
                "torch_topk_ms": round(topk_ms, 3),
                "six_paths_ms": round(six_ms, 3),
                "every_path_ms": round(every_ms, 3),
                "six_paths_ratio": round(six_ms / topk_ms, 3),
                "every_path_ratio": round(every_ms / topk_ms, 3),
                "breaches": [risk.path for risk in census(RowProfile(row, "float32", K), every) if risk.breach],
            }
        )
    return {
        "what": f"risk of a normal float32 row of {LENGTH} against torch.topk, k {K}, one core",
        "six_paths": SIX,
        "every_path": len(every),
        "rows": found,
        "worst_ratio": {
            "six paths": max(row["six_paths_ratio"] for row in found),
            "every path": max(row["every_path_ratio"] for row in found),
        },
        "wanted": {"six paths": "at most 1", "every path": "at most 1.5"},
    }


def inspect_command() -> dict[str, object]:
    """`workbench inspect` on a capture of 33 rows, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "normal.safetensors"
        call = wb.Call(k=K, rows=ROWS, width=LENGTH, stride=LENGTH, max_seq_len=LENGTH)
        generator = torch.Generator().manual_seed(0)
        wb.write(file, [wb.Row(torch.randn(LENGTH, generator=generator), LENGTH, call=call) for _ in range(ROWS)])
        found = {}
        for name, options in {
            "every path": [],
            "reached path": ["--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200"],
        }.items():
            start = time.perf_counter()
            command = [sys.executable, "-m", "workbench", "inspect", str(file), "--json", *options]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode not in (0, 1):
                sys.exit(done.stderr.decode())
            found[name] = round(time.perf_counter() - start, 2)
    return {
        "what": f"workbench inspect on {ROWS} x {LENGTH}, start-up included",
        "seconds": found,
        "wanted": "at most 10",
    }


SHRUNK = (
    ("vllm.histogram_256", 32768, 2048),
    ("vllm.filtered", LENGTH, 2048),
    ("vllm.cooperative_8", LENGTH, 2048),
    ("sglang.fast_topk", LENGTH, 2048),
    ("sglang.v2_cluster_8", LENGTH, 2048),
)


def shrink_rows() -> dict[str, object]:
    """Shrinking a row that overflows a path's buffer, on one core."""
    torch.set_num_threads(1)
    found = {}
    for path, length, k in SHRUNK:
        generator = torch.Generator().manual_seed(0)
        scores = torch.randn(length, generator=generator)
        crowd = torch.rand(length, generator=generator) < 0.3
        scores[crowd] = 4 + torch.rand(int(crowd.sum()), generator=generator) / 100
        shrunk = wb.shrink(wb.Row(scores, length, call=wb.Call(k=k)), path)
        if not shrunk.is_minimum:
            sys.exit(f"{path}: no minimum was reached")
        found[path] = {
            "from": [length, k],
            "to": [shrunk.after.length, shrunk.after.k],
            "candidates": shrunk.tried,
            "seconds": round(shrunk.seconds, 2),
        }
    return {
        "what": "wb.shrink of a normal row with three tenths of its scores in one bin, one core; sizes are [length, k]",
        "rows": found,
        "wanted": "at most 60 seconds each",
    }


def record_calls() -> dict[str, object]:
    """What recording adds to a call, on one core: of no row, of rows that are looked at, and of rows that are kept."""
    torch.set_num_threads(1)
    found = {}
    for rows, width, k in ((4, 64, 4), (8, 20000, 512), (33, 32768, K)):
        scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(0))

        def call(scores: torch.Tensor = scores, k: int = k) -> object:
            return torch.topk(scores, k)

        (off,) = best(call)
        added = {}
        for rule in ("sample:1e-9", "bad", "all"):
            with (
                tempfile.TemporaryDirectory() as folder,
                wb.record(folder, ops="torch.topk", rows=rule, flush=1e6, file_bytes="2GiB"),
            ):
                (on,) = best(call, rounds=20)
                added[rule] = round((on - off) * 1e3, 1)
        found[f"{rows} x {width}, k {k}"] = {"torch.topk": round(off * 1e3, 1), "added": added}
    return {"what": "microseconds a call of torch.topk, and what recording adds by its rule for rows", "calls": found}


def main() -> None:
    """Run the benchmarks, print them and write them."""
    output = parser_for(__doc__, "bench-cpu.json").parse_args().output
    result = {
        **on_host("torch", "numpy"),
        "command": "make bench",
        "risk": risk_against_topk(),
        "inspect": inspect_command(),
        "shrink": shrink_rows(),
        "record": record_calls(),
    }
    keep(output, result)


if __name__ == "__main__":
    main()
