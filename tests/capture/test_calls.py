"""What captures say of their calls: bounds, distinct values, and contradictions that verifying finds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from workbench.capture import Call, Capture, Row, list_tensors, open_capture, write_capture
from workbench.capture.format import CALL_BOUNDS, CALL_FIELDS
from workbench.errors import CaptureError, UsageError

Build = Callable[..., Path]


def i32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("name", CALL_FIELDS)
def test_integers_of_calls_out_of_bounds_are_refused_on_opening(stored: Build, name: str) -> None:
    least, most = CALL_BOUNDS[name]
    others = {} if name == "width" else {"width": torch.tensor([4, 4])}
    for value, words in ((least - 1, f"{least} or more"), (-2, f"{least} or more"), (most + 1, f"at most {most}")):
        if value == -1 or value >= 2**63:
            continue
        with pytest.raises(CaptureError) as caught:
            open_capture(stored(call=i32(0, 1), **{name: torch.tensor([-1, value])}, **others))
        assert f"'{name}', call 1: {name} is {value}; {words} is needed, or -1 where it is unknown" in str(caught.value)
    if name != "k":
        for dtype in (torch.int32, torch.int64):
            capture = open_capture(stored(call=i32(0, 1), **{name: torch.tensor([-1, 2**31 - 1], dtype=dtype)}))
            assert getattr(capture[1].call, name) == 2**31 - 1


def test_a_file_whose_k_no_row_can_have(stored: Build) -> None:
    path = stored(k=torch.tensor([2**34]), width=torch.tensor([2**34]))
    with pytest.raises(CaptureError, match="call 0: k is 17179869184; at most 2147483647 is needed"):
        open_capture(path)


@pytest.mark.parametrize("names", [{}, {"scores": "scores"}])
def test_k_that_is_given(stored: Build, names: dict[str, str]) -> None:
    path = stored()
    taken = open_capture(path, k=np.uint16(3), **names)[0].k  # type: ignore[arg-type]
    assert (taken, type(taken)) == (3, int)
    for k in (0, -1, True, 2.0, "2", np.float64(3), np.int64(0), -(10**5000)):
        with pytest.raises(UsageError, match=r"^k is .*; an integer of 1 or more is needed"):
            open_capture(path, k=k, **names)  # type: ignore[arg-type]
    for k in (2**31, 10**30, 10**5000):
        with pytest.raises(UsageError, match=r"^k is .*; 2147483647 is the most"):
            open_capture(path, k=k, **names)  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="k 2147483647 is larger than the row width 4"):
        open_capture(path, k=2**31 - 1, **names)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["scores", "lengths", "starts", "indices", "op", "release", "device"])
def test_names_that_are_no_strings(stored: Build, name: str) -> None:
    for wrong in (3, b"x", "\ud800"):
        with pytest.raises(UsageError, match=f"^{name} "):
            open_capture(stored(), **{name: wrong})


def test_a_path_of_bytes_and_of_nothing(stored: Build, tmp_path: Path) -> None:
    path = stored()
    with open_capture(os.fsencode(path)) as capture:
        assert capture.path == path
    assert list_tensors(os.fsencode(path))[0][0] == "lengths"
    write_capture(os.fsencode(tmp_path / "bytes.safetensors"), [Row(torch.ones(4), 4)])
    assert len(open_capture(tmp_path / "bytes.safetensors")) == 1
    for call in (open_capture, list_tensors, lambda given: write_capture(given, [])):
        with pytest.raises(UsageError, match="the path is 3; a string or a path is needed"):
            call(3)


def test_a_name_that_is_no_utf8_can_be_written_into_reports(stored: Build, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/\xff\xfe.safetensors"
    try:
        stored().rename(os.fsdecode(odd))
    except OSError as error:
        pytest.skip(f"the file system takes no such name: {error}")
    with open_capture(odd) as capture:
        assert capture.name == "\\xff\\xfe.safetensors"
        assert capture[0].capture == capture.name
        assert capture.info.path.encode() == os.fsencode(tmp_path) + b"/\\xff\\xfe.safetensors"
        assert capture.verify() == []


def test_distinct_values_of_a_field(stored: Build) -> None:
    three = {"call": i32(0, 2), "k": i32(3, -1, 2), "layer": torch.tensor([2**40, 0, 2**40])}
    capture = open_capture(stored(**three))
    assert capture.call_values("k") == [2, 3, None]
    assert capture.call_values("layer") == [0, 2**40]
    assert capture.call_values("step") == [None]
    assert {type(value) for value in capture.call_values("layer")} == {int}
    assert open_capture(stored(**three), k=4).call_values("k") == [4]
    assert Capture.from_rows(list(capture)).call_values("k") == [2, 3]
    for wrong in ("op", "index", "weather", 3):
        with pytest.raises(UsageError, match=r"calls have no integer .*; they have k, layer"):
            capture.call_values(wrong)  # type: ignore[arg-type]


def test_values_of_a_field_are_the_same_as_of_all_calls(foreign: Build, stored: Build) -> None:
    tensors = {f"layer.{at}": torch.ones(2, 4) for at in range(3)}
    for capture in (
        open_capture(foreign(tensors), scores="layer.*", k=2),
        open_capture(foreign(tensors), scores="layer.*"),
        open_capture(stored(rows=i32(3))),
        Capture.from_rows([Row(torch.ones(4), 4, call=Call(k=k)) for k in (3, 1, None)]),
    ):
        for name in CALL_FIELDS:
            known = {getattr(call, name) for call in capture.calls}
            assert capture.call_values(name) == sorted(known - {None}) + [None] * (None in known)


def test_calls_that_their_rows_contradict(stored: Build) -> None:
    capture = open_capture(
        stored(
            scores=torch.zeros(24),
            offsets=torch.tensor([0, 4, 9, 15, 24]),
            lengths=i32(4, 5, 2, 9),
            call=torch.tensor([2, 0, 2, 0]),
            rows=i32(1, 1, 2),
            width=i32(8, 1, 6),
            stride=i32(-1, 1, 5),
            max_seq_len=i32(8, 0, 4),
        )
    )
    assert [problem.split("'", 1)[1] for problem in capture.verify()] == [
        "rows', call 0: 2 rows, but the batch had 1",
        "width', call 0: the width is 8, but the widest row of the call holds 9 scores",
        "stride', call 2: the stride is 5, but rows of the call are 6 wide",
        "max_seq_len', call 0: max_seq_len is 8, but the longest row of the call has length 9",
    ]
    memory = Capture.from_rows(list(capture))
    assert memory.verify()[0].endswith("2 rows, but the batch had 1")
    assert len(memory.verify()) == 4
    assert "stride is 3, but rows of the call are 4 wide" in open_capture(stored(stride=i32(3))).verify()[0]
    exact = open_capture(stored(rows=i32(2), width=i32(4), stride=i32(4), max_seq_len=i32(4)))
    assert exact.verify() == []
    assert exact[0].call.stride == 4  # opening and reading go on all the same


def test_what_is_no_number_of_a_row_or_call(stored: Build) -> None:
    capture = open_capture(stored())
    for wrong in ("a", 1.0, None):
        for ask in (capture.__getitem__, capture.call_of, capture.width_of):
            with pytest.raises(TypeError, match="a row number is an integer, this is "):
                ask(wrong)  # type: ignore[operator, arg-type]
        for number in (capture.call, capture.rows_of, capture.calls.__getitem__):
            with pytest.raises(TypeError, match="a call number is an integer, this is "):
                number(wrong)  # type: ignore[operator]
    with pytest.raises(TypeError, match="this is of type slice; ask for them one by one"):
        capture[0:2]  # type: ignore[index]
    assert capture[np.int64(1)].index == 1  # type: ignore[index]
    assert capture.calls[-1:] == [capture.call(0)]
    for past in (-100, -2, 1, 100):
        with pytest.raises(IndexError, match=f"has calls 0 to 0, no call {past}$"):
            capture.calls[past]
    with pytest.raises(IndexError, match=r"has rows 0 to 1, no row -100$"):
        capture[-100]


def test_two_million_calls(tmp_path: Path) -> None:
    count = 2_000_000
    numbers = torch.arange(count, dtype=torch.int32)
    tensors = {
        "scores": torch.zeros(count, 1, dtype=torch.float16),
        "lengths": torch.ones(count, dtype=torch.int32),
        "call": numbers,
        "layer": numbers % 61,
        "rows": torch.ones(count, dtype=torch.int32),
    }
    path = tmp_path / "many.safetensors"
    save_file(tensors, path, metadata={"topk_workbench": '{"format_version": 1}'})
    begin = time.perf_counter()
    with open_capture(path) as capture:
        assert capture.call_values("layer") == list(range(61))
        assert capture.call_values("k") == [None]
        assert capture[count - 1].call.layer == (count - 1) % 61
    assert time.perf_counter() - begin < 5  # a tenth of a second; making every call takes ten
