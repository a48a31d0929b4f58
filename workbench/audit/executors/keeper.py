"""Run by its path, with nothing but the standard library: ends a local Ray with the process that started it.

Ray's own helpers outlive a driver that was killed by a minute, and its folder for ever.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 10.0
POLL_S = 0.1


def main(folder: str) -> None:
    """Wait until whoever holds the other end of stdin is gone; then end what has files open in a folder, and it."""
    driver = os.getppid()  # which goes on where it closed its end; it may still have Ray's log open
    sys.stdin.read()
    until = time.monotonic() + PATIENCE_S
    while (found := at_work_in(folder) - {driver}) and time.monotonic() < until:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
    shutil.rmtree(folder, ignore_errors=True)


def at_work_in(folder: str) -> set[int]:
    """The processes that have a file open below a folder: all of Ray's keep their logs there."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if str(link.readlink()).startswith(f"{folder}/"):
                found.add(int(link.parts[2]))
    return found - {os.getpid()}


if __name__ == "__main__":
    main(sys.argv[1])
