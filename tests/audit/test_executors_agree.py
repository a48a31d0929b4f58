"""The dataset is the same, byte for byte, whoever works."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.audit.making import audited, content, dump
from workbench.audit.front import Progress, audit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump, a broken file and a file without k in it."""
    folder = dump(tmp_path_factory.mktemp("dump") / "dump", 8, count=5)
    (folder / "broken.safetensors").write_text("no capture")
    return folder


@pytest.fixture(scope="module")
def alone(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process gives."""
    out = tmp_path_factory.mktemp("alone") / "out"
    audited(folder, out, unit_bytes=9000)
    return content(out)


@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]
)
def test_worker_processes(folder: Path, alone: dict[str, bytes], tmp_path: Path, workers: int) -> None:
    found = audit(folder, tmp_path / "out", executor="processes", workers=workers, unit_bytes=9000)
    assert content(tmp_path / "out") == alone
    assert found.failed_files == 1


def test_a_worker_that_is_killed_does_not_show(folder: Path, alone: dict[str, bytes], tmp_path: Path) -> None:
    killed: list[int] = []
    others = _children()  # of tests before this one: browsers, servers, Ray

    def kill(at: Progress) -> None:
        workers = sorted(_children() - others - set(killed))
        if at.planned and at.units[0] in (1, 4) and workers:
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    audit(folder, tmp_path / "out", executor="processes", workers=2, unit_bytes=9000, progress=kill)
    assert killed
    assert content(tmp_path / "out") == alone


def _children() -> set[int]:
    """Processes that this one started and that still run."""
    found = set()
    for children in Path("/proc/self/task").glob("*/children"):
        for number in children.read_text().split():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.add(int(number))
    return found


@pytest.mark.slow
def test_ray(folder: Path, alone: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    audit(folder, tmp_path / "out", executor="ray", workers=2, unit_bytes=9000)
    assert content(tmp_path / "out") == alone


def test_the_executor_is_not_in_the_dataset(alone: dict[str, bytes]) -> None:
    assert set(json.loads(alone["audit.json"])) == {"format", "finished", "asked", "versions", "found"}
    assert not {"executor", "workers", "address", "gpus"} & set(json.loads(alone["audit.json"])["asked"])
