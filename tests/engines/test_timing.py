"""Timing on the CPU: what is called, in which order, and what the answers hold. ``tests/gpu`` times on a GPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.engines.conftest import Behave
from tests.engines.test_vendor import launch
from workbench.engines.callable import CallableEngine
from workbench.engines.launch import Answer, Launch
from workbench.engines.registry import vendor_engine
from workbench.engines.timers import NO_KERNEL_NEEDED, CudaTimer, ModelTimer, Taken, TopkTimer
from workbench.engines.timing import FIRST_SLEEP, LONGEST_SLEEP, Sampling, measure_machine, sample
from workbench.engines.vendor.adapters import ADAPTERS
from workbench.engines.vendor.engine import VendorEngine
from workbench.paths.catalog import get_path
from workbench.runs.bench import Plan, Timers, run_bench
from workbench.runs.bench_grid import contenders, grid

pytestmark = pytest.mark.usefixtures("forked_workers")
CPU = torch.device("cpu")
FEW = Sampling(3, 1)


def batch(rows: int, width: int, k: int, lengths: list[int] | None = None) -> Launch:
    scores = torch.randn(rows, width, generator=torch.Generator().manual_seed(0))
    sizes = torch.tensor(lengths or [width] * rows, dtype=torch.int32)
    return Launch("", k, scores, sizes, width, slots=tuple(range(rows)))


def test_each_call_is_prepared_and_only_the_call_is_timed() -> None:
    done: list[str] = []

    def prepare() -> None:
        done.append("prepare")
        time.sleep(0.02)

    def call() -> None:
        done.append("call")
        time.sleep(0.002)

    times = sample(call, prepare, Sampling(3, 2), CPU, lambda at: done.append(f"sample {at}"))
    assert done == [part for at in range(5) for part in (f"sample {at}", "prepare", "call")]
    assert len(times.seconds) == 3
    assert all(0.002 <= seconds < 0.02 for seconds in times.seconds)
    assert times.late == 0


def test_a_cold_cache_is_made_so_before_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = torch.zeros(4, dtype=torch.int32)
    monkeypatch.setattr("workbench.engines.timing._flush_buffer", lambda device: buffer)
    seen: list[int] = []
    sample(lambda: seen.append(int(buffer[0])), lambda: None, Sampling(2, 1, cold=True), CPU)
    assert seen == [1, 2, 3]


class Device:
    """A GPU that spins for so many cycles and is done with an event once the host has spent so many before it."""

    def __init__(self) -> None:
        self.host, self.busy, self.done = 0, 0, []

    def sleep(self, cycles: int) -> None:
        self.busy = self.host + cycles
        self.done.append(f"sleep {cycles}")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Stands in for torch.cuda."""
    device = Device()

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            device.done.append("event")

        def query(self) -> bool:
            return device.host > device.busy

        def synchronize(self) -> None:
            device.done.append("wait")

        def elapsed_time(self, other: object) -> float:
            return 7.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", device.sleep)
    monkeypatch.setattr(torch.cuda, "device", lambda which: contextlib.nullcontext())
    return device


def test_a_gpu_is_kept_busy_until_the_call_is_queued(gpu: Device) -> None:
    def call() -> None:
        gpu.host += 3 * FIRST_SLEEP
        gpu.done.append("call")

    times = sample(call, lambda: gpu.done.append("prepare"), Sampling(2, 0), torch.device("cuda", 0))
    assert (times.seconds, times.late) == ((0.007, 0.007), 0)
    one = ["event", "call", "event", "wait"]
    slept = [FIRST_SLEEP, 2 * FIRST_SLEEP, 4 * FIRST_SLEEP, 4 * FIRST_SLEEP]
    assert gpu.done == [part for cycles in slept for part in ("prepare", f"sleep {cycles}", *one)]


def test_a_call_that_waits_for_a_gpu_is_counted(gpu: Device) -> None:
    def call() -> None:
        gpu.host = max(gpu.host, gpu.busy) + 1

    times = sample(call, lambda: None, Sampling(2, 1), torch.device("cuda", 0))
    assert times.late == 2
    assert gpu.done.count(f"sleep {LONGEST_SLEEP}") == 3


def test_a_machine_is_measured() -> None:
    found = measure_machine(CPU)
    assert (found.name, found.l2_bytes) == ("cpu", None)
    assert found.read_gbs > 0.1
    assert 0 <= found.floor_us < 1000


def test_topk_leaves_short_rows_empty_and_is_not_baited() -> None:
    given = batch(3, 40, 6, [40, 3, 0])
    given.scores[1, 3:] = torch.inf
    answer = TopkTimer().timed(given, FEW)
    assert answer.indices is not None
    assert answer.indices.shape == (2, 3, 6)
    assert sorted(answer.indices[0, 1, :3].tolist()) == [0, 1, 2]
    assert answer.indices[0, 1, 3:].tolist() == [-1] * 3
    assert answer.indices[1, 2].tolist() == [-1] * 6
    assert answer.times is not None
    assert len(answer.times.seconds) == 3
    assert TopkTimer().timed(batch(1, 4, 5), FEW).refused == ("torch.topk takes k up to the width, 4, not k 5",)


def test_models_run_each_row_on_its_own_path() -> None:
    taken = [Taken(get_path(name), "stock") for name in ("vllm.histogram_2048", "vllm.trivial")]
    answer = ModelTimer(taken).timed(batch(2, 5000, 512, [5000, 100]), FEW)
    assert answer.indices is not None
    assert answer.indices[0, 1].tolist() == [*range(100), *[-1] * 412]
    refused = ModelTimer([Taken(get_path("vllm.histogram_2048"), "stock")]).timed(batch(1, 9000, 100), FEW).refused
    assert refused == ("k is 100, the path takes 512, 1024 or 2048", "length 9000 is above 8192")


def test_kernels_say_every_reason_why_they_do_not_run() -> None:
    short, path = Taken(get_path("vllm.trivial"), "stock"), Taken(get_path("vllm.filtered"), "stock")
    assert CudaTimer([short]).timed(batch(1, 100, 512), FEW).refused == (NO_KERNEL_NEEDED,)
    other = Taken(get_path("vllm.histogram_4096"), "stock")
    (first,) = CudaTimer([path, other]).timed(batch(2, 9000, 512), FEW).refused
    assert "no CUDA device is visible" in first or "the scores lie on cpu" in first
    none = CudaTimer([Taken(get_path("torch.topk"), "stock")]).timed(batch(1, 9000, 512), FEW).refused
    assert none[0] == "torch.topk stock has no CUDA kernel yet"


def test_a_callable_is_timed_and_checked_before_and_after() -> None:
    calls = 0

    def exact(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        nonlocal calls
        calls += 1
        assert lengths.tolist() == [30, 30], "what a call writes to is given anew"
        lengths.zero_()
        found = torch.topk(scores, k).indices
        scores.zero_()
        return found

    given = batch(2, 30, 4)
    answer = CallableEngine(exact).timed(given, FEW)
    assert calls == 1 + FEW.calls + 1
    wanted = torch.topk(given.scores, 4).indices.to(torch.int32)
    assert answer.indices is not None
    assert torch.equal(answer.indices[0], wanted)
    assert torch.equal(answer.indices[1], wanted)
    assert answer.times is not None


def test_a_callable_that_fails_while_it_is_timed_is_a_fault() -> None:
    calls = 0

    def tires(scores: torch.Tensor, lengths: torch.Tensor, k: int) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise ValueError("enough")
        return torch.topk(scores, k).indices

    answer = CallableEngine(tires, "tires").timed(batch(1, 30, 4), FEW)
    assert answer.fault == "tires raised ValueError: enough while it was timed"
    assert answer.times is None


@pytest.fixture
def engine(behave: Behave) -> Iterator[VendorEngine]:
    behave("exact")
    with vendor_engine(device="cpu", call_s=60) as made:
        yield made


def timed(engine: VendorEngine, op: str, **change: object) -> Answer:
    return engine.timed(replace(launch(op), **change), FEW)


def test_released_ops_are_timed_by_their_contract(engine: VendorEngine) -> None:
    """The fakes check that output and workspace are fresh before each call, and spoil the lengths after it."""
    for op in ADAPTERS:
        answer = timed(engine, op)
        assert answer.times is not None, (op, answer)
        assert len(answer.times.seconds) == 3
        assert all(seconds > 0 for seconds in answer.times.seconds)
        assert answer.indices is not None
        assert answer.indices.shape[0] == 2
        assert torch.equal(answer.indices[0], answer.indices[1])
    assert engine.answer(launch("vllm.persistent_topk")).times is None


def test_an_op_that_hangs_or_crashes_is_a_fault(behave: Behave) -> None:
    for how, words in (("hangs", "did not return within"), ("crashes", "signal 11"), ("raises", "oversubscribe")):
        behave(how)
        with vendor_engine(device="cpu", call_s=1.5) as made:
            answer = timed(made, "vllm.persistent_topk")
        assert words in answer.fault, answer
        assert answer.times is None


def test_an_op_that_is_refused_is_not_timed(engine: VendorEngine) -> None:
    answer = timed(engine, "sglang.fast_topk_v2", k=512)
    assert "takes k 2048 only" in answer.refused[0]
    assert answer.times is None


@pytest.mark.parametrize(("how", "kind"), [("exact", "exact"), ("lossy", "lossy"), ("leaves slots", "invalid")])
def test_a_benchmark_of_a_release_in_its_process(behave: Behave, how: str, kind: str) -> None:
    behave(how)
    shapes = tuple(grid((2,), (1000,), (512,), "ragged", 1024))
    who = contenders(("vendor",), ("vllm.persistent_topk",), ("vllm==0.26.0",))
    timers = Timers(open_vendor=lambda release: vendor_engine(release, device="cpu", call_s=60))
    (cell,) = run_bench(Plan(shapes, tuple(who), device="h200", sampling=FEW), timers).cells
    assert cell.verdict is not None, cell
    assert cell.verdict.kind == kind
    assert len(cell.times_us) == 3
    if how == "leaves slots":
        assert cell.verdict.unwritten == 2 * 2 * 3
