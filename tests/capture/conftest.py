"""Builders of capture files, by hand and by the safetensors package: not by the writer under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file


@pytest.fixture
def raw(tmp_path: Path) -> Callable[..., Path]:
    """Write a file from a header (an object, or bytes as they are) and data."""

    def write(header: Any, data: bytes = b"", *, length: int | None = None, name: str = "raw.safetensors") -> Path:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        path = tmp_path / name
        path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
        return path

    return write


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """Write a version 1 capture with the safetensors package: two padded rows, changed as asked (None removes)."""

    def write(strings: Any = None, *, name: str = "stored.safetensors", **tensors: torch.Tensor | None) -> Path:
        content: dict[str, torch.Tensor | None] = {
            "scores": torch.tensor([[1.0, 5.0, 3.0, 4.0], [2.0, 0.0, 7.0, 6.0]]),
            "lengths": torch.tensor([4, 3], dtype=torch.int32),
            **tensors,
        }
        text = strings if isinstance(strings, str) else json.dumps({"format_version": 1, **(strings or {})})
        path = tmp_path / name
        kept = {key: value for key, value in content.items() if value is not None}
        save_file(kept, path, metadata={"topk_workbench": text})
        return path

    return write


@pytest.fixture
def foreign(tmp_path: Path) -> Callable[..., Path]:
    """Write any safetensors file."""

    def write(tensors: dict[str, torch.Tensor], name: str = "foreign.safetensors") -> Path:
        path = tmp_path / name
        save_file(tensors, path)
        return path

    return write
