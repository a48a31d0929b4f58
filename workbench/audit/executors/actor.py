"""What runs in an actor's process, and how its end is told."""

from __future__ import annotations

import os
import pickle
import platform
import re
import socket
import sys
from typing import Any

import torch

from workbench.engines.worker.tasks import Opened

LONGEST = 300  # characters of what Ray says in its own words


class Actor:
    """A worker on Ray: what a task opened, and the calls on it."""

    def __init__(self) -> None:
        self._opened = Opened()

    def open(self, task: bytes, worker: int) -> dict[str, Any]:
        """Open a pickled task; ``versions``, ``where``, and ``raised``, the pickle of ``Raised`` or ``None``."""
        where = f"process {os.getpid()} on {socket.gethostname()}"
        return {"versions": versions(), "where": where, "raised": pickle.dumps(self._opened.open(task, worker))}

    def run(self, unit: bytes) -> bytes:
        """Work off a pickled unit."""
        return self._opened.run(unit)


def versions() -> dict[str, str]:
    """Of what results may depend on."""
    return {
        "workbench": str(sys.modules["workbench"].__version__),
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
    }


def differences(here: dict[str, str], there: dict[str, str]) -> str:
    """What differs, in words; empty where nothing does."""
    return "; ".join(
        f"{name} {there.get(name, 'unknown')}, here {here[name]}" for name in here if here[name] != there.get(name)
    )


def ending(error: Exception) -> str:
    """How an actor ended, as far as Ray knows."""
    text = " ".join(str(error).split())
    if "node has died" in text:
        return "its node is gone"
    if "running low on memory" in text:
        return "Ray ended it, since its node ran low on memory"
    if "Worker unexpectedly exits" in text or "worker process has died" in text:
        return "its process was killed or crashed; Ray does not say by which signal"
    found = re.search(r"The actor is dead because (.*)", text)
    return (found[1] if found else text)[:LONGEST]
