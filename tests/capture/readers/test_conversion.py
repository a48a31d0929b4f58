"""Scores of another dtype: only as asked, exactly or not at all, and told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from workbench.capture import Call, Row, list_tensors, open_capture, write_capture
from workbench.errors import UsageError

Refusal = Callable[..., str]


def test_exact_values_are_read_as_asked_and_that_is_told(tmp_path: Path) -> None:
    exact = torch.randn(2, 9)
    exact[0, :3] = torch.tensor([torch.nan, -0.0, -torch.inf])
    torch.save({"scores": exact.double(), "lens": torch.tensor([9, 4])}, tmp_path / "x.pt")
    with open_capture(tmp_path / "x.pt", as_dtype="float32") as capture:
        assert torch.equal(capture[1].scores, exact[1])
        assert capture[0].scores.isnan().tolist() == [True] + [False] * 8
        assert torch.signbit(capture[0].scores[1])
        assert capture.info.dtype == "float32"
        assert any(
            "scores are float64 in the file and read as float32, as asked" in note for note in capture.info.notes
        )
        assert capture.verify() == []
        assert capture.digest.startswith("sha256:")
    assert list_tensors(tmp_path / "x.pt")[1] == ("scores", "float64", (2, 9))


def test_a_value_that_would_change_is_refused_and_named(tmp_path: Path, refusal: Refusal) -> None:
    values = torch.ones(3, 5, dtype=torch.float64)
    values[2, 3] = 0.1
    torch.save({"scores": values}, tmp_path / "x.pt")
    text = refusal(tmp_path / "x.pt", as_dtype="float32")
    assert "tensor 'scores', row 2: cell 3 is 0.1, which float32 does not hold exactly" in text
    values[2, 3] = 1e300
    torch.save({"scores": values}, tmp_path / "x.pt")
    assert "cell 3 is 1e+300" in refusal(tmp_path / "x.pt", as_dtype="float32")
    with open_capture(tmp_path / "x.pt", as_dtype="float32") as capture:
        assert len(capture.verify()) == 1
        assert capture[1].scores.tolist() == [1.0] * 5


@pytest.mark.parametrize(("value", "fine"), [(2**24, True), (2**24 + 1, False), (2**63 - 1, False), (-(2**63), False)])
def test_integers(tmp_path: Path, refusal: Refusal, value: int, fine: bool) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, value]]))
    if fine:
        assert open_capture(tmp_path / "x.npy", as_dtype="float32")[0].scores.tolist() == [1.0, float(value)]
    else:
        assert str(value) in refusal(tmp_path / "x.npy", as_dtype="float32")


def test_narrower_and_wider_floats(tmp_path: Path, refusal: Refusal) -> None:
    torch.save({"scores": torch.tensor([[1.0, 0.5]]).bfloat16()}, tmp_path / "x.pt")
    assert open_capture(tmp_path / "x.pt", as_dtype="float32")[0].scores.tolist() == [1.0, 0.5]
    torch.save({"scores": torch.tensor([[1.0, 1.0 + 2**-20]])}, tmp_path / "y.pt")
    assert "does not hold exactly" in refusal(tmp_path / "y.pt", as_dtype="bfloat16")


def test_bfloat16_that_numpy_has_no_name_for(tmp_path: Path, refusal: Refusal) -> None:
    made = torch.randn(2, 9).bfloat16()
    np.save(tmp_path / "x.npy", made.view(torch.int16).numpy().view("V2"))
    with open_capture(tmp_path / "x.npy", as_dtype="bfloat16") as capture:
        assert torch.equal(capture[1].scores, made[1])
        assert any("taken as bfloat16, as asked" in note for note in capture.info.notes)
    assert "dtype is void16" in refusal(tmp_path / "x.npy", as_dtype="float32")


def test_what_cannot_be_asked(tmp_path: Path, refusal: Refusal) -> None:
    torch.save({"scores": torch.ones(2, 3)}, tmp_path / "x.pt")
    assert "scores cannot be 'float64'" in refusal(tmp_path / "x.pt", UsageError, as_dtype="float64")
    write_capture(tmp_path / "c.safetensors", [Row(torch.ones(3), 3, call=Call(k=1))])
    assert "as they were recorded" in refusal(tmp_path / "c.safetensors", UsageError, as_dtype="float32")
