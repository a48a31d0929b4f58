"""Tasks for the executors' tests, in a module that workers can import, and what tests ask of processes."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workbench.errors import CaptureError, UsageError

WAIT_S = 60.0


@dataclass(frozen=True)
class Digest:
    """What an audit's task is like: some torch, then a digest; ``spread`` seconds of other units' lateness."""

    spread: float = 0.0

    def open(self, worker: int) -> Callable[[int], str]:
        def work(unit: int) -> str:
            time.sleep(self.spread * (unit % 3))
            scores = torch.randn(4096, generator=torch.Generator().manual_seed(unit))
            return hashlib.sha256(scores.topk(64).indices.numpy().tobytes()).hexdigest()

        return work


@dataclass(frozen=True)
class Seen:
    """What a worker finds: its number, its process, torch's threads and the device that it may see."""

    seconds: float = 0.0

    def open(self, worker: int) -> Callable[[int], tuple[int, int, int, str | None]]:
        def work(unit: int) -> tuple[int, int, int, str | None]:
            time.sleep(self.seconds)
            return worker, os.getpid(), torch.get_num_threads(), os.environ.get("CUDA_VISIBLE_DEVICES")

        return work


@dataclass(frozen=True)
class Devices:
    """The CUDA devices that a worker finds: their identifiers, and the sum of a tensor on the first."""

    def open(self, worker: int) -> Callable[[int], tuple[list[str], float]]:
        def work(unit: int) -> tuple[list[str], float]:
            time.sleep(0.2)
            found = [str(torch.cuda.get_device_properties(at).uuid) for at in range(torch.cuda.device_count())]
            return found, float(torch.full((1000,), float(unit), device="cuda").sum())

        return work


@dataclass(frozen=True)
class Opens:
    """Counts in a folder how often it is opened."""

    folder: Path

    def open(self, worker: int) -> Callable[[int], int]:
        (self.folder / f"{worker}-{os.getpid()}-{time.monotonic_ns()}").touch()
        return lambda unit: unit


@dataclass(frozen=True)
class Deadly:
    """Unit 3 takes its process down the first ``times`` times, by a signal or an exit code."""

    folder: Path
    times: int
    by: int = signal.SIGKILL

    def open(self, worker: int) -> Callable[[int], int]:
        def work(unit: int) -> int:
            if unit == 3:
                deaths = len(list(self.folder.iterdir()))
                if deaths < self.times:
                    (self.folder / str(deaths)).touch()
                    if self.by < 0:
                        os._exit(-self.by)
                    os.kill(os.getpid(), self.by)
            return unit

        return work


@dataclass(frozen=True)
class Waits:
    """Each unit leaves its process's number in a folder and waits for a file ``go`` there, the first time it is run."""

    folder: Path

    def open(self, worker: int) -> Callable[[int], int]:
        def work(unit: int) -> int:
            mark = self.folder / f"unit-{unit}"
            if not mark.exists():
                written(mark, str(os.getpid()))
                until = time.monotonic() + WAIT_S
                while not (self.folder / "go").exists() and time.monotonic() < until:
                    time.sleep(0.02)
            return unit

        return work


@dataclass(frozen=True)
class Marks:
    """Each unit leaves its process's number in a folder, then takes some seconds."""

    folder: Path
    seconds: float

    def open(self, worker: int) -> Callable[[int], int]:
        def work(unit: int) -> int:
            written(self.folder / f"unit-{unit}", str(os.getpid()))
            time.sleep(self.seconds)
            return unit

        return work


@dataclass(frozen=True)
class Raises:
    """Unit 2 raises; ``opening`` does so before."""

    kind: str
    opening: bool = False

    def error(self) -> Exception:
        made: dict[str, Exception] = {
            "defect": ZeroDivisionError("no such thing"),
            "people": UsageError("a cure"),
            "place": CaptureError("cut short", file="a.safetensors", row=4),
            "unpicklable": UnpicklableError(),
        }
        return made[self.kind]

    def open(self, worker: int) -> Callable[[int], int]:
        if self.opening:
            raise self.error()

        def work(unit: int) -> int:
            if unit == 2:
                raise self.error()
            return unit

        return work


class UnpicklableError(UsageError):
    def __init__(self) -> None:
        super().__init__("a cure")
        self.held: Any = lambda: None


@dataclass(frozen=True)
class Unborn:
    """No worker lives to open it."""

    def open(self, worker: int) -> Callable[[int], int]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return lambda unit: unit


@dataclass(frozen=True)
class Hangs:
    """Unit 1 never ends."""

    def open(self, worker: int) -> Callable[[int], int]:
        def work(unit: int) -> int:
            while unit == 1:
                time.sleep(0.1)
            return unit

        return work


@dataclass(frozen=True)
class Loud:
    """Prints where nobody should see it, and returns what is large."""

    size: int = 0

    def open(self, worker: int) -> Callable[[int], bytes]:
        def work(unit: int) -> bytes:
            print("printed by a task")
            os.write(1, b"written by a task\n")
            print("told by a task", file=sys.stderr)
            return bytes([unit]) * self.size

        return work


def written(path: Path, text: str) -> None:
    """Write a file that is never seen in part."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.rename(path)


def awaited(path: Path, seconds: float = WAIT_S) -> str:
    """What a file holds, once it is there."""
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not come"
        time.sleep(0.02)
    return path.read_text()


def ended(pid: int, seconds: float = 5) -> bool:
    """Whether a process ends within some seconds; a zombie has."""
    until = time.monotonic() + seconds
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
