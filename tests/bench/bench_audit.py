"""Measure an audit and write it to docs/results/audit-cpu.json.

    python tests/bench/bench_audit.py [--output FILE]

What one core does is taken from the time that the process had on it, alternating, best of several: other work on the
machine hardly shows. Scaling is wall time, workers started beforehand, and wants a machine without other work.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tests.bench.results import keep, on_host, parser_for

sys.path.insert(0, str(Path(__file__).parents[2]))

from workbench.audit.asked import Asked, located
from workbench.audit.executors.front import make_executor
from workbench.audit.plan import AuditPlan, make_plan
from workbench.audit.work import AuditTask, Worker
from workbench.capture import Call, Row, open_capture, write_capture

SHAPES = ((262144, 33, 2048), (32768, 128, 2048), (4096, 512, 512))  # scores, rows, k


def rows(length: int, count: int, k: int, seed: int, recorded: bool) -> list[Row]:
    """Normal rows of one call whose path is known."""
    generator = torch.Generator().manual_seed(seed)
    call = Call(
        k=k,
        rows=count,
        width=length,
        stride=length,
        next_n=1,
        max_seq_len=length,
        op="vllm.persistent_topk",
        release="vllm==0.26.0",
        device="h200",
    )
    scores = [torch.randn(length, generator=generator) for _ in range(count)]
    return [
        Row(one, length, call=call, indices=one.topk(k).indices.to(torch.int32) if recorded else None) for one in scores
    ]


def least(*functions: Callable[[], object], rounds: int = 5) -> list[float]:
    """Least seconds on a core of each function over alternating rounds."""
    found: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, seen in zip(functions, found, strict=True):
            start = time.process_time()
            function()
            seen.append(time.process_time() - start)
    return [min(seen) for seen in found]


def planned(what: Path) -> tuple[Asked, AuditPlan]:
    """The plan of an audit over every path."""
    asked = Asked(*located(what))
    return asked, make_plan(asked)


def one_core(folder: Path) -> list[dict[str, object]]:
    """The work on a unit, beside torch.topk of the same rows out of the same file, and beside reading it."""
    torch.set_num_threads(1)
    found = []
    for length, count, k in SHAPES:
        for recorded in (False, True):
            path = folder / f"{length}-{recorded}.safetensors"
            write_capture(path, rows(length, count, k, 0, recorded))
            asked, plan = planned(path)
            worker, jobs = Worker(asked), list(plan.jobs())

            def work(worker: Worker = worker, jobs: list[object] = jobs) -> None:  # type: ignore[assignment]
                for job in jobs:
                    worker(job)  # type: ignore[arg-type]

            def topk(path: Path = path, k: int = k) -> None:
                with open_capture(path) as capture:
                    for row in capture:
                        torch.topk(row.scores, k)

            def read(path: Path = path) -> None:
                with open_capture(path) as capture:
                    for row in capture:
                        assert row.length

            audited, selected, taken = least(work, topk, read)
            found.append(
                {
                    "rows": count,
                    "scores": length,
                    "k": k,
                    "recorded": recorded,
                    "audit_gb_s": round(plan.bytes / audited / 1e9, 4),
                    "audit_ms_a_row": round(audited / count * 1e3, 3),
                    "topk_gb_s": round(plan.bytes / selected / 1e9, 4),
                    "read_gb_s": round(plan.bytes / taken / 1e9, 3),
                    "times_topk": round(audited / selected, 2),
                }
            )
    return found


def scaling(folder: Path, files: int = 48) -> list[dict[str, object]]:
    """Wall time over a dump, by one worker process and by two, after each has worked off a unit."""
    (folder / "dump").mkdir()
    for number in range(files):
        write_capture(folder / "dump" / f"{number}.safetensors", rows(262144, 16, 2048, number, False))
    asked, plan = planned(folder / "dump")
    jobs = list(plan.jobs())
    found: list[dict[str, object]] = []
    for workers in (1, 2):
        with make_executor("processes", workers) as executor:
            list(executor.run(AuditTask(asked), jobs[: 2 * workers]))
            start = time.perf_counter()
            list(executor.run(AuditTask(asked), jobs))
            seconds = time.perf_counter() - start
        found.append({"workers": workers, "seconds": round(seconds, 2), "gb_s": round(plan.bytes / seconds / 1e9, 3)})
    found[1]["times_one"] = round(found[0]["seconds"] / found[1]["seconds"], 2)  # type: ignore[operator]
    return found


def main() -> None:
    """Measure and write."""
    output = parser_for(__doc__, "audit-cpu.json").parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        measured = {
            **on_host("torch", "numpy", "pyarrow"),
            "command": "make bench",
            "one_core": {
                "what": "a unit of an audit over every path, on one core: time on the core, best of five",
                "measured": one_core(Path(folder)),
            },
            "peak_mib": {
                "what": "peak resident size of that process, in which all of the above ran",
                "measured": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            },
            "workers": {
                "what": "48 files of 16 x 262144, worker processes started beforehand: wall time",
                "measured": scaling(Path(folder)),
            },
        }
    keep(output, measured)


if __name__ == "__main__":
    main()
