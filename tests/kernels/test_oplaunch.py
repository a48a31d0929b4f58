"""An op's kernels on one batch, run on the CPU: together they serve every row, made again and again."""

from __future__ import annotations

from pathlib import Path as File
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated import fewer_threads
from workbench.engines.cuda import oplaunch
from workbench.engines.cuda.emission import Emission
from workbench.engines.cuda.oplaunch import OpLaunch
from workbench.errors import UsageError
from workbench.paths.conditions import Setup
from workbench.paths.plan import heuristic
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path
from workbench.paths.transforms import PageTable, Ragged

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")
K = 512


@pytest.fixture
def launched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are run on the CPU; the paths of those that were, in order."""
    folder, said = File(str(request.config.cache.mkdir("emulated-kernels"))), list[str]()

    def prepare(path: Path, variant: str, scores: torch.Tensor, lengths: torch.Tensor, k: int, **more: Any) -> object:
        small, starts = fewer_threads(path), more["starts"]
        library = emulated.build(folder, small, variant)

        def run() -> None:
            said.append(path.name)
            made = emulated.select(
                *(library, small, variant, scores, lengths.tolist(), k),
                starts=None if starts is None else starts.tolist(),
                seed=len(said),
                spans=more["spans"],
                out=more["output"],
                emission=more["emission"],
                beside=more["positions"],
            )
            run.launched = SimpleNamespace(reports=[report for _, report, _ in made])  # type: ignore[attr-defined]

        return run

    monkeypatch.setattr(oplaunch, "prepare", prepare)
    return said


def check(made: OpLaunch, scores: torch.Tensor, lengths: list[int], starts: list[int], left: set[int]) -> None:
    """The best of every row, and -1; of rows that are left, nothing."""
    for row, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        slots = made.output[row]
        if length in left or length > scores.shape[1] - start:
            assert bool((slots == UNWRITTEN).all()), (row, length)
            continue
        wanted = min(K, max(length, 0))
        own = scores[row, start : start + max(length, 0)]
        assert int((slots >= 0).sum()) == wanted, (row, length)
        assert bool((slots[slots < 0] == -1).all()), (row, length)
        picked = own[slots[slots >= 0].long()]
        assert torch.equal(picked.sort().values, own.topk(wanted).values.sort().values), (row, length)


@pytest.mark.parametrize(
    ("op", "release", "width", "lengths", "left"),
    [
        ("vllm.persistent_topk", "vllm==0.26.0", 32800, [0, 511, 512, 513, 8192, 8193, 32768, 32769, 32800], {-1}),
        ("vllm.cooperative_topk", "vllm==0.26.0", 16400, [0, 1, 512, 513, 16384, 16385, 16400], set()),
        ("sglang.topk_transform_ragged_v2", "sglang==0.5.21", 16404, [0, 513, 16382, 16383, 16384, 16385], {-1}),
    ],
)
def test_rows_are_served_whatever_lengths_they_have_by_then(
    op: str, release: str, width: int, lengths: list[int], left: set[int], launched: list[str]
) -> None:
    lengths = [*lengths, -1, width + 1]
    rows = len(lengths)
    scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(2))
    ragged = "ragged" in op
    starts = [row % 4 if ragged else 0 for row in range(rows)]
    now = torch.tensor(lengths, dtype=torch.int32)
    begins = torch.tensor(starts, dtype=torch.int32) if ragged else None
    made = OpLaunch(op, release, "h200", scores, now, K, starts=begins)
    for turn in range(3):
        if turn == 1:
            scores.neg_()
        assert made() is made.output
        check(made, scores, now.tolist(), starts, left)
        now.copy_(now.roll(1))
    assert launched == 3 * [one.path for one in made.parts.kernels]
    told = made.told(lengths, starts)
    assert [int(one.split()[1].rstrip(":")) for one in told] == [
        row for row, length in enumerate(lengths) if length in left or length > width - starts[row]
    ]
    assert all(len(one) > 20 for one in told)


def test_the_plan_is_made_anew_each_time(launched: list[str]) -> None:
    """With few rows above its threshold the cluster takes them; it is another kernel, and the same winners."""
    rows, width, clusters = 34, 66000, 30
    scores = torch.randn(1, width, generator=torch.Generator().manual_seed(4)).repeat(rows, 1)
    now = torch.full((rows,), 600, dtype=torch.int32)
    made = OpLaunch("sglang.topk_transform_paged_v2", "sglang==0.5.21", "h200", scores, now, K)
    assert [one.path for one in made.parts.kernels][-1] == "sglang.v2_cluster_8"
    for long in (2, clusters, clusters + 1):
        now[: rows - long] = 600
        now[rows - long :] = 65537 if long > 2 else 66000
        chosen = heuristic(now.tolist(), made.parts.plan)
        assert (chosen == 65536) == (long <= clusters)
        made(poison=True)
        first = max(rows - 2, 0)
        for row in (0, first, rows - 1):
            own = scores[row, : int(now[row])]
            assert torch.equal(own[made.output[row].long()].sort().values, own.topk(K).values.sort().values)
        taken = made.parts.kernels[-1].takes[[one for one, _ in made.parts.plan].index(chosen)][0]
        assert (taken[0] <= int(now[-1]) <= taken[1]) == (long <= clusters)
    fixed = Setup(static_threshold=65600)
    assert not OpLaunch(
        "sglang.topk_transform_paged_v2", "sglang==0.5.21", "h200", scores, now, K, setup=fixed
    ).parts.plan


@pytest.mark.parametrize(
    ("op", "mode"), [("sglang.topk_transform_paged_v2", "tables"), ("sglang.topk_transform_ragged_v2", "offsets")]
)
def test_rows_are_returned_as_the_op_does_by_the_tables_of_then(op: str, mode: str, launched: list[str]) -> None:
    """Slots of every row, whichever kernel takes it; nothing in rows that none takes. Tables are read anew."""
    lengths, width, page = [0, 7, 512, 513, 16384, 16383, 16382, 16404], 16404, 64
    starts = [0 if mode == "tables" else row % 4 for row in range(len(lengths))]
    rows, pages = len(lengths), -(-width // page)
    scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(8))
    now = torch.tensor(lengths, dtype=torch.int32)
    generator = torch.Generator().manual_seed(9)
    tables = torch.stack([torch.randperm(3 * pages, generator=generator)[:pages] for _ in range(3)]).to(torch.int32)
    of = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1], dtype=torch.int32)
    offsets = torch.arange(rows, dtype=torch.int32) * 20000
    emission = Emission(tables, page, of) if mode == "tables" else Emission(offsets=offsets)
    made = OpLaunch(
        *(op, "sglang==0.5.21", "h200", scores, now, K),
        starts=None if mode == "tables" else torch.tensor(starts, dtype=torch.int32),
        emission=emission,
        positions=True,
        telemetry=True,
    )
    for turn in range(2):
        made()
        beside = made.positions
        assert beside is not None
        check(SimpleNamespace(output=beside), scores, now.tolist(), starts, set())  # type: ignore[arg-type]
        for row, length in enumerate(now.tolist()):
            mapping = PageTable(tables[int(of[row])], page) if mode == "tables" else Ragged(int(offsets[row]))
            inside = length <= width - starts[row]
            kept = mapping.apply(beside[row], length) if inside else beside[row]
            assert torch.equal(made.output[row], kept), (turn, length)
            report = made.reports[row]
            assert (report is not None) == inside
            bins = None if report is None else report.telemetry.population
            assert (bins is not None) == (inside and length > K), length
        now.copy_(now.flip(0))
        tables.copy_(tables.flip(1))
        offsets.add_(7)
    assert set(launched) == {"sglang.v2_register", "sglang.v2_streaming"}


def test_nothing_is_told_or_stands_beside_unless_asked_for(launched: list[str]) -> None:
    now = torch.tensor([600], dtype=torch.int32)
    made = OpLaunch("vllm.persistent_topk", "vllm==0.26.0", "h200", torch.randn(1, 9000), now, K)
    made()
    assert made.positions is None
    assert made.reports == []


def test_lengths_that_no_kernel_takes(launched: list[str]) -> None:
    now = torch.tensor([9001], dtype=torch.int32)
    scores = torch.randn(1, 9000)
    made = OpLaunch("vllm.persistent_topk", "vllm==0.26.0", "h200", scores, now, K, occurring=[9001], telemetry=True)
    assert bool((made() == UNWRITTEN).all())
    assert made.reports == [None]
    assert not launched


@pytest.mark.parametrize(
    ("op", "release", "emission", "told"),
    [
        ("vllm.persistent_topk", "vllm==0.26.0", "tables", r"persistent_topk returns raw, no page table"),
        ("sglang.topk_transform_ragged_v2", "sglang==0.5.21", "tables", r"returns offset, no page table"),
        ("sglang.topk_transform_paged_v2", "sglang==0.5.21", "offsets", "or page table [+] raw, no offset"),
        ("sglang.kpool_topk_transform", "sglang==0.5.21", "tables", "return these pools, and expand none"),
    ],
)
def test_what_an_op_does_not_return(op: str, release: str, emission: str, told: str, launched: list[str]) -> None:
    one = torch.zeros(1, 9000, dtype=torch.int32)
    given = Emission(one) if emission == "tables" else Emission(offsets=one[0, :1].contiguous())
    with pytest.raises(UsageError, match=told):
        OpLaunch(op, release, "h200", torch.randn(1, 9000), one[0, :1].contiguous(), K, emission=given)
