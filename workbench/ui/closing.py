"""What is done when the app ends: at the end of the interpreter, and before it where the server is asked to end.

A server that gets SIGTERM closes its connections and dies of it, so that nothing is called that waits for the
interpreter's end.
"""

from __future__ import annotations

import asyncio
import atexit
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakSet

V = TypeVar("V")

_LAST_S = 20.0  # seconds that the end of the process waits for threads to stop
_last: list[Callable[[], None]] = []
_folders: WeakSet[tempfile.TemporaryDirectory[str]] = WeakSet()


def at_end(call: Callable[[], None]) -> Callable[[], None]:
    """Have this called at the end, maybe twice."""
    _last.append(call)
    return atexit.register(call)


def stop_all(at_work: Callable[[], Sequence[V]], stop: Callable[[V], None]) -> None:
    """Stop what is at work in threads: one that is within torch when the interpreter goes takes the process down."""
    end = time.monotonic() + _LAST_S
    while (left := at_work()) and time.monotonic() < end:
        for one in left:
            stop(one)
        time.sleep(0.02)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with whoever holds it, at the end of the app at the latest.

    Raises:
        OSError: it cannot be made.
    """
    folder = tempfile.TemporaryDirectory(prefix="topk-workbench-", ignore_cleanup_errors=True)
    _folders.add(folder)
    return folder


@at_end
def _remove() -> None:
    for folder in list(_folders):
        folder.cleanup()


def end() -> None:
    """Do all of it now."""
    for call in _last:
        call()


@asynccontextmanager
async def lifetime(app: object) -> AsyncIterator[None]:
    """That of the server."""
    yield
    await asyncio.to_thread(end)
