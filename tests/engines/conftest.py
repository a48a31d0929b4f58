"""Packages that stand in for the released ones, installed for this process and for the workers that it starts."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

FAKES = Path(__file__).parent / "fakes"
ROOT = Path(__file__).parents[2]
VERSIONS = {
    "vllm": "0.26.0+cu129",
    "sglang-kernel": "0.4.6",
    "sglang": "0.5.23",
    "flashinfer-python": "0.7.4",
}

Behave = Callable[[str], None]


def distributions(folder: Path) -> Path:
    """A folder in which the packages are installed, as far as their versions are asked for."""
    for name, version in VERSIONS.items():
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What PYTHONPATH holds where the packages are installed."""
    return [str(distributions(tmp_path_factory.mktemp("installed"))), str(FAKES), str(ROOT)]


@pytest.fixture
def behave(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> Behave:
    """Installs the packages and says how their selectors behave from now on, in workers that start later."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(installed))
    for path in reversed(installed[:2]):
        monkeypatch.syspath_prepend(path)
    return lambda how: monkeypatch.setenv("FAKE_SELECTOR", how)


def session(leader: int) -> list[int]:
    """The processes of a session, zombies included."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(stat.parent.name))
    return found


def gone(leader: int, seconds: float = 5) -> bool:
    """Whether a session has no process left, or loses its last one within some seconds."""
    until = time.monotonic() + seconds
    while session(leader):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def descriptors() -> set[str]:
    """What this process has open, each with its inode, so that a number which is given again shows.

    Hold a later look to ``<=`` an earlier one: what tests before left to a thread or the collector may close meanwhile.
    """
    gc.collect()
    found = set()
    for one in Path(f"/proc/{os.getpid()}/fd").iterdir():
        try:
            found.add(f"{one.name} {one.readlink()}")
        except OSError:
            continue
    return found
