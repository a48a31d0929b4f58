"""A kernel that hangs, or reaches outside its memory, takes its own process along and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.capture.row import Call, Row
from workbench.engines.cuda import engine
from workbench.engines.cuda.apart import Apart
from workbench.engines.worker import host
from workbench.resources import kernels_dir
from workbench.runs.report import Line

pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")
WIDTH, K = 65536, 2048
SOUND = "  Group group(call, block);\n"
BROKEN = {
    "waits for a block that never comes": "  if (group.rank == 1) return;\n",
    "reaches outside": "  if (group.rank == 1 && threadIdx.x == 0) call.emission.output[1LL << 40] = 0;\n",
}


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    """Processes of this test alone."""
    processes = Apart()
    monkeypatch.setattr(engine, "APART", processes)
    yield processes
    processes.close()


def break_radix(how: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that start from now on have this fault in their radix kernel."""
    for source in kernels_dir().iterdir():
        text = source.read_text()
        if source.name == "radix.cu":
            assert text.count(SOUND) == 1
            text = text.replace(SOUND, SOUND + BROKEN[how])
        (folder / source.name).write_text(text)
    monkeypatch.setattr(host, "CHILD", "tests.gpu.broken_child")
    monkeypatch.setenv("BROKEN_KERNELS", str(folder))
    monkeypatch.setenv("TOPK_WORKBENCH_KERNELS", str(folder / "built"))


def lines(timeout: float, where: str = "cpu", op: str = "vllm.persistent_topk") -> list[Line]:
    scores = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1)).to(where)
    call = Call(k=K, rows=1, width=WIDTH, stride=WIDTH, max_seq_len=WIDTH)
    return wb.run(
        Row(scores, WIDTH, call=call), op=op, release="vllm==0.26.0", device="h200", engine="cuda", timeout=timeout
    ).lines


def test_what_happens_there_is_a_finding(own: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its text, this process keeps the device, and the next row is selected from as if nothing had been."""
    for how, told in (
        ("waits for a block that never comes", " did not return within 4 s: it hangs, or takes longer than that"),
        ("reaches outside", ": CUDA error: an illegal memory access was encountered"),
    ):
        (folder := tmp_path / how).mkdir()
        with monkeypatch.context() as broken:
            break_radix(how, folder, broken)
            (line,) = lines(4)
        print(f"{how}: {line.finding}")
        assert (line.verdict, line.refused) == (None, None)
        assert line.finding == f"the kernel of vllm.radix stock{told}"
        assert torch.ones(1000, device="cuda").sum().item() == 1000
    for where in ("cpu", "cuda"):
        for op in ("vllm.persistent_topk", "vllm.cooperative_topk"):
            (line,) = lines(60, where, op)
            assert (line.verdict, line.finding, line.refused) == ("exact", None, None), (where, op)
