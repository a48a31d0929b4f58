"""Audit a dump on one GPU and on two, each with a process of its own, and write docs/results/audit-gpus.json.

    python -m tests.bench.bench_audit_gpus [--output FILE]

The units of work of a real audit over every path, worker processes started beforehand: wall time. It needs two GPUs
and CuPy; the records of both runs are held equal.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.bench.bench_audit import planned, rows
from tests.bench.results import keep, on_gpu, parser_for
from workbench.audit.executors.front import make_executor
from workbench.audit.work import AuditTask
from workbench.capture import write_capture

FILES, ROWS, WIDTH, K = 64, 33, 262144, 2048


def main() -> None:
    """Measure and write."""
    output = parser_for(__doc__, "audit-gpus.json").parse_args().output
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
        **on_gpu(),
        "command": f"python -m tests.bench.bench_audit_gpus --output {output.name}",
        "what": f"{FILES} files of {ROWS} x {WIDTH} float32, k {K}, every path; worker processes of one GPU each",
        "workers": found,
    }
    keep(output, result)


if __name__ == "__main__":
    main()
