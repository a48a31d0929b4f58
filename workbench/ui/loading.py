"""Captures and inspections, opened and worked out once for all sessions."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import streamlit as st

from workbench.capture import Capture, Row, open_capture
from workbench.errors import CaptureError, WorkbenchError
from workbench.figures import palette
from workbench.paths.orders import DEFAULT_SEED
from workbench.runs.inspect import Inspection, damage, inspect_row
from workbench.runs.report import Result
from workbench.runs.run import STOCK, run_case
from workbench.ui.caches import TEXT
from workbench.ui.dumps import is_capture
from workbench.ui.library import Entry, Library, list_captures, local, renewed
from workbench.ui.view import View

CHECKED = 200  # files that are looked into when they are listed; others when they are chosen
OPENED, INSPECTED, LISTS, DIGESTS = 16, 6, 8, 4096


@dataclass(frozen=True)
class Opened:
    """An open capture. All that is worked out of its rows is kept under the ``content`` that it had when it was opened.

    Attributes:
        entry: what it was opened from. names: of its tensors, as ``View.names``, where it is a foreign file.
        capture: itself. whole: its digest.
    """

    entry: Entry
    names: tuple[str | None, ...]
    capture: Capture
    whole: str

    @property
    def digest(self) -> str:
        """As links carry it."""
        return short_digest(self.whole)

    @property
    def content(self) -> str:
        """What names its bytes. A digest over samples of a large file does so only as long as the file stays."""
        return content_name(self.whole, self.entry.path, self.capture.stamp)


def content_name(digest: str, path: Path, stamp: str) -> str:
    """What names the bytes of a file: its digest, if that is over all of them. ``stamp``: of the capture in it."""
    return digest if digest.startswith("sha256:") else f"{digest}:{path}:{stamp}"


def short_digest(digest: str) -> str:
    """The first 16 hexadecimal digits, enough to name a file."""
    return digest.split(":")[-1][:16]


@dataclass(frozen=True)
class Summary:
    """One line of the row list; ``error``: why the row could not be inspected."""

    row: int
    length: int
    verdict: str | None = None
    risk: str | None = None
    missing: int | None = None
    expected: float | None = None
    error: str = ""


@st.cache_data(ttl=5, max_entries=16, show_spinner=False, hash_funcs=TEXT)
def _library(arguments: tuple[str, ...]) -> Library:
    return list_captures(arguments)


def library() -> Library:
    """The files on offer: what was given at start, and the samples."""
    return _library(tuple(sys.argv[1:]))


@dataclass(frozen=True)
class Look:
    """A file looked into without reading a score.

    Attributes:
        fault: why it cannot be opened; empty if it can, or is a dump.
        ready: whether it opens as a capture that says k, so that its first row can be inspected at once.
        run: what runs of one prompt have in common, model, first step and first layer; ``None`` where it is no run by
            itself: no selection is recorded, it says no step, or it is one rank of several.
    """

    fault: str = ""
    ready: bool = False
    run: tuple[str | None, int, int | None] | None = None


@st.cache_data(max_entries=4 * CHECKED, show_spinner=False, hash_funcs=TEXT)
def _look(path: str, stamp: tuple[int, int], _entry: Entry) -> Look:
    try:
        if _entry.folder or not is_capture(_entry.path):
            return Look()
        with open_capture(_entry.path) as capture:
            if not len(capture):
                return Look()
            call = capture.call(capture.call_of(0))
            alone = capture.info.recorded and call.rank is None
            run = (call.model, call.step, call.layer) if alone and call.step is not None else None
            return Look(ready=call.k is not None, run=run)
    except CaptureError as error:
        return Look(str(local(error, _entry)))


def look(entry: Entry) -> Look:
    """Look into a file."""
    return _look(str(entry.path), entry.stamp, entry)


@st.cache_resource(max_entries=OPENED, show_spinner=False, hash_funcs=TEXT)
def _opened(path: str, stamp: tuple[int, int], names: tuple[str | None, ...], _entry: Entry) -> Opened:
    scores, lengths, starts, indices = names
    capture = open_capture(path, scores=scores, lengths=lengths, starts=starts, indices=indices)
    return Opened(_entry, names, capture, capture.digest)


def opened(entry: Entry, view: View) -> Opened:
    """Open a file as it is now. A page does so once a run and hands on what it got: what is put in the file's place
    meanwhile is another.

    Raises:
        CaptureError, UsageError: with the file by its relative name.
    """
    now = renewed(entry)
    known = (str(now.path), now.stamp, view.names)
    try:
        found = _opened(*known, now)
        if not found.capture.is_unchanged():  # or one of the files that it names
            _opened.clear(*known, now)
            found = _opened(*known, now)
    except CaptureError as error:
        raise local(error, entry) from None
    return replace(found, entry=now)


@st.cache_data(max_entries=DIGESTS, show_spinner=False, hash_funcs=TEXT)
def _input_digest(content: str, names: tuple[str | None, ...], number: int, _file: Opened) -> str:
    return _file.capture.digest_of(number)


def input_digest(file: Opened, number: int) -> str:
    """``Row.digest`` of one row.

    Raises:
        CaptureError: it cannot be read, or the file was changed since it was opened.
    """
    return _input_digest(file.content, file.names, number, file)


def read_row(file: Opened, number: int) -> Row:
    """Read one row.

    Raises:
        CaptureError: it cannot be read, or the file was changed since it was opened.
    """
    try:
        return file.capture[number]
    except CaptureError as error:
        raise local(error, file.entry) from None


@st.cache_resource(max_entries=INSPECTED, show_spinner=False, hash_funcs=TEXT)
def _inspected(identity: tuple[object, ...], number: int, _file: Opened, _view: View) -> Inspection:
    row, view = read_row(_file, number), _view
    try:
        return inspect_row(row, op=view.op, release=view.release, device=view.device, k=view.k)
    except CaptureError as error:
        raise local(error, _file.entry) from None


def inspected(file: Opened, view: View, number: int) -> Inspection:
    """Inspect one row in the circumstances of the view.

    Raises:
        CaptureError, UsageError: the row cannot be read, or not be judged.
    """
    return _inspected(_identity(file, view), number, file, view)


def circumstances(file: Opened, view: View) -> tuple[object, ...]:
    """What decides all that is worked out of a row, besides its number: the file's content and what was chosen."""
    return (file.content, file.names, view.k, view.op, view.release, view.device)


def _identity(file: Opened, view: View) -> tuple[object, ...]:
    return (file.entry.key, *circumstances(file, view))


@st.cache_resource(max_entries=LISTS, show_spinner=False, hash_funcs=TEXT)
def _lines(identity: tuple[object, ...]) -> dict[int, Summary]:
    return {}


def lines_so_far(file: Opened, view: View) -> dict[int, Summary]:
    """The lines of the rows inspected so far in the circumstances of the view, by any session; ``summary`` fills it."""
    return _lines(_identity(file, view))


def summary(file: Opened, view: View, number: int) -> Summary:
    """One line of the row list. Its inspection is kept for a while: see ``forget``."""
    known = lines_so_far(file, view)
    if number not in known:
        known[number] = _summary(file, view, number)
    return known[number]


def forget(file: Opened, view: View, number: int) -> None:
    """Let go of an inspection, so that those of a long list do not push out what is shown."""
    _inspected.clear(_identity(file, view), number, file, view)


def _summary(file: Opened, view: View, number: int) -> Summary:
    capture = file.capture
    length = int(capture.lengths[number])
    if (view.k or capture.call(capture.call_of(number)).k) is None:
        return Summary(number, length)
    try:
        found = inspected(file, view, number)
    except WorkbenchError as error:
        return Summary(number, length, error=str(error))
    head = found.headline
    if head is None:
        return Summary(number, length)
    said = head.line
    risk, expected = said.risk, said.expected_missing
    if head is found.recorded and not said.reached:  # which path ran is not known: that of the worst that may have
        worst = max((one for one in found.results if one.risk and one.risk.judged), key=damage, default=head)
        risk, expected = worst.line.risk, worst.line.expected_missing
    refused = head.risk is None or head.risk.refused
    verdict = said.verdict if said.refused is None else palette.REFUSED_WORD if refused else palette.NOT_RUN
    return Summary(number, length, verdict, risk, said.missing, expected)


@st.cache_resource(max_entries=2 * INSPECTED, show_spinner=False, hash_funcs=TEXT)
def _result(identity: tuple[object, ...], number: int, path: str, seed: int, _found: Inspection) -> Result:
    case = _found.case
    for made in _found.results:
        if made.line.path == path and seed == DEFAULT_SEED:
            return made
    return run_case(case, paths=path, variants=variant_of(_found, path), seed=seed)[0]


def variant_of(found: Inspection, path: str) -> str:
    """The variant of a path to run: the release's own on the path that the op takes, else ``stock``."""
    taken = found.route
    return (taken.variant if taken is not None and taken.path == path else None) or STOCK


def result(file: Opened, view: View, number: int, path: str, seed: int, found: Inspection) -> Result:
    """What the model of a path selects on an inspected row; on the reached path in the release's own variant."""
    return _result(_identity(file, view), number, path, seed, found)
