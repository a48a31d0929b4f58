"""Counts and screening on a device are those of the profile and of the rule, on the rows of the tests without a GPU."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.kernels.mapped import KINDS, made
from tests.kernels.mapped import on_device as mapped_there
from tests.kernels.screened import OPS, Batch, batches, spoiled, suspected
from tests.record import ops
from tests.record.ops import bits, matrix
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import census
from workbench.engines.cuda.census import count_rows
from workbench.engines.cuda.positions import MOST_ENTRIES, positions_of
from workbench.engines.cuda.screen import screen_rows
from workbench.engines.cuda.support_sources import WIDTHS
from workbench.errors import UsageError
from workbench.numeric.histogram import RowCounts
from workbench.record import awaited

pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")
pytestmark = pytest.mark.usefixtures("own_cache")
LENGTHS = (8209, 300_001)


def on_device(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The batch there, rows as far apart as they were."""
    width = batch.scores.shape[1]
    whole = torch.full((batch.scores.shape[0], batch.scores.stride(0)), 9e9)
    whole[:, :width] = batch.scores
    starts = None if batch.starts is None else batch.starts.cuda()
    return whole.cuda()[:, :width], batch.lengths.cuda(), starts


def expected(scores: torch.Tensor, k: int) -> RowCounts:
    profile = RowProfile(scores, "float32", k)
    thresholds = {width: profile.threshold(width) for width in WIDTHS} if profile.countable else {}
    past = (scores.abs() > 65504) & scores.isfinite()
    return RowCounts(scores.numel(), thresholds, profile.nan, int((scores == -math.inf).sum()), int(past.sum()))


@pytest.mark.parametrize("options", [None, {"COPIES": 4}, {"LOADS": 2, "SPREAD": 0}])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", batches())
def test_counts(name: str, length: int, options: dict[str, int] | None) -> None:
    batch = batches(length)[name]
    scores, lengths, starts = on_device(batch)
    counted = count_rows(scores, lengths, batch.k, starts=starts, options=options)
    for at, counts in enumerate(counted.rows()):
        assert counts == expected(batch.valid(at), batch.k), (name, at)


def test_every_bin_and_every_kind_of_nan() -> None:
    """All binades, in rows long enough for several blocks."""
    every = torch.arange(0, 2**32, 8191, dtype=torch.int64).to(torch.int32).view(torch.float32)
    rows = torch.stack([every, every.flip(0)])
    lengths = torch.tensor([every.numel(), every.numel() - 3], dtype=torch.int32)
    for k in (1, 2048, 300_000):
        for at, counts in enumerate(count_rows(rows.cuda(), lengths.cuda(), k).rows()):
            assert counts == expected(rows[at, : lengths[at]], k)


def test_many_rows_and_one_that_is_long() -> None:
    generator = torch.Generator("cuda").manual_seed(3)
    for rows, width in ((3000, 700), (1, 3_000_000)):
        scores = torch.randn(rows, width, device="cuda", generator=generator)
        lengths = torch.randint(0, width + 1, (rows,), device="cuda", dtype=torch.int32, generator=generator)
        found = count_rows(scores, lengths, 64).rows()
        for at in range(0, rows, 37):
            assert found[at] == expected(scores[at, : lengths[at]].cpu(), 64)


def test_risk_from_counts_is_the_risk_from_the_row() -> None:
    batch = batches(40_000)["usual rows"]
    scores, lengths, _ = on_device(batch)
    for row, counts in zip(scores, count_rows(scores, lengths, 2048).rows(), strict=True):
        assert census(RowProfile(row, "float32", 2048, counts=counts)) == census(RowProfile(row.cpu(), "float32", 2048))


def test_what_is_refused() -> None:
    scores, lengths = torch.zeros(2, 8, device="cuda"), torch.full((2,), 8, dtype=torch.int32, device="cuda")
    for given, told in (
        ((scores.half(), lengths, 1), "scores must be float32"),
        ((scores, lengths.long(), 1), "lengths must be int32"),
        ((scores.cpu(), lengths, 1), "on a CUDA device"),
        ((scores, lengths, 0), "k is 0"),
    ):
        with pytest.raises(UsageError, match=told):
            count_rows(*given)
    assert count_rows(scores[:0], lengths[:0], 1).rows() == []


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", batches())
def test_screening(name: str, length: int) -> None:
    """On a stream of its own, scores and selections written over right behind it."""
    batch = batches(length)[name]
    for op in OPS:
        for what, selected, offsets in spoiled(batch):
            found, gates = suspected(batch, selected, offsets, op)
            with torch.cuda.stream(torch.cuda.Stream()):
                scores, lengths, starts = on_device(batch)
                there, moved = selected.cuda(), None if offsets is None else offsets.cuda()
                told = screen_rows(scores, lengths, there, gates, starts=starts, offsets=moved)
                for one in (scores, lengths, there):
                    one.zero_()
                rows = told.rows()
            assert rows == [at for at, bad in enumerate(found) if bad], (name, what, op)
            assert told.is_done()
            for at in rows:
                assert torch.equal(told.kept[at].cpu().view(torch.int32), batch.scores[at].view(torch.int32))


@pytest.mark.parametrize(("mode", "pool", "page_size"), KINDS)
def test_entries_are_turned_back(mode: str, pool: int, page_size: int) -> None:
    call = made(mode, pool, page_size)
    assert torch.equal(mapped_there(call).positions().cpu(), call.selected)


def test_entries_of_long_rows_are_turned_back() -> None:
    """By a table of a page for each of a million positions, as full as selections get."""
    table = torch.randperm(1 << 20, generator=torch.Generator().manual_seed(2))[None].to(torch.int32)
    chosen = torch.randperm(1 << 20, generator=torch.Generator().manual_seed(3))[None, :MOST_ENTRIES].to(torch.int32)
    lengths = torch.tensor([1 << 20], dtype=torch.int32).cuda()
    told = positions_of(table[0][chosen.long()].cuda(), lengths, 1 << 20, MOST_ENTRIES, table=table.cuda())
    assert torch.equal(told.cpu(), chosen)


def test_an_audit_there_says_what_it_says_here(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="an audit's lines are Arrow's")
    from workbench.audit.asked import Asked, located
    from workbench.audit.lines import joined
    from workbench.audit.plan import make_plan
    from workbench.audit.work import Worker

    rows = [
        wb.Row(batch.valid(at), batch.valid(at).numel(), call=wb.Call(k=batch.k, width=9000))
        for batch in batches().values()
        for at in range(len(batch.scores))
        if batch.valid(at).numel()
    ]
    wb.write(tmp_path / "rows.safetensors", rows)
    asked = Asked(*located(tmp_path))
    there, here = Worker(asked, "cuda:0"), Worker(asked)
    for job in make_plan(asked).jobs():
        assert joined(there(job).payload).equals(joined(here(job).payload))
        assert len(there._counts) == job.unit.count


@pytest.fixture
def lossy_op() -> Iterator[None]:
    """An op for the device that loses the best of rows above 1000."""
    library = ops.register_lossy("cooperative_topk")
    yield
    library._destroy()


@pytest.mark.parametrize("kernels", [True, False])
def test_recording_keeps_what_was_there_at_the_call(
    kernels: bool, tmp_path: Path, lossy_op: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors that every call uses again, calls without a pause, a screening that waits for nothing."""
    if not kernels:
        monkeypatch.setattr(awaited, "is_fit", lambda seen: False)
    width, k = 20_000, 512
    scores = torch.empty(8, width, device="cuda")
    output = torch.empty(8, k, dtype=torch.int32, device="cuda")
    lengths = torch.empty(8, dtype=torch.int32, device="cuda")
    workspace, expected_rows = ops.WORKSPACE.cuda(), []
    with wb.record(tmp_path, ops="vllm.*", release="vllm==0.26.0", flush=1000) as recorder:
        for call in range(40):
            made = matrix(8, width, call)
            if call % 9 == 4:
                made[3] = 2000 + torch.arange(width) / 8
                expected_rows.append(bits(made[3]))
            scores.copy_(made.cuda())
            lengths.fill_(width)
            torch.ops._C.cooperative_topk(scores, lengths, output, workspace, k, width)
            scores.fill_(-1), output.fill_(-1), lengths.fill_(0)
    rows = [row for path in recorder.files for row in wb.open(path)]
    kept = [bits(row.scores) for row in rows]
    assert [one for one in kept if one in expected_rows] == expected_rows
    assert len(kept) < 40, "of 320 rows"
    assert recorder.stopped == ""
    assert recorder._awaited.unfit == ""


def test_a_graph_is_captured_while_calls_wait(tmp_path: Path, lossy_op: None) -> None:
    width, k, workspace = 400, 16, ops.WORKSPACE.cuda()
    lengths = torch.full((4,), width, dtype=torch.int32, device="cuda")
    scores, output = matrix(4, width, 5).cuda(), torch.zeros(4, k, dtype=torch.int32, device="cuda")
    scores[2] = 2000 + torch.arange(width, device="cuda")

    def call() -> None:
        torch.ops._C.cooperative_topk(scores, lengths, output, workspace, k, width)

    with warnings.catch_warnings(), wb.record(tmp_path, ops="vllm.*", flush=1000) as recorder:
        warnings.simplefilter("ignore")
        call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graph.replay()
        call()
    assert recorder.rows == 2
    assert recorder.skipped == {"captured into a CUDA graph": 1}
