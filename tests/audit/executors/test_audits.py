"""A whole audit on a pool of processes: the dataset is that of one process, byte for byte, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit.executors.tasks import ended
from tests.audit.making import audited, content, dump
from tests.engines.conftest import ROOT
from workbench.audit.executors.processes import Processes
from workbench.audit.front import Progress

UNIT = 6000  # bytes: one row and a half of the dump, so that files have several units


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures in two folders and a file that is none."""
    folder = dump(tmp_path_factory.mktemp("dump") / "dump", files=8)
    (folder / "broken.safetensors").write_text("no capture at all")
    return folder


@pytest.fixture(scope="module")
def clean(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run in this process gives."""
    out = tmp_path_factory.mktemp("clean") / "out"
    audited(folder, out, unit_bytes=UNIT, executor="serial")
    return content(out)


def test_the_dataset_does_not_depend_on_a_worker_that_is_killed(
    folder: Path, clean: dict[str, bytes], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(at: Progress) -> None:
        pids = [slot.worker.pid for slot in pool._slots if slot.worker.pid is not None]
        if at.units[0] in (3, 9) and (left := [pid for pid in pids if pid not in killed]):
            os.kill(left[0], signal.SIGKILL)
            killed.append(left[0])

    with Processes(2) as pool:
        audited(folder, tmp_path / "out", unit_bytes=UNIT, executor=pool, progress=kill)
    assert killed
    assert content(tmp_path / "out") == clean


DRIVER = """
import os, sys
from tests.audit.making import audited
from workbench.audit.executors.processes import Processes
pool, last = Processes(2), int(sys.argv[3])
def stop(at):
    if at.units[0] == last:
        print(*(slot.worker.pid for slot in pool._slots if slot.worker.pid), flush=True)
        os.kill(os.getpid(), int(sys.argv[4]))
audited(sys.argv[1], sys.argv[2], unit_bytes=6000, executor=pool, progress=stop)
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_driver_that_was_killed_is_followed_by_one_that_ends(
    folder: Path, clean: dict[str, bytes], tmp_path: Path, by: signal.Signals
) -> None:
    out = tmp_path / "out"
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder), str(out), "5", str(int(by))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert driver.returncode == -by, driver.stderr
    pids = [int(pid) for pid in driver.stdout.split()]
    assert pids
    assert all(ended(pid) for pid in pids)
    seen: list[Progress] = []
    found = audited(folder, out, unit_bytes=UNIT, executor="processes", workers=2, progress=seen.append)
    assert found.resumed
    assert next(at.units[0] for at in seen if at.planned) >= 4
    assert content(out) == clean
