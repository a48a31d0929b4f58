"""Runs on offer, and their comparison: made once for the same bytes, with progress, and stopped at any time."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import streamlit as st

from workbench.capture import open_capture
from workbench.capture.foreign import INDEX_SUFFIX, natural
from workbench.errors import CaptureError
from workbench.figures.timeline import Timeline
from workbench.figures.words import count
from workbench.runs.captured import CapturedRun
from workbench.runs.diverge import diverge
from workbench.runs.divergence import Comparison, Detail, Divergence
from workbench.ui import state
from workbench.ui.caches import TEXT
from workbench.ui.library import Entry, local, renewed
from workbench.ui.loading import CHECKED, content_name, library, look, short_digest
from workbench.ui.view import brief

KEPT, FILES = 6, 8192  # comparisons, and files whose inputs are known by their digests
LOOKED = 64
_LATE, _OFTEN = 0.4, 0.15  # seconds after which progress is shown, and between two looks at it
_SUGGESTED, _SEVERAL = 5, 6


@dataclass(frozen=True)
class Offer:
    """A run on offer: one file, or the files of a folder in natural order. ``key``: a folder's ends in a slash."""

    key: str
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """As findings name it."""
        return self.key.removesuffix("/")


@dataclass(frozen=True)
class Looked:
    """One point in full.

    Attributes:
        recorded: whether its row holds a selection, of either run; ``None`` where there is no row.
        k: what must be said of its row for the inspector, the recorded slots; ``None`` where its call says k.
    """

    detail: Detail
    recorded: tuple[bool | None, ...]
    k: tuple[int | None, ...]


@dataclass(eq=False)
class Held:
    """A comparison that all sessions share, once it is made, with what was laid out and looked at of it."""

    lock: Lock = field(default_factory=Lock)
    found: Divergence | None = None
    laid: dict[object, Timeline] = field(default_factory=dict)
    looked: dict[tuple[int, int], Looked] = field(default_factory=dict)

    def timeline(self, key: object, make: Callable[[], Timeline]) -> Timeline:
        """A comparison laid out, kept under ``key``."""
        with self.lock:
            if key not in self.laid:
                self.laid[key] = make()
            return self.laid[key]

    def look(self, against: int, number: int) -> Looked:
        """One point in full, its rows read once.

        Raises:
            CaptureError: a file cannot be read, or was changed since.
        """
        assert self.found is not None
        with self.lock, self.found:
            if (against, number) not in self.looked:
                while len(self.looked) >= LOOKED:
                    self.looked.pop(next(iter(self.looked)))
                self.looked[against, number] = _look(self.found.comparisons[against], number)
            return self.looked[against, number]


def _look(one: Comparison, number: int) -> Looked:
    point = one.points[number]
    known = one.detail if one.detail is not None and one.detail.point is point else one.look(point)
    sides = list(zip(one.runs, one.events[number], strict=True))
    return Looked(
        known,
        tuple(None if event is None else run.indices(event) is not None for run, event in sides),
        tuple(None if event is None or event.k is not None else run.winners(event) for run, event in sides),
    )


def offers() -> dict[str, Offer]:
    """Every file on offer, and every folder that holds several, by their keys; no dump that is a folder."""
    entries = [one for one in (*library().entries, *state.uploads().entries.values()) if not one.folder]
    found = {entry.key: Offer(entry.key, (entry,)) for entry in entries}
    for folder, files in _folders(entries).items():
        if len(files) > 1:
            found[folder] = Offer(folder, tuple(sorted(files, key=lambda entry: natural(entry.key))))
    return found


def _folders(entries: Sequence[Entry]) -> Mapping[str, list[Entry]]:
    """Entries by the folder that they lie in; files given at start lie in none and are left out."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if "/" in entry.key:
            found[entry.key.rpartition("/")[0] + "/"].append(entry)
    return found


def suggestions() -> list[tuple[str, ...]]:
    """Keys of files that may be runs of one prompt: they lie together, record selections, and begin alike."""
    alike: dict[object, list[Entry]] = defaultdict(list)
    for entry in library().entries[:CHECKED]:
        run = look(entry).run
        if run is not None:
            alike[entry.key.rpartition("/")[0], run].append(entry)
    groups = [tuple(entry.key for entry in files) for files in alike.values() if 2 <= len(files) <= _SEVERAL]
    return groups[:_SUGGESTED]


@st.cache_data(max_entries=FILES, show_spinner=False, hash_funcs=TEXT)
def _content(path: str, stamp: object) -> str:
    with open_capture(path) as capture:
        return content_name(capture.digest, Path(path), capture.stamp)


def _stamp(entry: Entry) -> object:
    """What changes with each change of a file, or of those that it names."""
    now = renewed(entry)
    if not entry.path.name.endswith(INDEX_SUFFIX):
        return now.stamp
    with open_capture(entry.path) as capture:
        return now.stamp, capture.stamp


@st.cache_resource(max_entries=FILES, show_spinner=False, hash_funcs=TEXT)
def _digests(file: str) -> dict[int, str]:
    return {}


@st.cache_resource(max_entries=KEPT, show_spinner=False, hash_funcs=TEXT)
def _held(runs: tuple[tuple[str, tuple[str, ...]], ...], ranks: bool) -> Held:
    return Held()


def _identity(entry: Entry) -> str:
    """What names the content of a file as it is now."""
    try:
        return _content(str(entry.path), _stamp(entry))
    except CaptureError as error:
        raise local(error, entry) from None


@dataclass(frozen=True)
class Chosen:
    """Runs that were chosen, each with what names the content of its files."""

    runs: tuple[Offer, ...]
    contents: tuple[tuple[str, ...], ...]
    ranks: bool

    @property
    def digest(self) -> str:
        """What names all of their content, for links."""
        told = hashlib.sha256()
        for contents in self.contents:
            told.update(f"{len(contents)} ".encode())
            for content in contents:
                told.update(":".join(content.split(":")[:2]).encode())
        return short_digest(told.hexdigest())

    @property
    def files(self) -> dict[str, str]:
        """The digest of every file, as links to it carry it, by its key."""
        return {
            entry.key: short_digest(":".join(content.split(":")[:2]))
            for run, contents in zip(self.runs, self.contents, strict=True)
            for entry, content in zip(run.entries, contents, strict=True)
        }

    @property
    def held(self) -> Held:
        """Their comparison, as far as it is made."""
        named = tuple((run.key, contents) for run, contents in zip(self.runs, self.contents, strict=True))
        return _held(named, self.ranks)


def chosen_runs(runs: Sequence[Offer], ranks: bool) -> Chosen:
    """Look at the content of some runs.

    Raises:
        CaptureError: a file cannot be opened; named as it is on offer.
    """
    contents = tuple(tuple(_identity(entry) for entry in run.entries) for run in runs)
    return Chosen(tuple(runs), contents, ranks)


def compare(chosen: Chosen, place: st.delta_generator.DeltaGenerator) -> Divergence | None:
    """The comparison, made now unless it is known; ``None`` where it was stopped.

    What was read until it is stopped is kept, so that the next try goes on from there.

    Raises:
        WorkbenchError: a file cannot be read, or there is nothing to compare.
    """
    held, stopped = chosen.held, f"divergence-stopped:{chosen.digest}:{chosen.ranks}"
    if held.found is not None:
        return held.found
    if st.session_state.get(stopped):
        _stopped(chosen, place, stopped)
        return None
    progress = _Progress(place, stopped)
    while not held.lock.acquire(timeout=_OFTEN):
        progress.waiting()
    try:
        if held.found is None:
            held.found = _made(chosen, progress)
    finally:
        held.lock.release()
    place.empty()
    return held.found


def _made(chosen: Chosen, progress: _Progress) -> Divergence:
    with ExitStack() as stack:
        opened = []
        for run, contents in zip(chosen.runs, chosen.contents, strict=True):
            paths = [entry.path for entry in run.entries]
            keys = {entry.path: entry.key for entry in run.entries}
            known = {path: _digests(content) for path, content in zip(paths, contents, strict=True)}
            progress.say(0, f"Opening {run.name}")
            given = CapturedRun(
                paths, name=run.name, labels=keys.__getitem__, digests=known.__getitem__, opener=open_capture
            )
            opened.append(stack.enter_context(given))
        rows = sum(map(len, opened))
        found = diverge(
            *opened,
            ranks=chosen.ranks,
            progress=lambda done: progress.say(done / rows, f"Reading inputs: {count(done)} of {count(rows)} rows"),
            points=lambda done, of: progress.say(done / of, f"Comparing: {count(done)} of {count(of)} points"),
        )
        stack.pop_all().close()
        found.close()
        return found


class _Progress:
    """A bar and a button that stops, once it takes a while; any press of a widget ends the run of the script here."""

    def __init__(self, place: st.delta_generator.DeltaGenerator, stopped: str) -> None:
        self._place, self._stopped = place, stopped
        self._bar: st.delta_generator.DeltaGenerator | None = None
        self._next = time.monotonic() + _LATE

    def say(self, share: float, text: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _OFTEN
        if self._bar is None:
            with self._place.container():
                left, right = st.columns([6, 1], vertical_alignment="bottom")
                self._bar = left.empty()
                right.button(
                    "Stop",
                    key="divergence-stop",
                    width="stretch",
                    icon=":material/stop_circle:",
                    on_click=lambda: st.session_state.update({self._stopped: True}),
                )
        self._bar.progress(min(1.0, share), state.plain(text))

    def waiting(self) -> None:
        self.say(0, "Another session compares these runs")


def _stopped(chosen: Chosen, place: st.delta_generator.DeltaGenerator, stopped: str) -> None:
    read = sum(len(_digests(content)) for content in {one for contents in chosen.contents for one in contents})
    with place.container():
        left, right = st.columns([6, 1], vertical_alignment="center")
        left.info(f"Stopped. The inputs of {count(read)} rows are read and are not read again.")
        right.button(
            "Go on",
            key="divergence-go",
            width="stretch",
            icon=":material/play_arrow:",
            on_click=lambda: st.session_state.update({stopped: False}),
        )


def offered(keys: Sequence[str], on_offer: Mapping[str, Offer], note: Callable[[str], None]) -> list[Offer]:
    """The runs of these keys; those that are not on offer are noted and left out."""
    for key in keys:
        if key not in on_offer:
            note(f"The link's run {brief(key)} is not among the files and folders given at start; it is left out.")
    return [on_offer[key] for key in keys if key in on_offer]
