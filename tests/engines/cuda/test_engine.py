"""The engine says why it cannot run a path, and the rest of the workbench goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import workbench as wb
from workbench.capture.row import Call, Row
from workbench.engines.base import Task
from workbench.engines.cuda import device, engine, launch
from workbench.engines.cuda.device import Limits
from workbench.engines.registry import get_engine
from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path

PATH = get_path("vllm.histogram_256")
H200 = Limits("NVIDIA H200", (9, 0), 132, 232448)


def task(length: int = 12288, variant: str = "stock", path: object = PATH, dtype: torch.dtype = torch.float32) -> Task:
    row = Row(torch.zeros(12288, dtype=dtype), length, call=Call(width=12288))
    return Task(row, 512, Arrival(), path, variant)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (task(variant="v0.33.0"), "vllm.histogram_256 v0.33.0 has no CUDA kernel"),
        (task(path=get_path("sglang.deep_select")), "sglang.deep_select stock has no CUDA kernel"),
        (task(length=-1), "length -1 leaves the row"),
        (task(length=12289), "length 12289 leaves the row"),
        (task(length=8000), "length 8000 is not above 8192"),
        (task(dtype=torch.bfloat16), "scores are bfloat16"),
    ],
)
def test_what_it_refuses_with_or_without_a_gpu(asked: Task, told: str) -> None:
    assert get_engine("cuda").refusals(asked)[0].startswith(told)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(device, "_problem_with_cupy", lambda: device.NO_CUPY)
    (told,) = get_engine("cuda").refusals(task())
    assert "no CUDA device is visible to torch" in told
    assert "install the extra cuda13 or cuda12" in told
    assert told.endswith("--engine model answers without a GPU")
    with pytest.raises(UsageError, match="no CUDA device"):
        launch.launch(PATH, "stock", torch.zeros(1, 9000), torch.zeros(1, dtype=torch.int32), 512)


def test_what_a_device_lacks() -> None:
    assert H200.arch == "sm_90"
    assert H200.lacks(232448, (9, 0)) == []
    assert H200.lacks(232449, (10, 0)) == [
        "NVIDIA H200 has compute capability 9.0, the kernel needs 10.0",
        "a block needs 232449 bytes of shared memory, NVIDIA H200 gives it at most 232448",
    ]
    assert H200.lacks(0, (7, 0), cluster=16) == Limits("NVIDIA B200", (10, 0), 148, 232448).lacks(0, (7, 0), 16) == []
    for name, capability in (("NVIDIA L20", (8, 9)), ("NVIDIA GB10", (12, 1))):
        (told,) = Limits(name, capability, 48, 101376).lacks(0, (7, 0), cluster=4)
        major, minor = capability
        assert told.startswith(f"{name} has compute capability {major}.{minor}, the kernel needs clusters of 4 blocks")


def test_a_device_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filtered path needs 128 KiB, which a consumer's device does not give a block."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed (extra test)")
    monkeypatch.setattr(engine, "unavailable", list)
    monkeypatch.setattr(engine, "_device_of", lambda scores: torch.device("cuda", 0))
    monkeypatch.setattr(launch, "limits_of", lambda index: Limits("NVIDIA L20", (8, 9), 92, 99 * 1024))
    launch._needs.cache_clear()
    (told,) = get_engine("cuda").refusals(task(path=get_path("vllm.filtered")))
    launch._needs.cache_clear()
    assert told == "a block needs 132272 bytes of shared memory, NVIDIA L20 gives it at most 101376"


def test_a_report_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    row = Row(torch.rand(12288), 12288, call=Call(k=512, width=12288))
    (line,) = wb.run(row, paths="vllm.histogram_256", engine="cuda")
    assert line.engine == "cuda"
    assert line.verdict is None
    assert "no CUDA device is visible to torch" in line.refused


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import workbench.engines.registry as r; r.get_engine('cuda'); "
    )
    code += "print(*(set(sys.modules) - before))"  # torch brings some of them itself
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "workbench.engines.cuda.engine" in said.split()
    assert not {name.split(".")[0] for name in said.split()} & {"cupy", "cupy_backends", "cuda", "platformdirs"}
