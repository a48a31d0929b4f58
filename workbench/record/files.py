"""Rows on their way to disk: held in memory for a while, then written as capture files that no other process names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import threading
import time
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
            old. source: how the captures were made, for their readers. rank: for the names.
        written: the files so far, in the order in which they were finished.
    """

    folder: Path
    size: int
    wait: float
    rank: int | None = None
    written: list[Path] = field(default_factory=list)
    _held: list[Kept] = field(default_factory=list)
    _bytes: int = 0
    _since: float = 0.0
    _number: int = 0
    _stem: str = ""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _writing: threading.RLock = field(default_factory=threading.RLock)

    def add(self, rows: list[Kept]) -> None:
        """Hold rows."""
        with self._lock:
            if not self._held:
                self._since = time.monotonic()
            self._held += rows
            self._bytes += sum(row.size for row in rows)

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
            groups: dict[tuple[object, ...], list[Kept]] = {}
            for one in held:
                groups.setdefault(one.group, []).append(one)
            for rows in groups.values():
                self._write([one.row for one in rows], rows[0].note)

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
        self._lock, self._writing = threading.RLock(), threading.RLock()


def read_log(path: Path) -> dict[str, Any] | None:
    """What a process that recorded says of itself; ``None`` if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.keys() >= set(FIELDS) else None
