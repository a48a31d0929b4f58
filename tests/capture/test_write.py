"""Writing captures: nothing is lost, nothing half-written appears."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from workbench.capture import Call, Capture, Row, open_capture, write_capture
from workbench.capture import write as write_module
from workbench.capture.row import SCORE_DTYPES
from workbench.errors import CaptureError, UsageError, WorkbenchError


def same(one: Row, other: Row) -> None:
    assert one.scores.dtype == other.scores.dtype
    assert torch.equal(one.scores.view(torch.uint8), other.scores.view(torch.uint8))
    assert (one.length, one.start) == (other.length, other.start)
    assert (one.indices is None) == (other.indices is None)
    if one.indices is not None and other.indices is not None:
        assert torch.equal(one.indices, other.indices)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@st.composite
def batches(draw: st.DrawFn) -> list[Row]:
    """Rows of one to four calls, any bits as scores."""
    dtype = draw(st.sampled_from(list(SCORE_DTYPES)))
    padded = draw(st.integers(1, 9)) if draw(st.booleans()) else None
    recorded = draw(st.booleans())
    unknown = draw(st.booleans())
    rows = []
    counts = st.none() | st.integers(0, 2**40) | st.just(2**63 - 1)
    calls = [
        Call(
            index=number,
            k=None if unknown else draw(st.integers(1, 4)),
            width=16,
            layer=draw(counts),
            step=draw(counts),
            max_seq_len=draw(st.none() | st.integers(9, 2**40)),
            op="an.op",
            request="r ü \n",
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    for number in sorted(draw(st.lists(st.integers(0, len(calls) - 1), min_size=1, max_size=6))):
        width = padded or draw(st.integers(0, 9))
        size = width * dtype.itemsize
        bits = bytearray(draw(st.binary(min_size=size, max_size=size)))
        scores = torch.frombuffer(bits, dtype=dtype) if width else torch.empty(0, dtype=dtype)
        start = draw(st.integers(0, width))
        length = draw(st.integers(0, width - start) | st.integers(-(2**31), 2**31 - 1))
        k = calls[number].k or 3
        inside = 0 <= length <= width - start
        some = st.integers(-1, length - 1) if inside else st.integers(-(2**31), 2**31 - 1)
        slots = draw(st.lists(some, min_size=k, max_size=k))
        indices = torch.tensor(slots, dtype=torch.int32) if recorded else None
        rows.append(Row(scores, length, start, calls[number], indices))
    return rows


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=batches())
def test_what_is_written_is_read(tmp_path: Path, rows: list[Row]) -> None:
    path = tmp_path / "x.safetensors"
    info = write_capture(path, iter(rows), device="h200", source="made", overwrite=True)
    capture = open_capture(path)
    assert len(capture) == len(rows)
    for one, other in zip(rows, capture, strict=True):
        same(one, other)
        expected = {**vars(one.call), "index": other.call.index, "device": "h200"}
        assert vars(other.call) == expected
    assert info == capture.info
    assert info.source == "made"
    assert capture.verify() == []
    with safe_open(path, "pt") as other_reader:  # the public reader takes the file too
        assert other_reader.get_tensor("scores").numel() == sum(row.scores.numel() for row in rows)


def rows_of(count: int = 3, **changes: Any) -> list[Row]:
    return [Row(torch.randn(8), 8, call=Call(k=2), **changes) for _ in range(count)]


def test_a_copy_of_a_capture_keeps_calls_without_rows_and_what_was_given(
    tmp_path: Path, stored: Callable[..., Path]
) -> None:
    path = stored(
        {"op": "x", "source": "by hand"},
        call=torch.tensor([0, 2], dtype=torch.int32),
        step=torch.tensor([5, 6, 7], dtype=torch.int32),
        indices=torch.tensor([[3, 1], [0, -1]], dtype=torch.int32),
    )
    with open_capture(path, device="v100") as capture:
        write_capture(tmp_path / "copy.safetensors", capture, model="m")
    copy = open_capture(tmp_path / "copy.safetensors")
    assert [call.step for call in copy.calls] == [5, 6, 7]
    assert copy[1].call == Call(index=2, step=7, op="x", device="v100", model="m")
    assert copy[1].indices is not None
    assert copy[1].indices.tolist() == [0, -1]
    assert copy.info.source == "by hand"


def test_a_capture_may_replace_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_capture(path, rows_of())
    with open_capture(path) as capture:
        before = [row.scores for row in capture]
        write_capture(path, capture, op="new", overwrite=True)
    after = open_capture(path)
    assert [torch.equal(one, row.scores) for one, row in zip(before, after, strict=True)] == [True] * 3
    assert after.info.strings["op"] == "new"


def test_calls_of_several_captures_stay_apart(tmp_path: Path) -> None:
    rows = [Row(torch.ones(4), 4, call=Call(k=2), capture=name) for name in ("a", "b", "a")]
    write_capture(tmp_path / "x.safetensors", rows)
    assert [row.call.index for row in open_capture(tmp_path / "x.safetensors")] == [0, 1, 0]


def test_layout_follows_the_widths(tmp_path: Path) -> None:
    assert write_capture(tmp_path / "a.safetensors", rows_of()).layout == "padded"
    mixed = [*rows_of(), Row(torch.ones(9), 9, call=Call(k=2))]
    assert write_capture(tmp_path / "b.safetensors", mixed).layout == "ragged"


def i32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "there are no rows"),
        ([*rows_of(1), Row(torch.ones(8).half(), 8)], "row 1: scores are float16, those of row 0 float32"),
        ([*rows_of(1), *rows_of(1, indices=i32(0, 1))], "row 0: no recorded indices, but other rows have them"),
        (rows_of(1, indices=i32(0)), "row 0: 1 recorded indices, but k is 2"),
        (rows_of(1, indices=i32(0, 8)), "row 0: recorded index 8 in slot 1 is outside"),
        ([Row(torch.ones(4), 4, call=Call(k=5))], "row 0: k 5 is not in [1, 4]"),
        (Row(torch.ones(4), 4), "the rows are of type workbench.capture.row.Row; a list of Row is needed"),
        ([Row(torch.ones(4), 4), None], "row 1: it is None; a Row is needed"),
        ([Row(torch.ones(4), 4, call=Call(op=op)) for op in ("a", None)], "calls differ in op ('a' and unknown)"),
        (
            [Row(torch.ones(4), 4, indices=i32(0)), Row(torch.ones(4), 4, indices=i32(0, 1))],
            "row 0: 1 recorded indices; 2 as in other rows",
        ),
    ],
)
def test_rows_that_a_file_cannot_hold(tmp_path: Path, rows: list[Row], words: str) -> None:
    with pytest.raises(CaptureError) as caught:
        write_capture(tmp_path / "x.safetensors", rows)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names_in(tmp_path) == []


def test_strings_that_differ_can_be_given(tmp_path: Path) -> None:
    rows = [Row(torch.ones(4), 4, call=Call(op=op)) for op in ("a", None)]
    assert write_capture(tmp_path / "x.safetensors", rows, op="b").strings["op"] == "b"


def test_targets_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_text("precious")
    with pytest.raises(UsageError, match="there already"):
        write_capture(path, rows_of())
    assert path.read_text() == "precious"
    with pytest.raises(UsageError, match="this is a folder"):
        write_capture(tmp_path, rows_of(), overwrite=True)
    with pytest.raises(UsageError, match="folder does not exist"):
        write_capture(tmp_path / "no" / "x.safetensors", rows_of())
    with pytest.raises(UsageError, match="a string is needed"):
        write_capture(tmp_path / "y", rows_of(), op=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not text that can be stored"):
        write_capture(tmp_path / "y", rows_of(), source="\ud800")
    with pytest.raises(UsageError, match="folder does not exist"):
        write_capture(path / "x.safetensors", rows_of())
    with pytest.raises(UsageError, match=r"not a path that can be written: .*null"):
        write_capture(tmp_path / "a\0b", rows_of())
    with pytest.raises(UsageError, match="not a path that can be written: File name too long"):
        write_capture(tmp_path / ("a" * 300), rows_of())
    with pytest.raises(CaptureError, match="cannot be written"):
        write_capture("/proc/x.safetensors", rows_of())
    assert names_in(tmp_path) == ["x.safetensors"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    pipe, link = tmp_path / "pipe.safetensors", tmp_path / "link.safetensors"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for target in (pipe, link):
        with pytest.raises(UsageError, match="a pipe, socket or device, and no regular file; choose another name"):
            write_capture(target, rows_of(), overwrite=overwrite)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert sorted(names_in(tmp_path)) == ["link.safetensors", "pipe.safetensors"]


def test_a_pipe_made_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    real = os.fsync

    def slow(fd: int) -> None:
        if not path.exists():
            os.mkfifo(path)
        real(fd)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(UsageError, match="a pipe, socket or device"):
        write_capture(path, rows_of(), overwrite=True)
    assert path.is_fifo()
    assert names_in(tmp_path) == ["x.safetensors"]


def test_a_name_that_would_be_read_as_an_index_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link.safetensors"
    index = tmp_path / "x.safetensors.index.json"
    index.write_text("{}")
    link.symlink_to(index.name)
    for target in (index, link):
        with pytest.raises(UsageError, match=r"names the index of a sharded set; use \*\.safetensors"):
            write_capture(target, rows_of(), overwrite=True)
    assert sorted(names_in(tmp_path)) == ["link.safetensors", index.name]
    assert index.read_text() == "{}"


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link.safetensors"
    link.symlink_to("real.safetensors")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="a link that leads nowhere; name a file"):
            write_capture(link, rows_of(), overwrite=overwrite)
    assert names_in(tmp_path) == ["link.safetensors"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), CaptureError("broken")])
@pytest.mark.parametrize("after", [0, 2])
def test_nothing_is_left_of_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int
) -> None:
    path = tmp_path / "x.safetensors"
    write_capture(path, rows_of())
    before = path.read_bytes()
    put, count = write_module._put, 0

    def failing(*args: Any) -> None:
        nonlocal count
        count += 1
        if count > after:
            raise error
        put(*args)

    monkeypatch.setattr(write_module, "_put", failing)
    with pytest.raises((KeyboardInterrupt, WorkbenchError)):
        write_capture(path, rows_of(), overwrite=True)
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["x.safetensors"]


@pytest.mark.parametrize(("tensor", "flip"), [("scores", -1), ("indices", -120), ("k", -124), ("lengths", -136)])
def test_a_disk_that_lies_is_found_by_reading_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensor: str, flip: int
) -> None:
    def lying(fd: int) -> None:
        path = next(tmp_path.glob(".*.tmp"))
        content = bytearray(path.read_bytes())
        begin, end = json.loads(content[8 : 8 + content[0] + 256 * content[1]])[tensor]["data_offsets"]
        assert begin <= len(content) + flip - (8 + content[0] + 256 * content[1]) < end
        content[flip] ^= 1
        path.write_bytes(content)

    monkeypatch.setattr(os, "fsync", lying)
    with pytest.raises(CaptureError, match=r"x\.safetensors"):
        write_capture(tmp_path / "x.safetensors", rows_of(indices=i32(0, 1)))
    assert names_in(tmp_path) == []


def test_a_file_made_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    real = os.fsync

    def slow(fd: int) -> None:
        path.write_text("another's")
        real(fd)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(UsageError, match="meanwhile"):
        write_capture(path, rows_of())
    assert path.read_text() == "another's"
    assert names_in(tmp_path) == ["x.safetensors"]


def test_a_link_stays_a_link_and_permissions_are_usual(tmp_path: Path) -> None:
    real, link, plain = tmp_path / "real.safetensors", tmp_path / "link.safetensors", tmp_path / "plain"
    plain.write_text("")
    write_capture(real, rows_of(1))
    link.symlink_to("real.safetensors")
    write_capture(link, rows_of(2), overwrite=True)
    assert link.is_symlink()
    assert len(open_capture(real)) == 2
    assert real.stat().st_mode == plain.stat().st_mode


def test_rows_in_memory_are_copied_as_a_capture(tmp_path: Path) -> None:
    rows = Capture.from_rows([Row(torch.ones(3), 2, 1), Row(torch.zeros(3), 3)])
    assert write_capture(tmp_path / "x.safetensors", rows).calls == 1
    for one, other in zip(rows, open_capture(tmp_path / "x.safetensors"), strict=True):
        same(one, other)
