"""Every op-level launch in a CUDA graph: captured once, replayed with other lengths and scores, equal to eager ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from workbench.capture.row import Call
from workbench.engines.cuda.compile import build
from workbench.engines.cuda.device import limits_of
from workbench.engines.cuda.emission import Emission
from workbench.engines.cuda.oplaunch import LEAST, NOBODY, OpLaunch, parts_of
from workbench.paths.catalog import get_path
from workbench.paths.conditions import Setup
from workbench.paths.devices import forms_clusters
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spans import Asked
from workbench.paths.transforms import PageTable, Ragged

pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")

DEVICE = "h200"  # whose routes are launched; any device with clusters runs them
GUARD, PAD, OUTSIDE = 1024, 32, 1e30
REPLAYS = 3


@dataclass(frozen=True)
class Case:
    """An op on a call."""

    op: str
    release: str
    rows: int
    width: int
    k: int
    bound: int | None = None
    ragged: bool = False
    layout: str | None = None
    dtype: torch.dtype = torch.float32

    @property
    def setup(self) -> Setup | None:
        return None if self.layout is None else Setup(layout=self.layout)

    @property
    def asked(self) -> Asked:
        call = Call(
            k=self.k, rows=self.rows, width=self.width, stride=self.width + PAD, max_seq_len=self.bound or self.width
        )
        return Asked(self.op, self.release, DEVICE, call, str(self.dtype).removeprefix("torch."), self.setup)

    def __str__(self) -> str:
        return f"{self.op}-{self.release}-{self.rows}x{self.width}-{self.k}"


VLLM, LATER, SGLANG, NEWEST, KERNEL = (
    "vllm==0.26.0",
    "vllm==0.32.0",
    "sglang==0.5.21",
    "sglang==0.5.23",
    "sglang-kernel==0.4.6",
)
CASES = [
    Case("vllm.persistent_topk", VLLM, 4, 65552, 2048),
    Case("vllm.persistent_topk", VLLM, 32, 40000, 512),
    Case("vllm.persistent_topk", VLLM, 9, 40000, 512, bound=32768),
    Case("vllm.persistent_topk", VLLM, 40, 40000, 1024),
    Case("vllm.persistent_topk", LATER, 70, 98400, 512),
    Case("vllm.cooperative_topk", VLLM, 8, 65536, 2048),
    Case("vllm.cooperative_topk", VLLM, 32, 40000, 512),
    Case("vllm.cooperative_topk", LATER, 40, 40000, 1024),
    Case("vllm.top_k_per_row_decode", VLLM, 12, 9000, 300),
    Case("vllm.top_k_per_row_decode", VLLM, 12, 40000, 2048),
    Case("vllm.top_k_per_row_decode", VLLM, 12, 210000, 512),
    Case("vllm.top_k_per_row_prefill", VLLM, 12, 40000, 2048, ragged=True),
    Case("vllm.sparse_indexer_topk", LATER, 64, 40000, 2048),
    Case("sglang.fast_topk_v2", KERNEL, 12, 40000, 2048, ragged=True),
    Case("sglang.fast_topk_transform_fused", KERNEL, 12, 40000, 2048),
    Case("sglang.fast_topk_transform_ragged_fused", KERNEL, 12, 40000, 2048, ragged=True),
    Case("sglang.topk_transform_paged", SGLANG, 12, 40000, 1024),
    Case("sglang.topk_transform_paged_v2", SGLANG, 6, 65536, 2048),
    Case("sglang.topk_transform_paged_v2", SGLANG, 20, 70000, 512),
    Case("sglang.topk_transform_paged_v2", SGLANG, 40, 131072, 2048),
    Case("sglang.topk_transform_ragged_v2", SGLANG, 16, 40000, 512, ragged=True),
    Case("sglang.topk_transform_kpool_v2", NEWEST, 40, 131072, 512),
    Case("sglang.topk_transform_kpool_ragged_v2", NEWEST, 16, 40000, 512, ragged=True),
    Case("sglang.kpool_topk_transform", SGLANG, 12, 40000, 512, ragged=True),
    Case("sglang.topk_transform_bf16_small", SGLANG, 12, 16384, 2048, dtype=torch.bfloat16),
    Case("sglang.fast_topk", SGLANG, 12, 40000, 512, ragged=True),
    Case("sglang.dsa_topk_transform", SGLANG, 20, 70000, 512, layout="paged"),
]


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> object:
    """All kernels of all cases, at once."""
    if not forms_clusters(limits_of(torch.cuda.current_device()).capability):
        pytest.skip("the device forms no clusters: compute capability 9.0 or later, but not 12")
    wanted = {(one.path, one.variant) for case in CASES for one in parts_of(case.asked).kernels}
    arch = limits_of(torch.cuda.current_device()).arch
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOPK_WORKBENCH_KERNELS", str(Path(tmp_path_factory.mktemp("kernels"))))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda one: build(get_path(one[0]), one[1], arch, telemetry=False), sorted(wanted)))
        yield


def lengths_of(made: OpLaunch, case: Case) -> list[int]:
    """Those that are asked for: about k, every threshold and the width; and beyond it."""
    edges = {one for part in made.parts.kernels for choice in part.takes for span in choice for one in span}
    edges = {one for one in edges - {LEAST, *NOBODY} if one <= case.width} | {case.k, case.width}
    near = {edge + side for edge in edges for side in (-1, 0, 1)}
    return sorted({-1, 0, 1, 32769, case.width + 17} | near)


def best(scores: torch.Tensor, starts: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
    """The k greatest scores of each row's window, in order; -inf where there are fewer."""
    cells = torch.arange(scores.shape[1], device="cuda")
    first = starts[:, None]
    inside = (cells >= first) & (cells < first + lengths[:, None])
    return scores.masked_fill(~inside, -torch.inf).topk(k, dim=1).values


def picked(scores: torch.Tensor, starts: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The scores of what was selected, in order; -inf for an empty slot."""
    chosen = scores.gather(1, (indices.clamp(min=0) + starts[:, None]).long())
    return chosen.masked_fill(indices < 0, -torch.inf).sort(dim=1, descending=True).values


def check(
    case: Case, made: OpLaunch, indices: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, given: list[int]
):
    """Exact winners, -1 behind them, nothing in rows that are left."""
    left = [int(one.split()[1].rstrip(":")) for one in made.told(given, starts.tolist())]
    taken = [row for row in range(case.rows) if row not in left]
    assert bool((indices[left] == UNWRITTEN).all()), [given[row] for row in left]
    if not taken:
        return
    lengths = torch.tensor(given, device="cuda").clamp(min=0)[taken]
    found, first, scores = indices[taken], starts[taken], rows[taken]
    counts = (found >= 0).sum(1)
    assert torch.equal(counts, lengths.clamp(max=case.k)), [given[row] for row in taken]
    assert bool((found[found < 0] == -1).all())
    assert torch.equal(picked(scores, first, found), best(scores, first, lengths, case.k)), [
        given[row] for row in taken
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_replays_equal_eager_launches(case: Case) -> None:
    generator = torch.Generator("cuda").manual_seed(case.rows)
    base = torch.full((case.rows, case.width + PAD), OUTSIDE, dtype=case.dtype, device="cuda")
    rows = base[:, : case.width]
    rows.copy_(torch.randn(case.rows, case.width, generator=generator, device="cuda"))
    starts = torch.arange(case.rows, dtype=torch.int32, device="cuda") % 8 * case.ragged
    lengths = torch.zeros(case.rows, dtype=torch.int32, device="cuda")
    guarded = torch.full((case.rows * case.k + 2 * GUARD,), UNWRITTEN, dtype=torch.int32, device="cuda")
    output = guarded[GUARD:-GUARD].view(case.rows, case.k)
    made = OpLaunch(
        *(case.op, case.release, DEVICE, rows, lengths, case.k),
        max_seq_len=case.bound,
        starts=starts if case.ragged else None,
        output=output,
        setup=case.setup,
    )
    wanted = lengths_of(made, case)
    made()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    made()
    assert made.parts.plan or torch.cuda.memory_stats()["allocation.all.allocated"] == before
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        made()
    turns = max(REPLAYS, -(-len(wanted) // case.rows))
    for turn in range(turns):
        if turn == 1:
            rows.neg_()
        given = [wanted[(turn * case.rows + row) % len(wanted)] for row in range(case.rows)]
        lengths.copy_(torch.tensor(given, dtype=torch.int32))
        eager = made().clone()
        check(case, made, eager, rows, starts, given)
        output.fill_(0)
        graph.replay()
        replayed = output.clone()
        check(case, made, replayed, rows, starts, given)
        assert torch.equal((eager < 0) & (eager != -1), (replayed < 0) & (replayed != -1))
        assert torch.equal(picked(rows, starts, eager), picked(rows, starts, replayed))
    assert bool((guarded[:GUARD] == UNWRITTEN).all())
    assert bool((guarded[-GUARD:] == UNWRITTEN).all())
    assert bool((base[:, case.width :] == torch.tensor(OUTSIDE, dtype=case.dtype)).all())
    told = made.told([-1] * case.rows)
    print(
        f"{case}: {', '.join(one.path for one in made.parts.kernels)}; {len(wanted)} lengths in {turns} replays; "
        f"length -1: {told[0] if told else 'every slot is -1'}"
    )


@pytest.mark.parametrize("mode", ["tables", "offsets"])
def test_replays_map_by_what_stands_in_the_tables_then(mode: str) -> None:
    """An op that returns slots or moved positions: tables, offsets and lengths replaced in place, telemetry alike."""
    rows, width, k, page = 6, 65536, 2048, 64
    ragged = mode == "offsets"
    op = "sglang.topk_transform_ragged_v2" if ragged else "sglang.topk_transform_paged_v2"
    scores = torch.randn(rows, width, device="cuda", generator=torch.Generator("cuda").manual_seed(5))
    lengths = torch.zeros(rows, dtype=torch.int32, device="cuda")
    tables = torch.zeros((rows, width // page), dtype=torch.int32, device="cuda")
    offsets = torch.zeros(rows, dtype=torch.int32, device="cuda")
    emission = Emission(offsets=offsets) if ragged else Emission(tables, page)
    made = OpLaunch(op, SGLANG, DEVICE, scores, lengths, k, emission=emission, positions=True, telemetry=True)
    made()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        made()
    generator = torch.Generator().manual_seed(6)
    for turn in range(REPLAYS):
        given = [0, 1, k, k + 1, 16385 + turn, width]
        given = given[turn:] + given[:turn]
        lengths.copy_(torch.tensor(given, dtype=torch.int32))
        tables.copy_(torch.stack([torch.randperm(width // page, generator=generator) for _ in given]))
        offsets.copy_(torch.randint(0, 1 << 20, (rows,), generator=generator))
        graph.replay()
        assert made.positions is not None
        beside, entries, reports = made.positions.cpu(), made.output.cpu(), made.reports
        starts = torch.zeros_like(lengths)
        best_scores = best(scores, starts, lengths, k)
        assert torch.equal(picked(scores, starts, made.positions), best_scores)
        for row, length in enumerate(given):
            mapping = Ragged(int(offsets[row])) if ragged else PageTable(tables[row].cpu(), page)
            assert torch.equal(entries[row], mapping.apply(beside[row], length)), (turn, length)
            report = reports[row]
            assert report is not None
            assert (report.telemetry.population is not None) == (length > k), (turn, length)
