"""Rows of captures get smaller: the fault and the route stay, and work that was stopped goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests import truth
from workbench.analysis.shrinking.candidate import patterns
from workbench.analysis.shrinking.fault import MOST_CLEAN
from workbench.capture.row import Call, Row
from workbench.errors import CaptureError, UsageError
from workbench.export.fixture import MOST_CALLS, calls_needed
from workbench.paths.catalog import find_paths
from workbench.paths.routing import route
from workbench.runs import saved as saved_module
from workbench.runs import shrink as shrink_module
from workbench.runs.shrink import Shrinking, Shrunk

STOCK_BUFFERED = [path.name for path in find_paths() if path.buffer is not None]
# rows that fall, lie in one place, spread over the row, and hold a plateau
CASES = ("s000-over_fp16", "s030-one_bin", "s029-one_bin", "s049-plateau")
FALLING = CASES[0]


@pytest.fixture(autouse=True)
def one_core() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(one: Row, other: Row) -> bool:
    return torch.equal(patterns(one.valid), patterns(other.valid)) and one.call == other.call


def minimum(row: Row, **options: object) -> Shrunk:
    """Shrink, and demand what holds of every shrunk row."""
    found = wb.shrink(row, **options)
    assert found.fault is not None
    assert found.is_minimum
    again = wb.shrink(found.row, **{name: value for name, value in options.items() if name != "k"})
    assert again.kept == 0
    assert same(again.row, found.row)
    assert again.fault == replace(found.fault, ordered=again.fault.ordered)
    assert found.after.risk.level == found.before.risk.level
    assert (found.after.length, found.after.k) == (found.row.length, found.row.k)
    assert found.row.scores.numel() == found.row.length
    assert (found.row.start, found.row.indices) == (0, None)
    return found


@pytest.mark.parametrize("path", STOCK_BUFFERED)
def test_rows_of_the_records_on_every_buffered_path(path: str) -> None:
    judged = 0
    for case_id in CASES:
        row = truth.rows(case_id, 1)[0]
        for k in dict.fromkeys((row.k, 256, 2048)):
            try:
                work = Shrinking(row, path, k=k)
            except CaptureError:
                continue
            if work.fault is None:
                continue
            found = minimum(row, path=path, k=k)
            judged += 1
            assert found.after.length < found.before.length or found.after.distinct < found.before.distinct
            risk = found.after.risk
            if path.startswith(("vllm.histogram", "vllm.filtered", "sglang")):
                spare = 1 if found.before.length < 16385 or "streaming" not in path else 30
                assert risk.capacity < risk.population <= risk.capacity + spare
            break
    assert judged


ROUTED = [
    ("vllm.persistent_topk", "vllm==0.26.0", "s010-one_bin", "vllm.histogram_256"),
    ("vllm.persistent_topk", "vllm==0.26.0", "s005-one_bin", "vllm.histogram_2048"),
    ("vllm.persistent_topk", "vllm==0.26.0", "s015-one_bin", "vllm.filtered"),
    ("vllm.persistent_topk", "vllm==0.26.0", "s024-one_bin", "vllm.histogram_4096"),
    ("vllm.persistent_topk", "vllm==0.20.2", "s015-one_bin", "vllm.filtered"),
    ("vllm.cooperative_topk", "vllm==0.26.0", "s029-one_bin", "vllm.cooperative_8"),
    ("sglang.topk_transform_paged", "sglang==0.5.21", "s015-one_bin", "sglang.v1"),
    ("sglang.topk_transform_paged_v2", "sglang==0.5.21", "s029-one_bin", "sglang.v2_cluster_16"),
    ("sglang.topk_transform_ragged_v2", "sglang==0.5.21", "s029-one_bin", "sglang.v2_streaming"),
    ("sglang.kpool_topk_transform", "sglang==0.5.21", "s010-one_bin", "sglang.kpool"),
]


@pytest.mark.parametrize(("op", "release", "case_id", "path"), ROUTED)
def test_the_op_still_sends_the_row_to_the_path(op: str, release: str, case_id: str, path: str) -> None:
    row = truth.given_to(op, truth.rows(case_id, 1)[0])
    found = minimum(row, op=op, release=release, device="h200")
    assert (found.path, found.variant, found.route_held) == (path, "stock", True)
    call = found.row.call
    taken = route(found.row)
    assert (taken.path, taken.variant) == (path, "stock")
    assert (call.rows, call.next_n, call.op, call.release, call.device) == (row.call.rows, 1, op, release, "h200")
    assert call.stride >= call.width >= found.row.length
    assert call.max_seq_len >= found.row.length
    assert call.width < row.call.width


def test_a_wide_cluster_needs_its_length_and_vllm_filtered_before_0_24_does_not() -> None:
    by = {(path, release): (op, case_id) for op, release, case_id, path in ROUTED}
    lengths = {}
    for (path, release), (op, case_id) in by.items():
        if path in ("vllm.filtered", "sglang.v2_cluster_16"):
            row = truth.given_to(op, truth.rows(case_id, 1)[0])
            lengths[path, release] = wb.shrink(row, op=op, release=release, device="h200").row.length
    assert lengths == {
        ("vllm.filtered", "vllm==0.26.0"): 32769,
        ("vllm.filtered", "vllm==0.20.2"): 16385,
        ("sglang.v2_cluster_16", "sglang==0.5.21"): 32769,
    }


def hot(length: int = 20000, start: int = 0, padding: int = 0, **call: object) -> Row:
    """6000 neighbours of 1 in a row for vllm.histogram_256, behind a start and before padding."""
    scores = torch.rand(length, generator=torch.Generator().manual_seed(0)) - 4
    scores[torch.randperm(length, generator=torch.Generator().manual_seed(1))[:6000]] = (
        torch.randperm(6000, generator=torch.Generator().manual_seed(2)).to(torch.int32) + 0x3F800001
    ).view(torch.float32)
    width = start + length + padding
    whole = torch.full((width,), 9.0)
    whole[start : start + length] = scores
    return Row(whole, length, start, Call(**{"k": 1024, "rows": 1, "width": width, "stride": width} | call))


def test_what_is_left_can_be_exported(tmp_path: Path) -> None:
    assert calls_needed(MOST_CLEAN) <= MOST_CALLS
    found = wb.shrink(hot(), path="vllm.histogram_256")
    assert wb.export(found.row, to=tmp_path, path=found.path).files


def test_start_padding_and_recorded_indices_go() -> None:
    row = replace(hot(start=3, padding=50), indices=torch.full((1024,), -1, dtype=torch.int32))
    found = minimum(row, path="vllm.histogram_256")
    assert found.after.length == 8193
    assert (found.row.call.width, found.row.call.stride, found.row.call.k) == (8193, 8193, 512)
    assert found.row.call.max_seq_len is None
    assert not found.route_held


def test_a_path_that_the_row_does_not_reach_has_no_route_to_hold() -> None:
    row = hot(op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", max_seq_len=20000)
    assert wb.shrink(row).path == "vllm.histogram_256"
    found = minimum(row, path="vllm.histogram_4096")
    assert not found.route_held
    assert found.after.length == 513


def test_a_route_by_the_lengths_of_other_rows_is_said_not_to_be_held() -> None:
    row = hot(120000, k=512, rows=100, width=120000, stride=120000, max_seq_len=120000)
    row = replace(row, batch=torch.tensor([120000] * 40 + [1000] * 60))
    where = {"op": "sglang.topk_transform_paged_v2", "release": "sglang==0.5.21", "device": "h200"}
    assert route(row, **where).path == "sglang.v2_cluster_8"
    found = minimum_without_second(row, where)
    assert not found.route_held
    assert "other rows" in found.notes[0]


def minimum_without_second(row: Row, where: dict[str, str]) -> Shrunk:
    """The row alone has no route, so that its second shrinking must be told the path."""
    found = wb.shrink(row, **where)
    assert wb.shrink(found.row, path=found.path).kept == 0
    return found


def test_no_fault_no_shrinking(tmp_path: Path) -> None:
    row = Row(torch.linspace(0, 100, 20000), 20000, call=Call(k=512))
    found = wb.shrink(row, path="vllm.histogram_256", output=tmp_path / "none.safetensors")
    assert (found.fault, found.tried, found.is_minimum) == (None, 0, True)
    assert same(found.row, row)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("row", "options", "error", "said"),
    [
        (hot(), {}, UsageError, r"give a path .*vllm.histogram_256 \(at risk\)"),
        (hot(), {"path": "vllm.nothing"}, UsageError, "no path matches"),
        (hot(), {"path": "vllm.histogram_256", "variant": "x"}, UsageError, "no variant 'x'; known: stock"),
        (hot(), {"path": "vllm.histogram_2048"}, CaptureError, "does not take it: length 20000 is above 8192"),
        (hot(), {"path": "vllm.histogram_256", "most_clean": 1.0}, UsageError, "probability"),
        (hot(k=None), {"path": "vllm.histogram_256"}, CaptureError, "does not say k"),
        (hot(), {"path": "vllm.histogram_256", "k": 20001}, CaptureError, "above the row width"),
        (Row(torch.empty(0), 0, call=Call(k=1, width=8)), {"path": "sglang.v1"}, CaptureError, "not above 1"),
        (Row(torch.full((9000,), math.nan), 9000, call=Call(k=512)), {"path": "vllm.sampled"}, CaptureError, "NaN"),
    ],
)
def test_what_cannot_be_shrunk(row: Row, options: dict[str, object], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        wb.shrink(row, **options)


def test_half_rows_and_short_rows() -> None:
    scores = 65536.0 + 512 * torch.arange(1000)
    row = Row(scores.bfloat16(), 1000, call=Call(k=50, width=1000, stride=1000))
    found = minimum(row, path="sglang.bf16_small", variant="approximate_13_bit")
    assert (found.row.dtype, found.row.length, found.row.k) == ("bfloat16", 2, 1)
    with pytest.raises(CaptureError, match="scores are float16"):
        wb.shrink(replace(row, scores=scores.to(torch.float16)), path="sglang.bf16_small")


def test_a_falling_row_is_scattered_and_says_so() -> None:
    row = truth.rows(FALLING, 1)[0]
    found = minimum(row, path="vllm.histogram_2048")
    assert (found.fault.ordered, abs(found.after.risk.order_correlation) < 0.25) == (-1, True)
    assert "stand at random" in found.notes[0]


def test_deterministic_for_a_seed_and_as_small_for_another() -> None:
    row = hot()
    one, other = (wb.shrink(row, "vllm.histogram_256", seed=seed) for seed in (5, 6))
    assert same(one.row, wb.shrink(row, "vllm.histogram_256", seed=5).row)
    assert not same(one.row, other.row)
    assert (one.after.length, one.after.k) == (other.after.length, other.after.k)


def test_it_goes_on_after_any_step() -> None:
    row = hot(op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", max_seq_len=20000)
    whole = Shrinking(row)
    steps = sum(1 for _ in whole)
    assert steps > 60
    for stop in (0, 1, 2, *range(3, steps + 1, 20), steps):
        work = Shrinking(row)
        for step, _ in enumerate(work, 1):
            if step >= stop:
                break
        left = work.smallest
        rest = Shrinking(row, start=left)
        for _ in rest:
            assert rest.smallest.length <= left.length
        assert rest.is_minimum
        assert rest.result().after.risk == replace(
            whole.result().after.risk, order_correlation=rest.result().after.risk.order_correlation
        )
        assert rest.smallest.call == whole.smallest.call


def test_a_row_to_go_on_from_must_show_the_fault() -> None:
    for other in (hot(21000), Row(torch.zeros(9000), 9000, call=Call(k=512))):
        with pytest.raises(UsageError, match="start anew"):
            Shrinking(hot(), "vllm.histogram_256", start=other)


class StopError(Exception):
    """What an interrupt does, without stopping the tests."""


def test_an_interrupt_leaves_a_whole_capture_that_is_gone_on_from(tmp_path: Path) -> None:
    target = tmp_path / "small.safetensors"

    def stop(gone: int) -> None:
        if gone > 9000:
            raise StopError

    with pytest.raises(StopError):
        wb.shrink(hot(), "vllm.histogram_256", output=target, progress=stop)
    assert [one.name for one in tmp_path.iterdir()] == [target.name]
    partial = wb.open(target)
    assert partial.verify() == []
    assert partial.info.source.endswith("; not finished")
    assert partial[0].length < 11001
    for other in ({"seed": 1}, {"most_clean": 0.5}, {"k": 512}):
        with pytest.raises(UsageError, match="there already"):
            wb.shrink(hot(), "vllm.histogram_256", output=target, **other)
    found = wb.shrink(hot(), "vllm.histogram_256", output=target)
    assert any("went on" in note for note in found.notes)
    assert same(wb.open(target)[0], found.row)
    assert not wb.open(target).info.source.endswith("not finished")
    with pytest.raises(UsageError, match="there already"):
        wb.shrink(hot(), "vllm.histogram_256", output=target)
    assert wb.shrink(hot(), "vllm.histogram_256", output=target, overwrite=True).is_minimum


def test_time_that_is_up_and_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "small.safetensors"
    found = wb.shrink(hot(), "vllm.histogram_256", output=target, time_limit=0)
    assert (found.is_minimum, found.tried) == (False, 1)
    monkeypatch.setattr(shrink_module, "SAVE_EVERY", 0.0)
    seen = []
    end = wb.shrink(
        hot(), "vllm.histogram_256", output=target, progress=lambda _: seen.append(wb.open(target)[0].length)
    )
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) > 2
    assert end.is_minimum


def test_an_interrupt_right_after_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "small.safetensors"
    write = saved_module.write_capture

    def interrupted(*given: object, **options: object) -> None:
        write(*given, **options)
        monkeypatch.setattr(saved_module, "write_capture", write)
        raise StopError

    monkeypatch.setattr(shrink_module, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(saved_module, "write_capture", interrupted)
    with pytest.raises(StopError):
        wb.shrink(hot(), "vllm.histogram_256", output=target)
    assert wb.open(target).verify() == []
    assert wb.shrink(hot(), "vllm.histogram_256", output=target).is_minimum


def test_another_file_is_never_written_over(tmp_path: Path) -> None:
    target = tmp_path / "notes.txt"
    target.write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        wb.shrink(hot(), "vllm.histogram_256", output=target)
    assert target.read_text() == "mine"
    with pytest.raises(UsageError, match="folder does not exist"):
        wb.shrink(hot(), "vllm.histogram_256", output=tmp_path / "no" / "x.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "k"),
    [
        ("vllm.filtered", 512),
        ("vllm.filtered", 2048),
        ("vllm.cooperative_8", 1024),
        ("sglang.v2_cluster_8", 2048),
        ("sglang.fast_topk", 2048),
        ("vllm.histogram_256", 2048),
    ],
)
def test_a_row_of_262144_takes_less_than_a_minute_on_one_core(path: str, k: int) -> None:
    length = 32768 if path == "vllm.histogram_256" else 262144
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(length, generator=generator)
    crowd = torch.rand(length, generator=generator) < 0.3
    scores[crowd] = 4 + torch.rand(int(crowd.sum()), generator=generator) / 100
    started = time.process_time()
    assert wb.shrink(Row(scores, length, call=Call(k=k)), path).is_minimum
    assert time.process_time() - started < 60


@pytest.mark.slow
@pytest.mark.parametrize("path", STOCK_BUFFERED)
def test_rows_of_every_case(path: str) -> None:
    for case_id in truth.cases():
        row = truth.rows(case_id, 1)[0]
        try:
            work = Shrinking(row, path)
        except CaptureError:
            continue
        if work.fault is not None:
            minimum(row, path=path)
