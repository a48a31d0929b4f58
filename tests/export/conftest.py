"""Rows that break a path, and generated tests as modules."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests import warm
from workbench.capture import Call, Row


def hot(count: int, above: int = 0, width: int = 20_000, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """``count`` neighbours above 1.0 in one coarse bin, ``above`` scores from 100 on, the rest at -3; shuffled."""
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    one = torch.ones(1, dtype=dtype).view(bits)
    scores = torch.full((width,), -3.0, dtype=dtype)
    scores[:count] = (one + torch.arange(count).to(bits)).view(dtype)
    scores[count : count + above] = 100.0 + torch.arange(above).to(dtype)
    return scores[torch.randperm(width, generator=torch.Generator().manual_seed(1))]


def row(scores: torch.Tensor, **call: object) -> Row:
    """A row of persistent_topk as vLLM 0.26.0 calls it, which it sends to histogram_256."""
    known = {"k": 2048, "op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    width = scores.numel()
    known |= {"rows": 1, "width": width, "stride": width, "max_seq_len": width}
    return Row(scores, width, call=Call(**{**known, **call}))  # type: ignore[arg-type]


def loaded(path: Path) -> ModuleType:
    """A generated test as a module that runs on the CPU."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.DEVICE = "cpu"  # type: ignore[attr-defined]
    return module


def run_pytest(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest as elsewhere: without the workbench's plugin and settings."""
    settings = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder)} | environment
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", str(folder), *args]
    return warm.run(command, cwd=folder, env=settings)


@pytest.fixture
def broken() -> Row:
    """5000 scores in a bin of 4096."""
    return row(hot(5000))
