"""The script that holds kernels against released ops: its plan and what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.bench import bench_kernels
from tests.runs.benches import MODEL, VENDOR, Fake, plan, vendor
from workbench.runs.bench import run_bench
from workbench.runs.bench_saved import read_bench


def test_kernels_that_take_too_long_are_marked() -> None:
    found = run_bench(plan(VENDOR, MODEL), vendor(Fake(us=1.0)))
    assert bench_kernels.over(found) == 1
    assert any(line.startswith("OVER") and "vllm.histogram_2048" in line for line in bench_kernels.summary(found))
    found = run_bench(plan(VENDOR, MODEL), vendor(Fake(us=1e9)))
    assert bench_kernels.over(found) == 0
    assert any(line.startswith("ok") for line in bench_kernels.summary(found))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here, so that cells are measured")
def test_without_a_gpu_every_cell_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    given = ["--output", str(file), "--rows", "1", "--width", "3000", "--samples", "1", "--l2", "warm"]
    assert bench_kernels.main(given) == 0  # torch.topk is measured on the CPU
    found = read_bench(file)
    assert len(found.cells) == 2 * 7
    assert [cell.contender.engine for cell in found.cells if cell.times_us] == ["torch.topk"] * 2
    said = capsys.readouterr().out
    assert "no CUDA device is visible to torch" in said
    assert found.about["command"].startswith("python3 -m tests.bench.bench_kernels")
