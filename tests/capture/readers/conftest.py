"""What tests of readers share: refusals in one line, and rows held against tensors bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.capture import open_capture
from workbench.errors import CaptureError, WorkbenchError


def read_all(path: Path, **names: Any) -> None:
    """Open something and read all its rows."""
    with open_capture(path, **names) as capture:
        for row in capture:
            assert row.scores.numel()


@pytest.fixture
def refusal() -> Callable[..., str]:
    """Open something that must be refused, and read all of it where that is when it is; gives the one line."""

    def refuse(path: Path, kind: type[WorkbenchError] = CaptureError, **names: Any) -> str:
        with pytest.raises(kind) as caught:
            read_all(path, **names)
        text = str(caught.value)
        assert "\n" not in text
        assert len(text) < 2500
        return text

    return refuse


@pytest.fixture
def same_bits() -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """Whether two tensors hold the same bytes."""

    def same(one: torch.Tensor, other: torch.Tensor) -> bool:
        flat = [tensor.contiguous().flatten().view(torch.uint8) for tensor in (one, other)]
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*flat)

    return same
