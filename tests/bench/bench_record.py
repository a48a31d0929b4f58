"""Record calls of a released vLLM library on a CUDA device: what is kept, and what a call costs with recording on.

python tests/bench/bench_record.py --library PATH/_C_stable_libtorch.abi3.so [--release vllm==0.26.0] [--output FILE]

The library is the one that registers ``torch.ops._C.persistent_topk`` in a released wheel. Needs no
vLLM; with CuPy and NVRTC, rows are screened by kernels.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import workbench as wb
from tests.bench.results import keep, on_gpu, parser_for
from workbench.analysis.reference import reference
from workbench.analysis.verdict import judge
from workbench.capture.row import Call, Row
from workbench.engines.cuda.screen import lacks
from workbench.record.surroundings import device_name

K, WORKSPACE = 2048, 1 << 20
# (rows, width): the filtered path, the same of the rows that one block serves, and a short one
SHAPES = ((64, 131072), (33, 32768), (8, 16384))


def crowded(width: int, generator: torch.Generator) -> torch.Tensor:
    """A row whose scores share one 8-bit bin, more of them than any buffer holds."""
    return 1 + 0.2 * torch.rand(width, generator=generator, device="cuda")


class Batch:
    """A call of ``persistent_topk`` and what it works on, on the GPU."""

    def __init__(self, rows: int, width: int, bad: set[int], seed: int) -> None:
        generator = torch.Generator("cuda").manual_seed(seed)
        self.scores = torch.randn(rows, width, generator=generator, device="cuda")
        for row in bad:
            self.scores[row] = crowded(width, generator)
        self.lengths = torch.full((rows,), width, dtype=torch.int32, device="cuda")
        self.output = torch.full((rows, K), -777, dtype=torch.int32, device="cuda")
        self.workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda")

    def __call__(self) -> None:
        torch.ops._C.persistent_topk(self.scores, self.lengths, self.output, self.workspace, K, self.scores.shape[1])

    def lossy(self) -> list[int]:
        """Rows of the last call that lack a winner or are invalid."""
        found = []
        for at, scores in enumerate(self.scores):
            row = Row(scores, scores.numel(), call=Call(k=K))
            if judge(scores, reference(row).indices, self.output[at]).kind in ("lossy", "invalid"):
                found.append(at)
        return found


def kept_rows(release: str, calls: int = 40) -> dict[str, object]:
    """A mix of calls with and without bad rows: what is kept against what each call returned."""
    rows, width = 64, 131072
    lossy: list[tuple[int, int]] = []
    given: dict[tuple[int, int], torch.Tensor] = {}
    with tempfile.TemporaryDirectory() as folder:
        with wb.record(folder, ops="vllm.persistent_topk", rows="bad", release=release, flush=1000) as recorder:
            for step in range(calls):
                bad = {step % rows, (7 * step) % rows} if step % 5 == 0 else set()
                batch = Batch(rows, width, bad, seed=step)
                recorder.step(step)
                batch()
                lossy += [(step, row) for row in batch.lossy()]
                given |= {(step, row): batch.scores[row].cpu() for row in bad}
        found = []
        for path in recorder.files:
            with wb.open(path) as capture:
                for row in capture:
                    match = [key for key, scores in given.items() if key[0] == row.call.step and same(scores, row)]
                    found += match or [(row.call.step, None)]
    risky = [key for key in found if key not in lossy]
    return {
        "what": f"{calls} calls of {rows} x {width}, k {K}; every fifth has rows that share one coarse bin",
        "rows": rows * calls,
        "lossy rows returned": len(lossy),
        "rows kept": len(found),
        "lossy rows that were missed": [key for key in lossy if key not in found],
        "rows kept that lost nothing (at risk)": risky,
        "kept exactly the lossy rows": sorted(found, key=str) == sorted(lossy, key=str),
        "stopped": recorder.stopped,
    }


def same(scores: torch.Tensor, row: Row) -> bool:
    """Equal bit for bit."""
    return torch.equal(scores.view(torch.int32), row.scores.view(torch.int32))


def micros(call: Callable[[], None], rounds: int, each: int) -> tuple[float, float]:
    """Wall-clock microseconds a call, best and median of rounds, the device waited for at the end of each round."""
    seen = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(each):
            call()
        torch.cuda.synchronize()
        seen.append((time.perf_counter() - start) / each * 1e6)
    seen.sort()
    return round(seen[0], 1), round(seen[len(seen) // 2], 1)


def overhead(release: str) -> list[dict[str, object]]:
    """What a call without bad rows costs with recording off, and on by each rule."""
    found = []
    for rows, width in SHAPES:
        batch = Batch(rows, width, set(), seed=1)
        for _ in range(10):
            batch()
        times: dict[str, tuple[float, float]] = {"off": micros(batch, 30, 50)}
        for rule, each in (("sample:1e-9", 50), ("bad", 50), ("all", 2)):
            with tempfile.TemporaryDirectory() as folder:
                options = {"rows": rule, "release": release, "flush": 1e6, "file_bytes": "64GiB"}
                with wb.record(folder, ops="vllm.persistent_topk", **options) as recorder:
                    times[f"rows={rule}"] = micros(batch, 10 if rule != "all" else 3, each)
                    recorder._files._held.clear()  # what was held for timing is not written
        times["off again"] = micros(batch, 30, 50)
        found.append(
            {
                "shape": [rows, width],
                "microseconds a call [best, median]": times,
                "added by rows=bad, median": round(times["rows=bad"][1] - times["off"][1], 1),
                "added by rows=all, median": round(times["rows=all"][1] - times["off"][1], 1),
            }
        )
    return found


def captured_graph(release: str) -> dict[str, object]:
    """Capturing a CUDA graph with recording on: the capture holds, and the recorder says that it saw no values."""
    batch = Batch(8, 16384, set(), seed=2)
    batch()
    expected = batch.output.sort(1).values.clone()
    with tempfile.TemporaryDirectory() as folder, wb.record(folder, rows="all", release=release) as recorder:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            batch()
        batch.output.fill_(-777)
        graph.replay()
        torch.cuda.synchronize()
    return {
        "replayed as before": torch.equal(batch.output.sort(1).values, expected),
        "skipped": dict(recorder.skipped),
        "rows": recorder.rows,
    }


def main() -> None:
    """Run on the GPU, print and write."""
    parser = parser_for(__doc__, "record-gpu.json")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--release", default="vllm==0.26.0")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device is visible to torch")
    torch.ops.load_library(arguments.library)
    result = {
        **on_gpu(),
        "device as recorded": device_name(torch.device("cuda", 0)),
        "release": arguments.release,
        "screened without waiting": not lacks(torch.cuda.current_device()),
        "command": f"python tests/bench/bench_record.py --library {arguments.library.name}",
        "kept": kept_rows(arguments.release),
        "overhead": overhead(arguments.release),
        "graph": captured_graph(arguments.release),
    }
    keep(arguments.output, result)


if __name__ == "__main__":
    main()
