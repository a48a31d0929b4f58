"""Rows and calls made by hand: whatever is given, they hold what they say, or one line says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import Call, Capture, Row
from workbench.capture.format import CALL_BOUNDS, CALL_FIELDS, STRINGS
from workbench.errors import CaptureError

LEAST = {"index": 0, "k": 1, "rows": 1, "width": 1, "stride": 1, "next_n": 1} | dict.fromkeys(
    ("max_seq_len", "layer", "step", "rank"), 0
)
MOST = {name: 2**31 - 1 if name in ("k", "width") else 2**63 - 1 for name in LEAST}


def refusal(make: Callable[..., object], *given: Any, **named: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        make(*given, **named)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300
    return text


def test_every_integer_of_a_call_has_bounds() -> None:
    assert set(CALL_BOUNDS) == {"index", *CALL_FIELDS} == set(LEAST)


@pytest.mark.parametrize("name", LEAST)
def test_integers_of_a_call(name: str) -> None:
    least, most = LEAST[name], MOST[name]
    for value in (least, most, np.int64(most), np.uint8(7)):
        held = getattr(Call(**{name: value}), name)  # type: ignore[arg-type]
        assert held == value
        assert type(held) is int
    assert f"{name} is {least - 1}; an integer of {least} or more is needed" in refusal(Call, **{name: least - 1})
    assert f"{name} is {most + 1}; {most} is the most" in refusal(Call, **{name: most + 1})
    for value, words in (
        (2.0, "2.0"),
        (True, "True"),
        ("2", "'2'"),
        (np.float32(2), "of type numpy.float32"),
        (np.bool_(True), "of type numpy.bool"),
        (torch.tensor(2), "of type torch.Tensor"),
        ([2], "of type list"),
        (10**5000 * -1, "an integer of 16610 bits"),
        ("a\n" * 500, "'a\\na"),
    ):
        text = refusal(Call, **{name: value})
        assert text.startswith(f"{name} is {words}")
        assert text.endswith(f"; an integer of {least} or more is needed")
    assert f"an integer of 16610 bits; {most} is the most" in refusal(Call, **{name: 10**5000})
    if name == "index":
        assert "index is None" in refusal(Call, index=None)
    else:
        assert getattr(Call(**{name: None}), name) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("name", STRINGS)
def test_strings_of_a_call(name: str) -> None:
    assert getattr(Call(**{name: "é\n"}), name) == "é\n"  # type: ignore[arg-type]
    assert f"{name} is 3; a string is needed" in refusal(Call, **{name: 3})
    assert f"{name} is of type bytes; a string is needed" in refusal(Call, **{name: b"x"})
    assert f"{name} '\\ud800' is not text that can be stored" in refusal(Call, **{name: "\ud800"})


ONES = torch.ones(4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"scores": np.ones(4, dtype=np.float32)},
            "'scores', row 0: scores are numpy.ndarray; a torch tensor is needed",
        ),
        ({"scores": [1.0, 2.0]}, "scores are list; a torch tensor is needed"),
        ({"scores": None}, "scores are NoneType; a torch tensor is needed"),
        ({"scores": ONES.double()}, "scores are torch.float64; float32, bfloat16 or float16 is needed"),
        ({"scores": ONES.reshape(2, 2)}, "not of shape [2, 2]"),
        ({"scores": ONES.reshape([1] * 30 + [4])}, "not of shape [1, 1, 1, 1, 1, 1, 1, 1, … 31 dimensions]"),
        ({"scores": ONES.to_sparse()}, "a dense tensor with values is needed"),
        ({"scores": ONES.to("meta")}, "a dense tensor with values is needed"),
        ({"scores": torch.ones(1).expand(2**31)}, "a row of 2147483648 is wider than 2147483647"),
        ({"length": 2.0}, "'lengths', row 0: length is 2.0; an integer of -2147483648 or more is needed"),
        ({"length": "4"}, "length is '4'"),
        ({"length": None}, "length is None"),
        ({"length": True}, "length is True"),
        ({"length": torch.tensor(4)}, "length is of type torch.Tensor"),
        ({"length": -(2**31) - 1}, "length is -2147483649; an integer of -2147483648 or more is needed"),
        ({"length": 2**31}, "length is 2147483648; 2147483647 is the most"),
        ({"length": 10**5000}, "length is an integer of 16610 bits"),
        ({"start": 1.5}, "'starts', row 0: start is 1.5"),
        ({"start": -1}, "start is -1"),
        ({"start": 5}, "'starts', row 0: start 5 is past the row width 4"),
        ({"call": {"k": 3}}, "'call', row 0: call is of type dict; a Call is needed"),
        ({"call": None}, "call is None; a Call is needed"),
        ({"indices": [0, 1]}, "'indices', row 0: indices are list; a torch tensor, int32 [k], is needed"),
        ({"indices": torch.tensor([0, 1])}, "indices are torch.int64 [2]; int32 [k] is needed"),
        ({"indices": torch.ones(1, 2, dtype=torch.int32)}, "indices are torch.int32 [1, 2]; int32 [k] is needed"),
        ({"batch": [4]}, "'batch', row 0: batch are list; a torch tensor, integers [rows], is needed"),
        ({"batch": torch.ones(2)}, "batch are torch.float32 [2]; integers [rows] is needed"),
        ({"batch": torch.tensor([True])}, "batch are torch.bool [1]"),
        ({"index": 1.0}, "index is 1.0; an integer of 0 or more is needed"),
        ({"index": -1}, "index is -1"),
        ({"capture": 3}, "capture is 3; a string is needed"),
        ({"capture": "\ud800"}, "capture '\\ud800' is not text"),
    ],
)
def test_what_is_no_row(given: dict[str, Any], words: str) -> None:
    assert words in refusal(Row, **{"scores": ONES, "length": 4, **given})


def test_integers_of_numpy_become_ints() -> None:
    row = Row(ONES, np.int32(3), np.uint8(1), Call(k=np.int64(2)), index=np.int64(5))  # type: ignore[arg-type]
    assert [type(value) for value in (row.length, row.start, row.k, row.index)] == [int] * 4
    assert row.valid.tolist() == [1.0] * 3
    batch = Row(ONES, 4, batch=torch.tensor([4, 4]), indices=torch.zeros(2, dtype=torch.int32)).batch
    assert batch is not None


def test_a_changed_call_is_checked_too() -> None:
    row = Row(ONES, 4)
    assert row.with_call(k=np.int32(3)).k == 3
    assert "k is 0; an integer of 1 or more is needed" in refusal(row.with_call, k=0)
    assert "width is 4.0" in refusal(row.with_call, width=4.0)


def test_what_is_no_rows() -> None:
    assert "the rows are of type workbench.capture.row.Row; a list of Row" in refusal(Capture.from_rows, Row(ONES, 4))
    assert "row 1: it is of type torch.Tensor; a Row is needed" in refusal(Capture.from_rows, [Row(ONES, 4), ONES])


def test_names_are_text_that_can_be_written_anywhere() -> None:
    assert Capture.from_rows([Row(ONES, 4)], name="a\n\ud800\udcff\u2028").name == "a\\x0a\\ud800\\xff\\u2028"


@pytest.mark.parametrize(
    ("length", "start", "valid", "outside"),
    [
        (4, 0, 4, False),
        (0, 4, 0, False),
        (3, 1, 3, False),
        (-1, 0, 0, True),
        (5, 0, 4, True),
        (4, 1, 3, True),
        (1, 4, 0, True),
        (2**31 - 1, 2, 2, True),
        (-(2**31), 4, 0, True),
    ],
)
def test_a_length_that_leaves_the_row(length: int, start: int, valid: int, outside: bool) -> None:
    row = Row(ONES, length, start)
    assert (row.length, row.valid.numel(), row.outside) == (length, valid, outside)
    assert row.digest != Row(ONES, valid, start).digest or not outside
