"""Captures for the app, and the app itself with a folder given at start."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import streamlit as st
import torch
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

from workbench.capture import Call, Row, write_capture

ROOT = Path(__file__).parents[2]
K = 512


def make_capture(path: Path, *, release: str | None = "vllm==0.26.0", seed: int = 0) -> Path:
    """Three rows: normal ones at 0 and 2, and one of 9000 scores in a single coarse bin at 1."""
    random = torch.Generator().manual_seed(seed)
    known = {"op": "vllm.persistent_topk", "release": release, "device": "h200"}
    call = Call(k=K, rows=3, width=9000, stride=9000, max_seq_len=9000, **known)  # type: ignore[arg-type]
    rows = [torch.randn(9000, generator=random) for _ in range(3)]
    rows[1] = torch.rand(9000, generator=random) * 0.245 + 1.0
    indices = [torch.topk(row, K).indices.to(torch.int32) for row in rows]
    write_capture(path, [Row(row, 9000, call=call, indices=best) for row, best in zip(rows, indices, strict=True)])
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a capture, a broken file and a foreign one."""
    where = tmp_path / "dumps"
    where.mkdir()
    make_capture(where / "bad-row.safetensors")
    (where / "broken.safetensors").write_bytes(b"these are no tensors")
    save_file(
        {"attn.x": torch.randn(2, 3000), "attn.len": torch.tensor([3000, 2500], dtype=torch.int32)},
        str(where / "foreign.safetensors"),
    )
    return where


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the download buttons of the last run would give, by file name: what makes them when pressed."""
    offered: dict[str, Any] = {}

    def button(label: str, data: Any, file_name: str, **kwargs: Any) -> None:
        offered[file_name] = data

    monkeypatch.setattr(st, "download_button", button)
    return offered


@pytest.fixture
def app(folder: Path, monkeypatch: pytest.MonkeyPatch, forked_workers: None) -> Callable[..., AppTest]:
    """Open the app, with query parameters and arguments as given (by default the folder)."""

    def open_app(arguments: Sequence[str] | None = None, **params: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", *([str(folder)] if arguments is None else arguments)])
        test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_app


def taken(files: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The lines of a Parquet file that is offered."""
    lines: list[dict[str, Any]] = pq.read_table(io.BytesIO(files[f"{name}.parquet"]())).to_pylist()
    return lines


def saved_names(test: AppTest) -> list[str]:
    """What pictures of a page are called when they are saved."""
    return [json.loads(chart.proto.config)["toImageButtonOptions"]["filename"] for chart in test.get("plotly_chart")]


def texts(test: AppTest) -> str:
    """Everything that the app says in Markdown and boxes, without the escapes."""
    parts = [*test.markdown, *test.error, *test.warning, *test.info, *test.caption]
    return "\n".join(part.value for part in parts).replace("\\", "")
