"""How rows become launches: whole calls as they were made, other rows alone, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.runs.launches import Laid, launches

CALL = wb.Call(k=2, rows=3, width=6, stride=8, max_seq_len=6, next_n=1, op="vllm.persistent_topk")


def rows_of(call: wb.Call, count: int = 3, dtype: torch.dtype = torch.float32) -> list[wb.Row]:
    """Rows of 6 cells with lengths 4, 5, … whose padding is 90 + row."""
    rows = []
    for at in range(count):
        scores = torch.full((6,), 90.0 + at, dtype=dtype)
        scores[: 4 + at % 3] = torch.arange(4 + at % 3) + 10 * at
        rows.append(wb.Row(scores, 4 + at % 3, call=call))
    return rows


def lay(rows: object, **options: object) -> list[Laid]:
    return list(launches(rows, **options))  # type: ignore[arg-type]


def test_a_whole_call_is_laid_as_it_was_called() -> None:
    rows = wb.Capture.from_rows(rows_of(CALL))
    (laid,) = lay(rows)
    launch = laid.launch
    assert launch is not None
    assert (launch.op, launch.k, launch.max_seq_len, launch.next_n, launch.slots) == (
        "vllm.persistent_topk",
        2,
        6,
        1,
        (0, 1, 2),
    )
    assert launch.scores.shape == (3, 6)
    assert launch.scores.stride() == (8, 1)
    assert launch.lengths.tolist() == [4, 5, 6]
    assert launch.lengths.dtype == torch.int32
    assert launch.starts is None
    assert torch.equal(launch.scores, torch.stack([row.scores for row in rows]))  # padding as it was captured
    assert (laid.note, laid.refused, laid.places) == ("", "", (0, 1, 2))
    assert [row.index for row in laid.rows] == [0, 1, 2]
    assert all(row.scores.data_ptr() == launch.scores[at].data_ptr() for at, row in enumerate(laid.rows))


def test_cells_that_were_not_captured_hold_minus_infinity() -> None:
    short = [wb.Row(torch.tensor([1.0, 2.0, 3.0]), 2, call=CALL) for _ in range(3)]
    (laid,) = lay(short)
    assert laid.launch is not None
    assert laid.launch.scores.as_strided((3, 8), (8, 1)).tolist() == [[1, 2, 3, *[-torch.inf] * 5]] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtypes_and_starts_are_kept(dtype: torch.dtype) -> None:
    rows = [wb.Row(row.scores, 2, start=at, call=CALL) for at, row in enumerate(rows_of(CALL, dtype=dtype))]
    (laid,) = lay(rows)
    assert laid.launch is not None
    assert laid.launch.scores.dtype == dtype
    assert laid.launch.starts is not None
    assert laid.launch.starts.tolist() == [0, 1, 2]
    assert laid.launch.starts.dtype == torch.int32


def test_rows_of_a_call_that_is_not_whole_are_laid_alone_in_copies() -> None:
    found = lay(wb.Capture.from_rows(rows_of(CALL, 2)))
    assert [laid.places for laid in found] == [(0,), (1,)]
    for at, laid in enumerate(found):
        assert laid.launch is not None
        assert laid.launch.slots == (0,)
        assert laid.launch.lengths.tolist() == [4 + at] * 3
        assert torch.equal(laid.launch.scores, laid.rows[0].scores.expand(3, 6))
        assert laid.note == (
            "laid alone, in 3 equal copies of which the first is judged: its call is not wholly captured"
        )


def test_chosen_rows_of_a_whole_call_say_that_others_were_not_given() -> None:
    capture = wb.Capture.from_rows(rows_of(CALL))
    (laid,) = lay([capture[1]])
    assert laid.note.endswith("the other rows of its call were not given")


def interleaved(dtype: torch.dtype = torch.float32) -> wb.Capture:
    """Two calls of three rows, whose rows alternate."""
    calls = [replace(CALL, step=at) for at in range(2)]
    rows = [replace(row, call=calls[at % 2]) for at, row in enumerate(rows_of(CALL, 6, dtype))]
    return wb.Capture.from_rows(rows)


def test_chosen_rows_are_laid_among_the_others_of_their_call() -> None:
    capture = wb.Capture.from_rows(rows_of(CALL))
    (whole,) = lay(capture)
    (laid,) = lay([capture[2], capture[1]], among=capture)
    assert laid.launch is not None
    assert whole.launch is not None
    assert (laid.launch.slots, laid.places, laid.note) == ((2, 1), (0, 1), "")
    assert [row.index for row in laid.rows] == [2, 1]
    assert torch.equal(laid.launch.scores, whole.launch.scores)
    assert laid.launch.scores.stride() == whole.launch.scores.stride()
    assert laid.launch.lengths.tolist() == [4, 5, 6]
    assert [row.scores.data_ptr() for row in laid.rows] == [laid.launch.scores[at].data_ptr() for at in (2, 1)]


def test_interleaved_calls_are_laid_whole_where_the_capture_is_given() -> None:
    capture = interleaved()
    found = lay(capture, among=capture)
    assert [laid.places for laid in found] == [(at,) for at in range(6)]
    assert [laid.launch.slots for laid in found if laid.launch] == [(0,), (0,), (1,), (1,), (2,), (2,)]
    for at, laid in enumerate(found):
        assert laid.launch is not None
        assert torch.equal(laid.launch.scores, torch.stack([capture[row].scores for row in range(at % 2, 6, 2)]))
    assert {laid.note.partition(":")[0] for laid in lay(capture)} == {
        "laid alone, in 3 equal copies of which the first is judged"
    }


def test_rows_of_another_capture_or_call_are_laid_alone() -> None:
    capture, other = wb.Capture.from_rows(rows_of(CALL)), wb.Capture.from_rows(rows_of(CALL), "other")
    (strange,) = lay([other[1]], among=capture)
    assert strange.note.endswith("the other rows of its call were not given")
    (changed,) = lay([replace(capture[1].with_call(rows=7), batch=None)], among=capture)
    assert changed.launch is not None
    assert len(changed.launch.scores) == 7
    assert changed.note.endswith("its call is not wholly captured")
    (wider,) = lay([capture[1].with_call(stride=12)], among=capture)
    assert wider.launch is not None
    assert (wider.launch.slots, wider.launch.scores.stride(0)) == ((1,), 12)


def test_others_that_cannot_be_read_or_do_not_fit_are_told(tmp_path: Path) -> None:
    wb.write(tmp_path / "c.safetensors", rows_of(CALL))
    with wb.open(tmp_path / "c.safetensors") as capture:
        row = capture[1]
    (laid,) = lay([row], among=capture)
    assert laid.launch is not None
    assert "the other rows of its call cannot be read: " in laid.note
    with wb.open(tmp_path / "c.safetensors") as capture:
        (large,) = lay([capture[1]], among=capture, limit=3 * 8 * 4 - 1)
    assert large.launch is None
    assert "--rows" in large.refused


def test_a_row_that_is_given_twice_is_no_whole_call() -> None:
    capture = wb.Capture.from_rows(rows_of(replace(CALL, rows=2), 2))
    (laid,) = lay([capture[1], capture[1]], among=capture)
    assert laid.launch is not None
    assert (laid.launch.slots, laid.launch.lengths.tolist()) == ((1, 1), [4, 5])


def test_a_call_with_more_rows_than_it_says_is_not_taken_for_whole() -> None:
    found = lay(wb.Capture.from_rows(rows_of(CALL, 7)))
    assert [laid.places for laid in found] == [(at,) for at in range(7)]
    assert {laid.note.rsplit(": ")[-1] for laid in found} == {"the capture holds more rows of its call than it had"}
    alone = replace(CALL, rows=1)
    assert [laid.note for laid in lay(wb.Capture.from_rows(rows_of(alone, 2)))] == ["", ""]


def test_calls_that_follow_each_other_are_told_apart(tmp_path: Path) -> None:
    calls = [replace(CALL, index=at, step=at, rows=rows) for at, rows in enumerate((3, 2, 1))]
    given = [row for call, count in zip(calls, (3, 1, 1), strict=True) for row in rows_of(call, count)]
    wb.write(tmp_path / "c.safetensors", given)
    with wb.open(tmp_path / "c.safetensors") as capture:
        assert [laid.places for laid in lay(capture)] == [(0, 1, 2), (3,), (4,)]


def test_what_is_not_said_is_taken_and_noted_or_refused() -> None:
    bare = wb.Call(k=2, rows=2)
    (laid,) = lay(rows_of(bare, 2))
    assert laid.launch is not None
    assert (laid.launch.op, laid.launch.scores.stride(0), laid.launch.max_seq_len) == ("", 6, 6)
    assert laid.note == (
        "not said by the capture and taken as: width 6 (the row's own), stride 6 (the width) and max_seq_len 6 (the "
        "width)"
    )
    (unknown,) = lay(rows_of(wb.Call(k=2), 1))
    assert unknown.launch is None
    assert "--rows" in unknown.refused
    with pytest.raises(wb.CaptureError, match="--k"):
        lay(rows_of(wb.Call(rows=1), 1))
    assert lay(rows_of(wb.Call(rows=1), 1), k=3)[0].k == 3


@pytest.mark.parametrize(("change", "option"), [({"width": 5}, "--width"), ({"stride": 5}, "--stride")])
def test_a_call_that_its_rows_contradict_is_refused(change: dict[str, int], option: str) -> None:
    (laid,) = lay(rows_of(replace(CALL, **change)))
    assert laid.launch is None
    assert option in laid.refused


def test_a_launch_beyond_the_limit_is_refused_before_it_is_made() -> None:
    found = lay(rows_of(replace(CALL, rows=2**50), 2))
    assert [laid.launch for laid in found] == [None, None]
    assert "GiB of scores, more than 4 GiB; give fewer rows (--rows)" in found[0].refused
    assert lay(rows_of(CALL), limit=3 * 8 * 4)[0].launch is not None
    assert "--rows" in lay(rows_of(CALL), limit=3 * 8 * 4 - 1)[0].refused


def test_launches_are_made_one_at_a_time() -> None:
    read: list[int] = []

    def reading() -> Iterator[wb.Row]:
        for at, row in enumerate(rows_of(replace(CALL, rows=None), 5)):
            read.append(at)
            yield replace(row, call=replace(CALL, step=at, rows=1))

    found = launches(reading())
    next(found)
    assert len(read) <= 2
    next(found)
    assert len(read) <= 3


def test_a_length_outside_its_row_is_handed_on_as_given() -> None:
    (laid,) = lay([wb.Row(torch.zeros(6), -1, call=replace(CALL, rows=1))])
    assert laid.launch is not None
    assert laid.launch.lengths.tolist() == [-1]
