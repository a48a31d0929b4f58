"""Rows on their way to disk: held in memory for a while, then written as capture files that no other process names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.capture.format import STRINGS
from workbench.capture.mappings import mapping_kind
from workbench.capture.row import Row
from workbench.capture.write import write_capture
from workbench.errors import UsageError

LOG = ".recording.json"
FIELDS = ("seen", "calls", "rows", "bytes", "files", "skipped", "stopped", "finished")  # of a log
_TRIES = 1000
_GONE = 0.1  # seconds for a thread to be gone that was joined


@dataclass(frozen=True, eq=False)
class Kept:
    """One row that is kept. ``note`` says what a reader of its file must know; rows with another note go elsewhere."""

    row: Row
    note: str = ""

    @property
    def size(self) -> int:
        """Bytes of its scores, its indices and their page table."""
        row = self.row
        indices = 0 if row.indices is None else 4 * row.indices.numel()
        table = 0 if row.mapped is None or row.mapped.table is None else 4 * row.mapped.table.numel()
        return row.scores.numel() * row.scores.element_size() + indices + table

    @property
    def group(self) -> tuple[object, ...]:
        """What all rows of a file share: strings of their calls, dtype, whether and how indices are there, the note."""
        row = self.row
        strings = (getattr(row.call, name) for name in STRINGS)
        return (*strings, row.dtype, row.indices is None, mapping_kind(row.mapped), self.note)


@dataclass(eq=False)
class Files:
    """Held rows, and the files that they go into.

    Attributes:
        folder: where. size, wait: a file is written once so many bytes are held, or the oldest row is so many seconds
            old. late: called by a thread of its own when that is so and no call comes. rank: for the names.
        written: the files so far, in the order in which they were finished.
        lost: rows and calls that were held when writing failed.
    """

    folder: Path
    size: int
    wait: float
    late: Callable[[], None]
    rank: int | None = None
    written: list[Path] = field(default_factory=list)
    lost: tuple[list[Kept], int] = field(default_factory=lambda: ([], 0))
    _held: list[Kept] = field(default_factory=list)
    _bytes: int = 0
    _since: float = 0.0
    _number: int = 0
    _stem: str = ""
    _timer: threading.Timer | None = None
    _calm: bool = True
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _writing: threading.RLock = field(default_factory=threading.RLock)

    def add(self, rows: list[Kept]) -> None:
        """Hold rows."""
        with self._lock:
            if not self._held:
                self._since = time.monotonic()
                self._arm()
            self._held += rows
            self._bytes += sum(row.size for row in rows)

    def _arm(self) -> None:
        """Have ``late`` called in time, also if no call comes: a server that idles is often killed."""
        if self._calm or not 0 < self.wait <= threading.TIMEOUT_MAX:
            return
        timer = threading.Timer(self.wait, self.late)
        timer.daemon, timer.name = True, "workbench-recorder"
        with contextlib.suppress(RuntimeError):  # no thread can be had: then the next call writes
            timer.start()
            self._timer = timer

    def wake(self) -> None:
        """From now on rows are written in time."""
        self._calm = False

    def calm(self) -> None:
        """No thread of this is left, nor made from now on."""
        with self._lock:
            self._calm, timer, self._timer = True, self._timer, None
        if timer is None or timer is threading.current_thread():
            return
        timer.cancel()
        timer.join()
        until = time.monotonic() + _GONE
        while timer.ident in sys._current_frames() and time.monotonic() < until:  # joined a moment before it is gone
            time.sleep(0)

    @property
    def due(self) -> bool:
        """Whether held rows should be written now."""
        return bool(self._held) and (self._bytes >= self.size or time.monotonic() - self._since >= self.wait)

    def write(self) -> None:
        """Write everything held, one file for each group of rows that can share one.

        Raises:
            CaptureError, OSError: of the disk; what was held is given up.
        """
        with self._writing:  # one at a time, so that the files of a process are in the order of its calls
            with self._lock:
                held, self._held, self._bytes = self._held, [], 0
                timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            groups: dict[tuple[object, ...], list[Kept]] = {}
            for one in held:
                groups.setdefault(one.group, []).append(one)
            done: set[int | None] = set()
            left = list(groups.values())
            try:
                while left:
                    self._write([one.row for one in left[0]], left[0][0].note)
                    done |= {one.row.call.index for one in left.pop(0)}
            except BaseException:
                lost = [one for rows in left for one in rows]
                self.lost = lost, len({one.row.call.index for one in lost} - done)
                raise

    def _write(self, rows: list[Row], note: str) -> None:
        source = f"recorded from calls of {rows[0].call.op}"
        for _ in range(_TRIES):
            target = self.folder / f"{self.stem}-{self._number:06}.safetensors"
            self._number += 1
            if os.path.lexists(target):
                continue
            try:
                write_capture(target, rows, source=f"{source}; {note}" if note else source)
            except UsageError:
                if os.path.lexists(target):  # another process took the name meanwhile
                    continue
                raise
            self.written.append(target)
            return
        raise UsageError(f"{self.folder}: no name is left for another file")

    @property
    def stem(self) -> str:
        """What the names of this process's files begin with: rank, host and process, and a few letters of its own."""
        if not self._stem:
            host = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname())[:32] or "host"
            rank = "" if self.rank is None else f"rank{self.rank}-"
            self._stem = f"{rank}{host}-{os.getpid()}-{secrets.token_hex(3)}"
        return self._stem

    def log(self, content: dict[str, object]) -> None:
        """Write beside the files what this process saw and kept, in place of what it wrote before."""
        target = self.folder / f"{self.stem}{LOG}"
        temporary = target.with_name(f".workbench-{secrets.token_hex(6)}.tmp")
        try:
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def forget(self) -> None:
        """This is a new process: what is held, and the names, are the old one's."""
        self._held, self._bytes, self._stem, self._number, self.written = [], 0, "", 0, []
        self._timer = None
        self._lock, self._writing = threading.RLock(), threading.RLock()


def read_log(path: Path) -> dict[str, Any] | None:
    """What a process that recorded says of itself; ``None`` if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.keys() >= set(FIELDS) else None
