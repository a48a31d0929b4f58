"""Measure counts of a batch on a CUDA device against its read bandwidth, an audit's census, and the recorder's filter.

python3 -m tests.bench.bench_census [--output FILE]

Needs CuPy and NVRTC; no released library: the op that is recorded copies a selection that was made before.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import pytest
import torch
from torch.library import Library

import workbench as wb
from tests.bench.bench_record import SHAPES, K, micros
from tests.bench.results import keep, on_gpu, parser_for
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk, census
from workbench.engines.cuda.census import count_rows
from workbench.engines.cuda.positions import positions_of
from workbench.engines.cuda.screen import screen_rows
from workbench.engines.timing import Sampling, measure_machine, sample
from workbench.paths.catalog import find_paths
from workbench.record import awaited
from workbench.record.interfaces import INTERFACES
from workbench.record.reading import Seen
from workbench.record.screening import gates

ROWS, WIDTH, AUDITED = 1024, 262144, 33
WANTED = 0.6  # of the read bandwidth
AS_IS, SHARE = "as it is", "share of read bandwidth"
TIMES = Sampling(10, 3)
BUILDS: tuple[dict[str, int], ...] = (
    {},
    {"SPREAD": 0},
    {"COPIES": 2},
    {"COPIES": 4},
    {"LOADS": 2},
    {"LOADS": 2, "RESIDENT": 4},
)
OPS = {
    "vllm.persistent_topk": (
        "_C",
        "persistent_topk(Tensor logits, Tensor lengths, Tensor! output, Tensor workspace, int k, int max_seq_len) "
        "-> ()",
    ),
    "sglang.fast_topk_transform_fused": (
        "sgl_kernel",
        "fast_topk_transform_fused(Tensor score, Tensor lengths, Tensor dst_page_table, Tensor src_page_table, "
        "Tensor cu_seqlens_q, Tensor? row_starts) -> ()",
    ),
}
RELEASES = {"vllm.persistent_topk": "vllm==0.26.0", "sglang.fast_topk_transform_fused": "sglang-kernel==0.4.6"}


def batches() -> dict[str, Callable[[], torch.Tensor]]:
    """Scores by how they are spread, [ROWS, WIDTH] on the device."""
    shape, generator = (ROWS, WIDTH), torch.Generator("cuda").manual_seed(1)
    return {
        "uniform": lambda: torch.rand(shape, generator=generator, device="cuda"),
        "normal": lambda: torch.randn(shape, generator=generator, device="cuda"),
        "constant": lambda: torch.full(shape, 0.75, device="cuda"),
        "peaky": lambda: 1 + 0.2 * torch.rand(shape, generator=generator, device="cuda"),
        "few values": lambda: torch.randint(0, 9, shape, generator=generator, device="cuda").float(),
        "half -inf": lambda: torch.randn(shape, generator=generator, device="cuda").where(
            torch.rand(shape, generator=generator, device="cuda") < 0.5, -torch.inf
        ),
    }


def counted(read_gbs: float) -> dict[str, dict[str, dict[str, float]]]:
    """GB/s of the counts and the share of the read bandwidth, for each spread of scores and build of the kernel."""
    found = {}
    for name, make in batches().items():
        scores = make()
        found[name] = {
            ", ".join(f"{one} {value}" for one, value in options.items()) or AS_IS: speed(scores, options, read_gbs)
            for options in BUILDS
        }
        del scores
        torch.cuda.empty_cache()
    return found


def speed(scores: torch.Tensor, options: dict[str, int], read_gbs: float) -> dict[str, float]:
    """Of one build on one batch."""
    lengths = torch.full((ROWS,), WIDTH, dtype=torch.int32, device="cuda")

    def count() -> None:
        count_rows(scores, lengths, K, options=dict(options))

    times = sample(count, _nothing, TIMES, scores.device)
    gbs = scores.numel() * 4 / statistics.median(times.seconds) / 1e9
    return {"GB/s": round(gbs, 1), SHARE: round(gbs / read_gbs, 3), "late": times.late}


def audit() -> dict[str, object]:
    """Census of every path on AUDITED rows, as an audit asks for it: wall-clock seconds, best of five."""
    generator = torch.Generator("cuda").manual_seed(2)
    scores = torch.randn(AUDITED, WIDTH, generator=generator, device="cuda")
    scores[::8] = 1 + 0.2 * torch.rand(WIDTH, generator=generator, device="cuda")
    lengths = torch.full((AUDITED,), WIDTH, dtype=torch.int32, device="cuda")

    def by_counts() -> list[list[Risk]]:
        counts = count_rows(scores, lengths, K).rows()
        return [census(RowProfile(row, "float32", K, counts=one)) for row, one in zip(scores, counts, strict=True)]

    def by_rows() -> list[list[Risk]]:
        return [census(RowProfile(row, "float32", K)) for row in scores]

    found: dict[str, object] = {
        "what": f"{AUDITED} rows of {WIDTH}, every eighth in one 8-bit bin, k {K}, {len(find_paths())} paths",
        "same": by_counts() == by_rows(),
    }
    for name, work in (("counts of the batch", by_counts), ("each row by itself", by_rows)):
        best = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            best.append(time.perf_counter() - start)
        found[f"seconds, {name}"] = round(min(best), 4)
    return found


def recorded(op: str, rows: int, width: int, read_gbs: float) -> dict[str, object]:
    """What recording with rows=bad adds to a call that selects well, by the kernels and by torch's own passes."""
    generator = torch.Generator("cuda").manual_seed(3)
    scores = torch.randn(rows, width, generator=generator, device="cuda")
    lengths = torch.full((rows,), width, dtype=torch.int32, device="cuda")
    best = scores.topk(K).indices.to(torch.int32)
    bounds, workspace = torch.arange(rows + 1, dtype=torch.int32, device="cuda"), torch.empty(16, device="cuda")
    paged = op.endswith("fused")
    table = torch.randperm(rows * width, generator=generator, device="cuda").reshape(rows, width).to(torch.int32)
    slots = table.gather(1, best.long()) if paged else best
    output, (namespace, schema) = torch.empty_like(best), OPS[op]
    library, fit, name = Library(namespace, "FRAGMENT"), awaited.is_fit, schema.partition("(")[0]
    library.define(schema)
    library.impl(name, lambda *given: (given[2].copy_(slots), None)[1], "CUDA")

    def call() -> None:
        if paged:
            torch.ops.sgl_kernel.fast_topk_transform_fused(scores, lengths, output, table, bounds, None)
        else:
            torch.ops._C.persistent_topk(scores, lengths, output, workspace, K, width)

    def screened() -> None:
        selected = positions_of(slots, lengths, width, K, table=table) if paged else best
        screen_rows(scores, lengths, selected, buffers)

    interface = next(one for one in INTERFACES if one.op == op)
    seen = Seen(interface, scores, scores.stride(0), lengths, None, K, table=table if paged else None)
    try:
        call()
        times, kept = {"off": micros(call, 20, 50)}, {}
        for way, rule in (("sample:1e-9", "sample:1e-9"), ("bad, kernels", "bad"), ("bad, torch", "bad")):
            with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
                if "torch" in way:
                    patch.setattr(awaited, "is_fit", lambda seen: False)
                options = {"rows": rule, "release": RELEASES[op], "flush": 1e6}
                with wb.record(folder, ops=op, **options) as recorder:
                    micros(call, 1, 10)
                    times[way] = micros(call, 10, 10 if "torch" in way else 50)
                kept[way] = recorder.rows
                if "kernels" in way and (recorder._awaited.unfit or not fit(seen)):
                    sys.exit(f"the kernels did not run: {recorder._awaited.unfit}")
    finally:
        library._destroy()
    buffers = gates(op, K)
    device = sample(screened, _nothing, TIMES, scores.device)
    seconds = statistics.median(device.seconds)
    return {
        "op": op,
        "shape": [rows, width],
        "microseconds a call [best, median]": times,
        "added, median": {name: round(one[1] - times["off"][1], 1) for name, one in times.items() if name != "off"},
        "rows kept": kept,
        "microseconds of the device": round(seconds * 1e6, 1),
        SHARE: round(scores.numel() * 4 / seconds / 1e9 / read_gbs, 3),
        "late": device.late,
    }


def _nothing() -> None:
    """Comes before each sample."""


def main() -> int:
    """Measure, print and write; 1 where the counts are too slow or differ."""
    output = parser_for(__doc__, "census-h200.json").parse_args().output
    if not torch.cuda.is_available():
        sys.exit("no CUDA device is visible to torch")
    machine = measure_machine(torch.device("cuda", torch.cuda.current_device()))
    shares = counted(machine.read_gbs)
    audited = audit()
    result = {
        **on_gpu(),
        "command": f"python3 -m tests.bench.bench_census --output {output.name}",
        "read bandwidth, GB/s": round(machine.read_gbs, 1),
        "counts": {"what": f"{ROWS} x {WIDTH} float32, k {K}, {TIMES.samples} calls, median", "by spread": shares},
        "audit": audited,
        "recorder": [recorded(op, *shape, machine.read_gbs) for op in OPS for shape in SHAPES],
    }
    keep(output, result)
    slow = {spread: one[AS_IS][SHARE] for spread, one in shares.items() if one[AS_IS][SHARE] < WANTED}
    for spread, share in slow.items():
        print(f"{spread}: {share} of the read bandwidth, {WANTED} is wanted", file=sys.stderr)
    return 1 if slow or not audited["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
