"""Executors in this process and in a pool of real ones: what is the same, what survives, what is left behind."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.audit.executors.tasks import (
    Deadly,
    Digest,
    Hangs,
    Loud,
    Opens,
    Raises,
    Seen,
    Unborn,
    Waits,
    awaited,
    ended,
)
from tests.engines.conftest import ROOT, descriptors
from workbench.audit.executors import front
from workbench.audit.executors.base import Lost, TaskError
from workbench.audit.executors.front import make_executor, usable_cores
from workbench.audit.executors.processes import Processes
from workbench.audit.executors.ray import OnRay
from workbench.audit.unit import Unit
from workbench.errors import CaptureError, UsageError, WorkbenchError

pytestmark = pytest.mark.usefixtures("forked_workers")
SLOW = [pytest.param(by, marks=pytest.mark.slow) for by in (signal.SIGSEGV, signal.SIGABRT, -3)]


@pytest.fixture(scope="module")
def pool() -> Iterator[Processes]:
    """Two workers, kept warm from test to test."""
    with Processes(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def digests() -> dict[int, str]:
    work = Digest().open(0)
    return {unit: work(unit) for unit in range(40)}


def test_results_do_not_depend_on_the_executor_or_the_workers(pool: Processes, digests: dict[int, str]) -> None:
    assert dict(make_executor("serial").run(Digest(), range(40))) == digests
    assert dict(pool.run(Digest(0.01), range(40))) == digests
    for workers in (1, 4):
        with make_executor("processes", workers) as executor:
            assert executor.workers == workers
            assert dict(executor.run(Digest(0.01), range(40))) == digests


def test_no_units_no_processes() -> None:
    with Processes(2) as pool:
        assert list(pool.run(Digest(), [])) == []
        assert [slot.worker.pid for slot in pool._slots] == [None, None]
        assert len(list(pool.run(Digest(), [1]))) == 1
        assert [slot.worker.pid is None for slot in pool._slots] == [False, True]


def test_a_unit_may_be_anything(pool: Processes) -> None:
    units = [None, 0, "", Unit("a/b.safetensors", 0, 3, 12), ()]
    assert sorted(map(repr, (unit for unit, _ in pool.run(Seen(), units)))) == sorted(map(repr, units))


def test_a_worker_has_one_thread_a_number_and_its_device() -> None:
    with Processes(2, devices=["GPU-a", "GPU-b"]) as pool:
        seen = {result for _, result in pool.run(Seen(0.2), range(8))}
    assert {(worker, threads, device) for worker, _, threads, device in seen} <= {(0, 1, "GPU-a"), (1, 1, "GPU-b")}
    assert os.getpid() not in {pid for _, pid, _, _ in seen}


def test_a_task_is_opened_once_a_worker_and_anew_for_each_run(pool: Processes, tmp_path: Path) -> None:
    for expected in (2, 4):
        assert len(list(pool.run(Opens(tmp_path), range(30)))) == 30
        assert len(list(tmp_path.iterdir())) <= expected
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} <= {"0", "1"}


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_units_are_drawn_as_results_are_consumed(name: str, pool: Processes) -> None:
    drawn = 0

    def units() -> Iterator[int]:
        nonlocal drawn
        for unit in range(10**9):
            drawn += 1
            yield unit

    executor = pool if name == "processes" else make_executor(name)
    results = executor.run(Seen(), units())
    for consumed in range(1, 20):
        next(results)
        time.sleep(0.01)  # a consumer that is slow
        assert drawn <= consumed + 2 * executor.workers
    results.close()


def test_a_run_ends_the_one_before(pool: Processes) -> None:
    before = pool.run(Seen(), range(100))
    next(before)
    assert dict(pool.run(Digest(), range(2))) == dict(make_executor("serial").run(Digest(), range(2)))
    with pytest.raises(RuntimeError, match="the run was ended"):
        list(before)


@pytest.mark.parametrize("by", [signal.SIGKILL, *SLOW])
def test_a_unit_that_kills_its_worker_is_run_again_and_then_lost(pool: Processes, tmp_path: Path, by: int) -> None:
    assert sorted(pool.run(Deadly(tmp_path, 1, by), range(8))) == [(unit, unit) for unit in range(8)]
    results = list(pool.run(Deadly(tmp_path, 9, by), range(8)))
    (lost,) = [result for result in results if isinstance(result, Lost)]
    how = f"ended with exit code {-by}" if by < 0 else f"ended by signal {by:d} ({signal.Signals(by).name})"
    assert lost == Lost(3, f"twice: the process {how}")
    assert sorted(result for result in results if result != lost) == [(unit, unit) for unit in range(8) if unit != 3]


def test_a_worker_killed_from_outside_is_replaced(pool: Processes, tmp_path: Path) -> None:
    results = pool.run(Waits(tmp_path), range(6))

    def kill() -> None:
        os.kill(int(awaited(tmp_path / "unit-1")), signal.SIGKILL)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    assert sorted(results) == [(unit, unit) for unit in range(6)]
    thread.join()
    assert sorted(pool.run(Seen(), range(2)))[1][0] == 1
    for slot in pool._slots:  # idle ones
        if slot.worker.pid is not None:
            os.kill(slot.worker.pid, signal.SIGKILL)
    assert [unit for unit, _ in sorted(pool.run(Seen(), range(6)))] == list(range(6))


def test_a_unit_that_takes_too_long_is_run_again_and_then_lost() -> None:
    with make_executor("processes", 2, timeout=0.4) as executor:
        results = list(executor.run(Hangs(), range(5)))
    (lost,) = [result for result in results if isinstance(result, Lost)]
    assert lost.unit == 1
    assert lost.reason == "twice: the unit did not return within 0.4 s: it hangs, or takes longer than that"
    assert len(results) == 5


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_an_exception_of_a_task_ends_the_run_and_names_the_unit(name: str, pool: Processes) -> None:
    executor = pool if name == "processes" else make_executor(name)
    with pytest.raises(TaskError, match=r"^2: ZeroDivisionError: no such thing") as caught:
        list(executor.run(Raises("defect"), range(5)))
    assert caught.value.unit == 2
    assert "in work" in caught.value.__notes__[0]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.unit, again.__notes__) == (str(caught.value), 2, caught.value.__notes__)
    with pytest.raises(UsageError, match=r"^2: a cure"):
        list(executor.run(Raises("people"), range(5)))
    with pytest.raises(UsageError, match=r"^2: a.safetensors, row 4: cut short"):
        list(executor.run(Raises("place"), range(5)))
    with pytest.raises(CaptureError, match=r"^a.safetensors, row 4: cut short"):
        list(executor.run(Raises("place", opening=True), range(5)))
    with pytest.raises(TaskError, match=r"^opening the task: ZeroDivisionError"):
        list(executor.run(Raises("defect", opening=True), range(5)))
    with pytest.raises((TaskError, UsageError), match="a cure"):
        list(executor.run(Raises("unpicklable"), range(5)))
    assert len(list(executor.run(Seen(), range(4)))) == 4  # and it goes on with the next run


def test_a_task_that_no_worker_lives_to_open_ends_the_run(pool: Processes) -> None:
    with pytest.raises(WorkbenchError, match=r"worker \d did not live to open its task: 3 times: .*\(SIGSEGV\)"):
        list(pool.run(Unborn(), range(5)))


@pytest.mark.parametrize("name", ["serial", "processes"])
def test_an_error_of_the_units_ends_the_run(name: str, pool: Processes) -> None:
    def units() -> Iterator[int]:
        yield from range(5)
        raise OSError("the folder is gone")

    executor = pool if name == "processes" else make_executor(name)
    with pytest.raises(OSError, match="the folder is gone"):
        list(executor.run(Seen(), units()))


def test_large_results_come_whole_and_nothing_is_printed(pool: Processes, capfd: pytest.CaptureFixture[str]) -> None:
    for unit, result in pool.run(Loud(5 << 20), range(1, 4)):
        assert result == bytes([unit]) * (5 << 20)
    assert capfd.readouterr() == ("", "")


def test_what_is_left_in_the_middle_ends_its_workers_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = descriptors()
    with Processes(2) as pool:
        results = pool.run(Waits(tmp_path), range(9))
        threading.Timer(0.0, lambda: [awaited(tmp_path / f"unit-{unit}") for unit in (0, 1)] and release()).start()

        def release() -> None:
            (tmp_path / "go").touch()

        next(results)
        pids = [slot.worker.pid for slot in pool._slots]
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert all(ended(pid, 0.5) for pid in pids if pid is not None)
    with pytest.raises(RuntimeError, match="the run was ended"):
        next(results)
    assert descriptors() <= before


DRIVER = """
import sys
from pathlib import Path
from tests.audit.executors.tasks import Waits, written
from workbench.audit.executors.front import make_executor
folder = Path(sys.argv[1])
try:
    with make_executor("processes", 2) as executor:
        for result in executor.run(Waits(folder), range(10)):
            pass
except KeyboardInterrupt:
    written(folder / "stopped", "by Ctrl-C")
    raise
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_workers_end_with_the_driver(tmp_path: Path, by: signal.Signals) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    pids = [int(awaited(tmp_path / f"unit-{unit}")) for unit in (0, 1)]
    driver.send_signal(by)
    began = time.monotonic()
    out, err = driver.communicate(timeout=10)
    assert all(ended(pid, 2) for pid in pids)
    assert time.monotonic() - began < 3
    assert out == b""
    if by == signal.SIGINT:
        assert awaited(tmp_path / "stopped", 0) == "by Ctrl-C"
        assert err.endswith(b"KeyboardInterrupt\n")
    assert driver.returncode == -by


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "slurm"}, r"there is no executor 'slurm'; there are serial, processes and ray"),
        ({"name": "processes", "workers": 0}, r"0 workers were asked for; a whole number above 0 is needed"),
        ({"name": "processes", "workers": True}, r"True workers were asked for"),
        ({"name": "processes", "workers": 1.5}, r"1.5 workers were asked for"),
        ({"name": "serial", "workers": 2}, r"serial is one worker, 2 were asked for; use processes"),
        ({"name": "serial", "timeout": 2}, r"serial cannot end a unit"),
        ({"name": "processes", "timeout": 0}, r"the timeout is 0; a positive number of seconds is needed"),
        ({"name": "processes", "timeout": float("nan")}, r"the timeout is nan"),
        ({"name": "processes", "address": "auto"}, r"an address is for the executor ray, not for processes"),
        ({"name": "processes", "gpus": True}, r"torch finds no CUDA device"),
    ],
)
def test_what_cannot_be_made_is_told(settings: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(UsageError, match=words):
        make_executor(**settings)


def test_a_worker_a_gpu_sees_the_ones_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for named, expected in (("", "010"), ("GPU-x, GPU-y", ["GPU-x", "GPU-y", "GPU-x"]), ("5,6,99", "565")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
        executor = make_executor("processes", 3, gpus=True)
        assert make_executor("processes", gpus=True).workers == 2
        assert [slot.worker._opening["settings"]["environment"] for slot in executor._slots] == [
            {"CUDA_VISIBLE_DEVICES": device} for device in expected
        ]


def test_usable_cores_are_within_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(front, "QUOTA", quota)
    for text, expected in ((None, 16), ("max 100000\n", 16), ("250000 100000\n", 2), ("50000 100000\n", 1)):
        if text is not None:
            quota.write_text(text)
        assert usable_cores() == expected
    with make_executor("processes") as executor:
        assert executor.workers == 1


def test_a_unit_in_words() -> None:
    assert str(Unit("a/b.safetensors", 4, 3, 12)) == "a/b.safetensors, rows 4 to 6"
    assert str(Unit("b.safetensors", 0, 1, 4)) == "b.safetensors, row 0"


def test_no_more_workers_than_memory_has_room_for() -> None:
    """However many are asked for, or a cluster has; and nobody asks the cluster before it is joined."""
    assert [make_executor("processes", asked, most=2).workers for asked in (1, 2, 5)] == [1, 2, 2]
    assert make_executor("processes", most=1).workers == 1
    assert make_executor("ray", 5, most=2).workers == 2
    assert make_executor("ray", 5, "auto", most=2).workers == 2
    joined = make_executor("ray", None, "auto", most=3)
    assert isinstance(joined, OnRay)
    joined._joined = SimpleNamespace(ray=SimpleNamespace(cluster_resources=lambda: {"CPU": 64.0}))
    assert joined.workers == 3
