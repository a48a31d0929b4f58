"""The dataset is the same, byte for byte, whoever works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.audit.making import audited, content, dump
from workbench.audit.front import audit


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


@pytest.mark.slow
def test_ray(folder: Path, alone: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    audit(folder, tmp_path / "out", executor="ray", workers=2, unit_bytes=9000)
    assert content(tmp_path / "out") == alone


def test_the_executor_is_not_in_the_dataset(alone: dict[str, bytes]) -> None:
    assert set(json.loads(alone["audit.json"])) == {"format", "finished", "asked", "versions", "found"}
    assert not {"executor", "workers", "address", "gpus"} & set(json.loads(alone["audit.json"])["asked"])
