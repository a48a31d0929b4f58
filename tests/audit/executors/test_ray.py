"""The executor on Ray: a real cluster of several nodes on this machine, whose actors and nodes are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.executors.tasks import (
    WAIT_S,
    Deadly,
    Digest,
    Hangs,
    Loud,
    Marks,
    Opens,
    Raises,
    Seen,
    Unborn,
    Waits,
    awaited,
    ended,
)
from tests.audit.making import audited, content, dump
from tests.engines.conftest import ROOT
from workbench.audit.executors import cluster as connecting
from workbench.audit.executors import ray as on_ray
from workbench.audit.executors.actor import differences, ending
from workbench.audit.executors.base import Executor, Lost, TaskError
from workbench.audit.executors.front import make_executor
from workbench.audit.front import Progress
from workbench.errors import CaptureError, UsageError, WorkbenchError

STORE = 80 << 20
# A killed node is noticed within seconds, where Ray's own settings take most of a minute.
HEALTH = {"health_check_period_ms": 1000, "health_check_timeout_ms": 5000, "health_check_failure_threshold": 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head node with room for every executor that the tests hold at a time."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 3,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "_system_config": HEALTH,
        },
    )
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def two(cluster: Any) -> Iterator[Executor]:
    """Two actors, kept warm from test to test."""
    with make_executor("ray", 2, cluster.address) as executor:
        yield executor


def actors(executor: Executor) -> list[int]:
    """The processes of an executor's actors."""
    return [int(held.where.split()[1]) for held in executor._actors.values() if held.opening is None]


def test_results_are_those_of_any_executor(two: Executor) -> None:
    work = Digest().open(0)
    expected = {unit: work(unit) for unit in range(40)}
    assert dict(two.run(Digest(0.01), range(40))) == expected
    assert two.workers == 2
    assert list(two.run(Digest(), [])) == []


@pytest.mark.slow
def test_another_executor_uses_the_connection_that_is_there(two: Executor) -> None:
    expected = dict(make_executor("serial").run(Digest(), range(40)))
    with make_executor("ray", 1, "auto") as one:
        assert dict(one.run(Digest(), range(40))) == expected
    assert dict(two.run(Digest(), range(40))) == expected


def test_a_worker_has_one_thread_and_a_number_and_opens_once(two: Executor, tmp_path: Path) -> None:
    seen = {result for _, result in two.run(Seen(0.05), range(12))}
    assert {(worker, threads) for worker, _, threads, _ in seen} <= {(0, 1), (1, 1)}
    assert os.getpid() not in {pid for _, pid, _, _ in seen}
    assert len(list(two.run(Opens(tmp_path), range(30)))) == 30
    assert len(list(tmp_path.iterdir())) <= 2


def test_units_are_drawn_as_results_are_consumed(two: Executor) -> None:
    drawn = 0

    def units() -> Iterator[int]:
        nonlocal drawn
        for unit in range(10**9):
            drawn += 1
            yield unit

    results = two.run(Seen(), units())
    for consumed in range(1, 20):
        next(results)
        assert drawn <= consumed + 2 * two.workers
    assert dict(two.run(Digest(), range(2))) == dict(make_executor("serial").run(Digest(), range(2)))
    with pytest.raises(RuntimeError, match="the run was ended"):
        list(results)


def test_a_unit_that_kills_its_worker_is_run_again_and_then_lost(
    two: Executor, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    results = list(two.run(Deadly(tmp_path, 9), range(8)))
    (lost,) = [result for result in results if isinstance(result, Lost)]
    assert lost.unit == 3
    assert lost.reason.count("its process was killed or crashed; Ray does not say by which signal (process ") == 2
    assert sorted(result for result in results if result != lost) == [(unit, unit) for unit in range(8) if unit != 3]
    time.sleep(1)  # Ray tells of deaths from a thread, later
    assert capfd.readouterr().out == ""


def test_an_actor_killed_from_outside_is_replaced(two: Executor, tmp_path: Path) -> None:
    def kill() -> None:
        os.kill(int(awaited(tmp_path / "unit-1")), signal.SIGKILL)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    assert sorted(two.run(Waits(tmp_path), range(6))) == [(unit, unit) for unit in range(6)]
    thread.join()


@pytest.mark.slow
def test_idle_actors_that_were_killed_are_replaced(two: Executor) -> None:
    assert len(list(two.run(Seen(), range(6)))) == 6
    for pid in actors(two):
        os.kill(pid, signal.SIGKILL)
    assert [unit for unit, _ in sorted(two.run(Seen(), range(6)))] == list(range(6))


def test_an_exception_of_a_task_ends_the_run_and_names_the_unit(two: Executor) -> None:
    with pytest.raises(TaskError, match=r"^2: ZeroDivisionError: no such thing") as caught:
        list(two.run(Raises("defect"), range(5)))
    assert caught.value.unit == 2
    assert "in work" in caught.value.__notes__[0]


@pytest.mark.slow
def test_an_error_for_people_stays_one(two: Executor) -> None:
    with pytest.raises(UsageError, match=r"^2: a.safetensors, row 4: cut short"):
        list(two.run(Raises("place"), range(5)))
    with pytest.raises(CaptureError, match=r"^a.safetensors, row 4: cut short$"):
        list(two.run(Raises("place", opening=True), range(5)))
    assert len(list(two.run(Seen(), range(4)))) == 4


def test_large_results_come_whole_and_nothing_is_printed(two: Executor, capfd: pytest.CaptureFixture[str]) -> None:
    for unit, result in two.run(Loud(5 << 20), range(1, 6)):
        assert result == bytes([unit]) * (5 << 20)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_unit_that_takes_too_long_is_lost(cluster: Any, two: Executor) -> None:
    with make_executor("ray", 1, cluster.address, timeout=0.6) as executor:
        results = list(executor.run(Hangs(), range(4)))
        pids = actors(executor)
    (lost,) = [result for result in results if isinstance(result, Lost)]
    assert lost.unit == 1
    assert lost.reason.count("the unit did not return within 0.6 s: it hangs, or takes longer than that") == 2
    assert len(results) == 4
    assert all(ended(pid) for pid in pids)


@pytest.mark.slow
def test_a_task_that_no_worker_lives_to_open_ends_the_run(two: Executor) -> None:
    with pytest.raises(WorkbenchError, match=r"worker \d did not live to open its task: 3 times: .*killed or crashed"):
        list(two.run(Unborn(), range(5)))


def of_node(node: Any) -> set[int]:
    """The processes that a node's raylet has started."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == raylet:
                found.add(int(stat.parent.name))
        except OSError:
            continue
    return found


def test_nodes_come_and_go(cluster: Any, two: Executor, tmp_path: Path) -> None:
    """A node joins in mid-run and is given units; it is killed while it is at them, and all are done in the end."""
    node: list[Any] = []
    there: set[int] = set()
    drawn: list[int] = []

    def units() -> Iterator[int]:
        until = time.monotonic() + WAIT_S
        after = 12
        while after and time.monotonic() < until:
            if len(drawn) == 5:
                node.append(cluster.add_node(num_cpus=1, object_store_memory=STORE))
            if node and not there:
                there.update(of_node(node[0]) & {int(awaited(path)) for path in tmp_path.glob("unit-???")})
                if there:
                    cluster.remove_node(node[0], allow_graceful=False)
            after -= bool(there)
            drawn.append(len(drawn) + 100)
            yield drawn[-1]

    with make_executor("ray", None, cluster.address) as executor:
        results = list(executor.run(Marks(tmp_path, 0.3), units()))
    assert there, "the node that joined was given no unit"
    assert all(ended(pid) for pid in there)
    assert sorted(results) == [(unit, unit) for unit in drawn]


def test_an_audit_is_that_of_one_process(two: Executor, tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump")
    (folder / "broken.safetensors").write_text("no capture at all")
    for name, executor in (("serial", "serial"), ("ray", two)):
        audited(folder, tmp_path / name, unit_bytes=6000, executor=executor)
    assert content(tmp_path / "ray") == content(tmp_path / "serial")


@pytest.mark.slow
def test_an_audit_whose_node_is_killed_is_that_of_one_process(cluster: Any, two: Executor, tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", files=60)
    node = cluster.add_node(num_cpus=2, object_store_memory=STORE)
    there: set[int] = set()

    def kill(at: Progress) -> None:
        if not there and at.units[0] >= 3:
            there.update(of_node(node) & set(actors(executor)))
            if there:
                cluster.remove_node(node, allow_graceful=False)

    with make_executor("ray", None, cluster.address) as executor:
        audited(folder, tmp_path / "ray", unit_bytes=6000, executor=executor, progress=kill)
    assert there, "the audit was over before the node had a worker"
    audited(folder, tmp_path / "serial", unit_bytes=6000, executor="serial")
    assert content(tmp_path / "ray") == content(tmp_path / "serial")


DRIVER = """
import sys
from pathlib import Path
from tests.audit.executors.tasks import Deadly, Loud, Waits, written
from workbench.audit.executors.front import make_executor
folder, deaths = Path(sys.argv[1]), Path(sys.argv[2])
try:
    with make_executor("ray", 2) as executor:
        list(executor.run(Loud(3), range(5)))
        list(executor.run(Deadly(deaths, 1), range(5)))
        for result in executor.run(Waits(folder), range(10)):
            pass
except KeyboardInterrupt:
    written(folder / "stopped", "by Ctrl-C")
    raise
"""


def descendants(pid: int) -> set[int]:
    """A process's children, theirs, and so on."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - found
        found |= new
    return found


@pytest.mark.parametrize("by", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_local_ray_ends_with_the_driver_and_its_stdout_stays_clean(tmp_path: Path, by: signal.Signals) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    folder, deaths = tmp_path / "units", tmp_path / "deaths"
    folder.mkdir()
    deaths.mkdir()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), str(deaths)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    pids = {int(awaited(folder / f"unit-{unit}", 2 * WAIT_S)) for unit in (0, 1)}
    left = descendants(driver.pid)
    assert pids <= left
    driver.send_signal(by)
    out, err = driver.communicate(timeout=30)
    assert out == b""
    assert all(ended(pid, 10) for pid in left)
    if by == signal.SIGINT:
        assert awaited(folder / "stopped", 0) == "by Ctrl-C"
        assert err.endswith(b"KeyboardInterrupt\n")


def test_what_cannot_be_joined_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.raises(UsageError, match=r"no Ray cluster can be reached at 127.0.0.1:1: Connection refused"):
        connecting._reach("127.0.0.1:1")
    with pytest.raises(UsageError, match=r"no Ray cluster can be reached at ray://127.0.0.1:1: Connection refused"):
        connecting._reach("ray://127.0.0.1:1")
    for bad in ("bogus", "host:", ":6379", "http://a"):
        with pytest.raises(UsageError, match="is none of Ray's: auto, host:port or ray://host:port"):
            connecting._reach(bad)
    connecting._reach("auto")
    services = "ray._private.services"
    monkeypatch.setenv("RAY_ADDRESS", "")
    monkeypatch.setattr(f"{services}.find_gcs_addresses", set)
    monkeypatch.setattr(f"{services}.find_bootstrap_address", lambda _: None)
    with pytest.raises(UsageError, match="no Ray cluster runs on this machine, and RAY_ADDRESS names none:"):
        connecting._found()
    monkeypatch.setattr(f"{services}.find_bootstrap_address", lambda _: "10.0.0.1:6379")
    assert connecting._found() == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    assert connecting._found() == "ray://head:10001"
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(UsageError, match=r"^the executor ray needs Ray: pip install 'topk-workbench\[ray\]'$"),
        make_executor("ray"),
    ):
        pass


def test_a_cluster_that_does_not_let_in_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def refuse(**_: object) -> None:
        raise ConnectionError("Failed to connect\nto Ray cluster")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        words = rf"^no Ray cluster can be joined at {address}: Failed to connect to Ray cluster; .*RAY_AUTH_MODE=token$"
        with pytest.raises(UsageError, match=words):
            connecting.Connection(address, 1, False)
    with pytest.raises(UsageError, match=r"^a local Ray cannot be started: Failed to connect to Ray cluster$"):
        connecting.Connection(None, 1, False)


def test_other_versions_on_a_worker_are_told(two: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"workbench": "0.2.0", "Python": "3.11.7", "torch": "2.13.0"}
    assert differences(here, here) == ""
    there = {"workbench": "0.1.0", "Python": "3.11.7"}
    assert differences(here, there) == "workbench 0.1.0, here 0.2.0; torch unknown, here 2.13.0"
    monkeypatch.setattr(on_ray, "versions", lambda: here)
    with pytest.raises(UsageError, match=r"a Ray worker \(process \d+ on .*\) has other versions than this process: w"):
        list(two.run(Seen(), range(4)))


def test_a_cluster_that_gives_no_worker_is_told(two: Executor, monkeypatch: pytest.MonkeyPatch, cluster: Any) -> None:
    monkeypatch.setattr(on_ray, "START_S", 0.5)
    with (
        make_executor("ray", 1, cluster.address, gpus=True) as executor,
        pytest.raises(UsageError, match=r"no Ray worker started within 0.5 s; each needs a GPU: the cluster has 0, 0"),
    ):
        list(executor.run(Seen(), range(4)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The actor died.\n\tpid: 3\nThe actor is dead because its node has died. Node Id: 1", "its node is gone"),
        ("Task was killed due to the node running low on memory.", "Ray ended it, since its node ran low on memory"),
        ("The actor is dead because it was killed by `ray.kill`.", "it was killed by `ray.kill`."),
        ("Something\nelse", "Something else"),
    ],
)
def test_the_end_of_an_actor_in_words(text: str, words: str) -> None:
    assert ending(RuntimeError(text)) == words
