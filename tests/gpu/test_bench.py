"""Timing on a device: what samples hold, that caches are cold, and a benchmark of kernels beside torch.topk."""

from __future__ import annotations

import statistics
import time

import pytest
import torch

import workbench as wb
from workbench.engines.timing import LONGEST_SLEEP, Sampling, l2_bytes, measure_machine, sample
from workbench.runs.bench import Plan, device_of, run_bench
from workbench.runs.bench_grid import contenders, grid

HERE = torch.device("cuda", 0)
OP = "vllm.persistent_topk"


def test_samples_hold_the_devices_time_alone() -> None:
    """A host that dawdles before it queues a small kernel does not make it slow."""
    small = torch.zeros(1024, device=HERE)

    def dawdles() -> None:
        time.sleep(0.002)
        small.add_(1)

    times = sample(dawdles, lambda: None, Sampling(5, 5), HERE)
    assert times.late == 0
    assert statistics.median(times.seconds) < 0.0005


def test_a_call_that_waits_for_the_device_is_told() -> None:
    def waits() -> None:
        torch.cuda.synchronize()
        time.sleep(0.001)

    times = sample(waits, lambda: None, Sampling(2, 0), HERE)
    assert times.late == 2
    assert LONGEST_SLEEP < 1 << 30


def test_cold_rows_take_longer_than_warm_ones() -> None:
    size = (l2_bytes(HERE) or 2**22) // 4
    buffer = torch.ones(size // 4, device=HERE)
    warm, cold = (
        min(sample(buffer.sum, lambda: None, Sampling(20, 5, cold), HERE).seconds)  # what else runs there takes time
        for cold in (False, True)
    )
    assert cold > 1.1 * warm


def test_a_machine_is_measured() -> None:
    found = measure_machine(HERE)
    assert found.read_gbs > 100
    assert found.floor_us < 50
    assert found.about["capability"]


def test_kernels_are_timed_beside_torch() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")
    device = device_of(torch.cuda.get_device_name()) or "h200"
    shapes = [*grid((2, 40), (8192,), (512,), "both"), *grid((3,), (8192,), (512,), "ragged", 9000)]
    who = contenders(("cuda", "torch.topk"), (OP,), ("vllm==0.26.0",))
    found = run_bench(Plan(tuple(shapes), tuple(who), ("warm", "cold"), device, Sampling(5, 2)))
    for cell in found.cells:
        assert not cell.refused, cell
        assert not cell.fault, cell
        assert cell.verdict is not None
        assert cell.verdict.kind in ("exact", "ties"), cell
        assert 0 < min(cell.times_us) < 1e5
        assert cell.late == 0, cell


def test_ragged_rows_of_several_paths_are_timed() -> None:
    """One launch of the op, with a kernel whose blocks wait for each other in it, so that another process runs it."""
    pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")
    found = wb.bench(
        *(OP, "vllm==0.26.0", ["cuda", "torch.topk"]),
        rows=20,
        width=36000,
        k=512,
        lengths="ragged",
        device="h200",
        samples=5,
        warmups=2,
    )
    cell = found.cells[0]
    print(f"{cell.paths}: {cell.spread}, {cell.notes}")
    assert (cell.refused, cell.fault) == ((), "")
    assert set(cell.paths) == {"vllm.histogram_256", "vllm.radix"}
    assert any("several paths: 2 kernels" in note for note in cell.notes)
    assert cell.verdict is not None
    assert cell.verdict.kind in ("exact", "ties")
    assert 0 < min(cell.times_us) < 1e5
