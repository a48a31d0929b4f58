"""Count where each kernel spends its time, with Nsight Compute, and write one JSON.

python3 -m tests.bench.bench_profile --output FILE [--path GLOB] [--rows N]

It needs a GPU whose counters may be read, CuPy and ``ncu`` on the PATH. Every path that has a kernel is launched once
on plain random scores, built without telemetry; clocks are left as they are.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from tests.bench.results import keep, on_gpu, parser_for
from workbench.engines.cuda import compile
from workbench.engines.cuda.compile import ENTRY
from workbench.engines.cuda.launch import needs_of, prepare
from workbench.engines.cuda.sources import kernel_of
from workbench.paths import spec
from workbench.paths.catalog import find_paths

ROOT = Path(__file__).parents[2]
WIDTHS, KS = (262144, 131072, 32768, 8192, 4096), (2048, 1024, 512)
SECTIONS = ("SpeedOfLight", "WarpStateStats", "Occupancy", "LaunchStats", "InstructionStats", "SourceCounters")
LINES = 5  # the most sampled lines of a kernel that are told
CONFLICTS, READ = "l1tex__data_bank_conflicts_pipe_lsu.sum", "dram__bytes_read.sum"
STALL, ISSUE = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
COUNTERS = {
    "microseconds": ("gpu__time_duration.sum", 1e-3),  # ncu is asked for base units, here nanoseconds
    "DRAM, % of peak": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "SM, % of peak": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "warps active, % of peak": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1),
    "instructions": ("smsp__inst_executed.sum", 1),
    "bytes read from DRAM": (READ, 1),
    "shared bank conflicts": (CONFLICTS, 1),
    "registers a thread": ("launch__registers_per_thread", 1),
    "blocks": ("launch__grid_size", 1),
    "threads a block": ("launch__block_size", 1),
}


def cases(pattern: str, rows: int) -> Iterator[tuple[spec.Path, torch.Tensor, torch.Tensor, int]]:
    """Of each path the longest row of ``WIDTHS`` and the greatest k of ``KS`` that it takes."""
    generator = torch.Generator("cuda").manual_seed(0)
    for path in find_paths():
        if kernel_of(path, "stock") is None or path.family == "identity" or not fnmatch(path.name, pattern):
            continue
        dtype = getattr(torch, path.dtypes[0])
        for width, k in ((width, k) for width in WIDTHS for k in KS):
            if path.unmet(k=k, length=width, dtype=path.dtypes[0]):
                continue
            if needs_of(path, "stock", 0, rows=rows, width=width, k=k, telemetry=False):
                continue
            scores = torch.randn(rows, width, generator=generator, device="cuda").to(dtype)
            yield path, scores, torch.full((rows,), width, dtype=torch.int32, device="cuda"), k
            break


def launches(pattern: str, rows: int, told: Path) -> None:
    """Launch each of the cases where the profiler sees it, and tell in a file which they were."""
    compile.COMPILER += ("-lineinfo",)  # the same machine code, and the line of each instruction
    seen = []
    for path, scores, lengths, k in cases(pattern, rows):
        call = prepare(path, "stock", scores, lengths, k, telemetry=False)
        call()
        torch.cuda.synchronize()
        with torch.cuda.profiler.profile():
            call()
            torch.cuda.synchronize()
        seen.append({"path": path.name, "rows": rows, "width": scores.shape[1], "k": k})
    told.write_text(json.dumps(seen))


def counters(text: str) -> list[dict[str, Any]]:
    """What ncu's raw page says of each launch, as ``COUNTERS`` names it, and the share of each reason to wait."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first has the units
    found = []
    for row in rows:
        one: dict[str, Any] = {
            name: round(_number(row[metric]) * scale, 3) for name, (metric, scale) in COUNTERS.items()
        }
        waits = {
            name.removeprefix(STALL).removesuffix(ISSUE): _number(value)
            for name, value in row.items()
            if name.startswith(STALL) and name.endswith(ISSUE) and "not_issued" not in name
        }
        found.append(one | {"share of a warp's time": _shares(waits)})
    return found


def where(text: str) -> dict[str, dict[str, float]]:
    """What ncu's source page says of one launch: samples by file, and by the lines that have most of them."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    file, at = "", -1
    for row in csv.reader(line for line in text.splitlines() if line.startswith('"')):
        if row[0] == "File Path":
            file = Path(row[1]).name
        elif row[0] == "Line No":
            at = row.index("# Samples")
        elif row[0].isdigit() and row[at].isdigit():  # a line of the source, then come its instructions
            files[file] += int(row[at])
            lines[f"{file}:{row[0]}"] += int(row[at])
    top = dict(list(_shares(lines).items())[:LINES])
    return {"share of samples, by file": _shares(files), "share of samples, by line": top}


def _shares(counted: Mapping[str, float]) -> dict[str, float]:
    """Those above a half per thousand, the greatest first."""
    whole = sum(counted.values())
    ranked = sorted(counted.items(), key=lambda item: -item[1])
    return {name: round(it / whole, 3) for name, it in ranked if it * 2000 > whole}


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def profiled(pattern: str, rows: int, ncu: str) -> tuple[list[dict[str, Any]], str]:
    """Each case with its counters, and ncu's version."""

    def said(*words: str) -> str:
        ended = subprocess.run([ncu, *words], cwd=ROOT, check=False, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"ncu {shlex.join(words)} ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    with tempfile.TemporaryDirectory() as folder:
        told, report = Path(folder, "cases.json"), str(Path(folder, "report.ncu-rep"))
        command = ["--clock-control", "none", "--profile-from-start", "off", "--kernel-name", ENTRY, "-o", report]
        command += [word for section in SECTIONS for word in ("--section", section)]
        command += ["--metrics", f"{CONFLICTS},{READ}", sys.executable, "-m", "tests.bench.bench_profile"]
        said(*command, "--told", str(told), "--path", pattern, "--rows", str(rows))
        launched = json.loads(told.read_text())
        counted = counters(said("-i", report, "--csv", "--page", "raw", "--print-units", "base"))
        if len(launched) != len(counted):
            sys.exit(f"{len(launched)} launches were made, and {len(counted)} were profiled")
        source = ("-i", report, "--csv", "--page", "source", "--print-source", "cuda,sass", "--launch-count", "1")
        placed = [where(said(*source, "--launch-skip", str(at))) for at in range(len(launched))]
    words = said("--version").split()
    kernels = [a | b | c for a, b, c in zip(launched, counted, placed, strict=True)]
    return kernels, words[words.index("Version") + 1]


def main() -> int:
    """Profile and write."""
    parser = parser_for(__doc__, "profile-h200.json")
    parser.add_argument("--path", default="*")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.told:
        launches(given.path, given.rows, given.told)
        return 0
    ncu = shutil.which("ncu")
    if ncu is None or not torch.cuda.is_available():
        sys.exit("no ncu is on the PATH" if ncu is None else "no CUDA device is visible to torch")
    kernels, said = profiled(given.path, given.rows, ncu)
    result = {
        **on_gpu(ncu=said),
        "command": f"python3 -m tests.bench.bench_profile --output {given.output.name}",
        "what": f"{given.rows} rows of plain random scores, the longest and the greatest k that a path takes",
        "kernels": kernels,
    }
    keep(given.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
