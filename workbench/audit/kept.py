"""Lines of units that scans worked out, kept in a user's cache by what they are of, so that none is worked out twice.

A folder of captures has one journal there. A frame holds a unit's key and its lines; what is damaged or of other bytes
is not found, and worked out anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import filelock
import platformdirs

from workbench.audit.asked import Asked
from workbench.audit.journal import Journal
from workbench.audit.plan import Job
from workbench.audit.versions import versions

ENVIRONMENT = "TOPK_WORKBENCH_SCANS"
MOST = 32  # journals that are kept; those unused for longest go
_SUFFIX, _LOCK = ".frames", ".lock"
_KEY = 32  # bytes before the lines of a unit that name it


def scans_folder() -> Path:
    """Where scans keep what they worked out: ``TOPK_WORKBENCH_SCANS``, else in the user's cache."""
    chosen = os.environ.get(ENVIRONMENT)
    return Path(chosen) if chosen else platformdirs.user_cache_path("topk-workbench") / "scans"


class Kept:
    """The units of one folder and what was asked; a context manager, which no other process has open meanwhile.

    Where the cache cannot be written, or another process has it open, a temporary folder takes its place, whose
    content goes with this object; ``why`` then says so.

    Attributes:
        why: why nothing is kept for later; empty if it is.
    """

    def __init__(self, asked: Asked) -> None:
        document = {**asked.document(), "versions": versions(), "sources": _sources()}
        self._name = hashlib.sha256(json.dumps(document, sort_keys=True).encode("ascii")).hexdigest()[:32]
        self.why = ""
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock: filelock.FileLock | None = None

    def __enter__(self) -> Kept:
        folder = scans_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = filelock.FileLock(folder / f"{self._name}{_LOCK}", blocking=False)
            self._lock.acquire()
            self._open(folder)
            self.why = ""
        except filelock.Timeout:
            self._instead("another process scans the same")
        except OSError as error:
            self._instead(f"{folder} cannot be written: {error.strerror or error}")
        return self

    def _instead(self, why: str) -> None:
        self._release()
        self.why = why
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="topk-workbench-scan-")
        self._open(Path(self._temporary.name))

    def _open(self, folder: Path) -> None:
        self._path = folder / f"{self._name}{_SUFFIX}"
        self._journal = Journal(self._path)
        self._numbers: dict[bytes, int] = {}
        for number in sorted(self._journal.numbers):
            self._numbers[self._journal.payload(number, _KEY)] = number
        self._next = max(self._journal.numbers, default=-1) + 1

    def __exit__(self, *_: object) -> None:
        if self._temporary is None:
            with suppress(OSError):
                self._path.touch()
                self._forget_old()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _forget_old(self) -> None:
        others = sorted(self._path.parent.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in others[MOST:]:
            path.unlink(missing_ok=True)
            path.with_suffix(_LOCK).unlink(missing_ok=True)

    def get(self, job: Job) -> bytes | None:
        """The lines of a unit, as ``Lines.dumped`` made them; ``None`` where they are not known."""
        number = self._numbers.get(_key(job))
        if number is None:
            return None
        try:
            found = self._journal.payload(number)
        except OSError:
            return None
        return found[_KEY:]

    def put(self, job: Job, payload: bytes) -> None:
        """Keep the lines of a unit; where there is no room for them they are not kept."""
        key = _key(job)
        try:
            self._journal.add(self._next, key + payload)
        except OSError as error:
            self.why = f"the disk holds no more: {error.strerror or error}"
            return
        self._numbers[key] = self._next
        self._next += 1

    def keep_only(self, jobs: Iterable[Job]) -> None:
        """Let go of units that none of these is, once they are most of what is kept."""
        live = {number for job in jobs if (number := self._numbers.get(_key(job))) is not None}
        if len(live) * 2 >= len(self._journal.numbers):
            return
        fresh = self._path.with_name(f".workbench-{self._name}.tmp")
        try:
            fresh.unlink(missing_ok=True)
            journal = Journal(fresh)
            for number in sorted(live):
                journal.add(number, self._journal.payload(number))
            if live:
                fresh.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError:
            return
        finally:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
        self._open(self._path.parent)


@cache
def _sources() -> str:
    """What changes with the workbench's own code, whose version stays while it is worked on."""
    told = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        status = path.stat()
        told.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return told.hexdigest()


def _key(job: Job) -> bytes:
    unit = job.unit
    text = json.dumps([unit.file, job.stamp, unit.first, unit.count], ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).digest()
