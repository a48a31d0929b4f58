"""Audit a dump on one GPU and on two, each with a process of its own, and write docs/results/audit-gpus.json.

    python -m tests.bench.bench_audit_gpus [--output FILE]

The units of work of a real audit over every path, worker processes started beforehand: wall time. It needs two GPUs
and CuPy; the records of both runs are held equal.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch

from tests.bench.bench_audit import planned, rows
from workbench.audit.executors.front import make_executor
from workbench.audit.work import AuditTask
from workbench.capture import write_capture

ROOT = Path(__file__).parents[2]
FILES, ROWS, WIDTH, K = 64, 33, 262144, 2048


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results" / "audit-gpus.json")
    output = parser.parse_args().output
    if torch.cuda.device_count() < 2:
        sys.exit(f"{torch.cuda.device_count()} CUDA devices are visible to torch; two are needed")
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "0.safetensors"
        write_capture(first, rows(WIDTH, ROWS, K, 0, False))
        for number in range(1, FILES):
            (Path(folder) / f"{number}.safetensors").write_bytes(first.read_bytes())
        asked, plan = planned(Path(folder))
        jobs, found, payloads = list(plan.jobs()), [], []
        for workers in (1, 2):
            with make_executor("processes", workers, gpus=True) as executor:
                task = AuditTask(asked, "cuda")
                list(executor.run(task, jobs[: 4 * workers]))
                start = time.perf_counter()
                done = [result for _, result in executor.run(task, jobs)]  # type: ignore[misc]
                seconds = time.perf_counter() - start
            payloads.append([one.payload for one in sorted(done, key=lambda one: one.number)])
            found.append(
                {"workers": workers, "seconds": round(seconds, 3), "gb_s": round(plan.bytes / seconds / 1e9, 2)}
            )
        found[1]["times_one"] = round(found[0]["seconds"] / found[1]["seconds"], 2)
    if payloads[0] != payloads[1]:
        sys.exit("two workers gave other records than one")
    result = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "versions": {name: version(name) for name in ("torch", "numpy")} | {"cuda": torch.version.cuda},
        "command": f"python -m tests.bench.bench_audit_gpus --output {output.name}",
        "what": f"{FILES} files of {ROWS} x {WIDTH} float32, k {K}, every path; worker processes of one GPU each",
        "workers": found,
    }
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    output.write_text(text)


if __name__ == "__main__":
    main()
