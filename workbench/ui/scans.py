"""Scans of what was given at start: each at work in a thread of its own, for all sessions that look at it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from weakref import WeakSet

import streamlit as st

from workbench.audit.scan import Scan
from workbench.capture.values import shown
from workbench.errors import UsageError
from workbench.resources import samples_dir
from workbench.ui.audits import audits
from workbench.ui.caches import TEXT
from workbench.ui.closing import at_end, stop_all
from workbench.ui.library import SAMPLES, is_matrix, labelled
from workbench.words import listed

EVERYTHING = "everything given"
AT_ONCE = 1 << 30  # bytes of scores that are scanned without being asked for
_KEPT = 8
_NEWS_S = 3.0  # seconds between two looks at whether files changed
_FEW = 4


@dataclass(frozen=True)
class Place:
    """What a scan is of. ``key``: its name; ``paths``: files and folders."""

    key: str
    paths: tuple[str, ...]


def places() -> dict[str, Place]:
    """What can be scanned, by its name: all that was given, where that is several things, and each of them; else the
    samples."""
    given = {label: path for label, path in labelled(sys.argv[1:]) if _is_there(path) and not _is_other(path)}
    found = [Place(label, (str(path),)) for label, path in given.items()]
    if len(found) > 1:
        found.insert(0, Place(EVERYTHING, tuple(map(str, given.values()))))
    if not found:
        try:
            found = [Place(SAMPLES, (str(samples_dir()),))]
        except FileNotFoundError:
            return {}
    return {place.key: place for place in found}


def _is_there(path: Path) -> bool:
    """Whether something is there, also where nobody may look: the scan then says so."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _is_other(path: Path) -> bool:
    """Whether it is a saved matrix or an audit's output."""
    return is_matrix(path) or any(entry.path == path.resolve() for entry in audits().values())


def reach() -> str:
    """What the app reads and whom it answers, in words."""
    given = sys.argv[1:]
    more = [f"{len(given) - _FEW} more"] if len(given) > _FEW else []
    few = listed([*(shown(Path(path).absolute()) for path in given[:_FEW]), *more])
    reads = f"The app reads only what it was given, {few}, and what lies below" if given else "The app reads no folder"
    address = st.get_option("server.address")
    local = address in ("127.0.0.1", "localhost", "::1")
    serves = f"answers this machine alone, on {address}" if local else f"answers on {address or 'every address'}"
    return f"{reads}, the samples and what is uploaded; it {serves}."


@dataclass(eq=False)
class Running:
    """A scan, and the thread that is at it."""

    scan: Scan
    lock: Lock = field(default_factory=Lock)
    thread: Thread | None = None
    looked: float = 0.0
    _news: tuple[float, tuple[int, int, int]] = (0.0, (0, 0, 0))

    @property
    def busy(self) -> bool:
        """Whether it is at work."""
        return self.thread is not None and self.thread.is_alive()

    def start(self, *, allowed: bool = False) -> None:
        """Look at the folders, and go on; nothing where it is at work already."""
        with self.lock:
            if self.busy:
                return
            self.looked = time.time()
            self._news = (0.0, (0, 0, 0))
            self.thread = Thread(target=self.scan.run, kwargs={"allowed": allowed}, name="scan", daemon=True)
            _begun.add(self)
            self.thread.start()

    def news(self) -> tuple[int, int, int]:
        """As ``Scan.news``, looked at now and then."""
        with self.lock:
            if time.monotonic() - self._news[0] > _NEWS_S:
                self._news = time.monotonic(), self.scan.news()
            return self._news[1]


_begun: WeakSet[Running] = WeakSet()


@at_end
def _end() -> None:
    """Stop all scans: see ``closing.stop_all``."""
    stop_all(lambda: [one for one in _begun if one.busy], lambda one: one.scan.stop())


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _running(paths: tuple[str, ...], name: str, asked: tuple[tuple[str, Any], ...]) -> Running:
    return Running(Scan(paths, name, dict(asked), at_once=AT_ONCE))


def running(place: Place, **asked: Any) -> Running:
    """The scan of a place, which is begun if nobody did. ``asked``: fields of an audit's, as op or k.

    Raises:
        UsageError: what is scanned is gone.
    """
    try:
        found = _running(place.paths, place.key, tuple(sorted(asked.items())))
    except UsageError as error:
        raise UsageError(f"{place.key}: {error}") from None
    if found.thread is None:
        found.start()
    return found
