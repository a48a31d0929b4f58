"""A question about this environment, asked in a process of its own: an import that aborts or hangs is an answer too."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from workbench.engines.worker.ending import LAST_CHARACTERS, ending

PROBE = Path(__file__).with_name("probe.py")
LAST_LINES = 20
MOST_BYTES = 1 << 20  # of an answer
READ_BYTES = 1 << 16
POLL_S = 0.2


@dataclass(frozen=True)
class Answer:
    """What a probe found, or why it found nothing, in one line."""

    found: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


def ask(probe: str, *arguments: str, timeout: float = 60.0, stop: threading.Event | None = None) -> Answer:
    """Ask one of ``probe.PROBES``, with this process's import path and environment.

    Args:
        timeout: seconds until the process is ended. stop: ends it as well, once another thread sets it.
    """
    reads, writes = os.pipe()
    with _nameless() as printed:
        command = [sys.executable, "-P", str(PROBE), probe, str(writes), json.dumps(sys.path), *arguments]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=(writes,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(reads)
            return Answer(failed=f"no process can be started: {error.strerror or error}")
        finally:
            os.close(writes)
        try:
            content = _read(reads, timeout, stop)
            code = None if content is None else _wait(process)
        finally:
            os.close(reads)
            _end(process)
        if content is None:
            if stop is not None and stop.is_set():
                return Answer(failed="it was stopped")
            return Answer(failed=f"it did not return within {timeout:g} s: it hangs, or takes longer than that")
        try:
            told = json.loads(content)
            if "raised" in told:
                return Answer(failed=str(told["raised"])[:LAST_CHARACTERS])
            return Answer(dict(told["found"]))
        except (ValueError, TypeError, KeyError):
            printed.seek(0)
            return Answer(failed=ending(code, deque(printed, maxlen=LAST_LINES)))


def _nameless() -> IO[bytes]:
    """A file that lies in no folder, where that can be: no folder for such files is nothing that a probe is asked."""
    return os.fdopen(os.memfd_create("printed"), "w+b") if sys.platform == "linux" else tempfile.TemporaryFile()


def _read(pipe: int, timeout: float, stop: threading.Event | None) -> bytes | None:
    """Everything up to the end of the pipe; ``None`` where time is up, too much comes, or it is to stop."""
    until, parts, size = time.monotonic() + timeout, list[bytes](), 0
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while (left := until - time.monotonic()) > 0 and size <= MOST_BYTES:
        if stop is not None and stop.is_set():
            break
        if not poll.poll(min(left, POLL_S) * 1000):
            continue
        part = os.read(pipe, READ_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    return None


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(5)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, unless it was reaped: its number may then be another's."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
