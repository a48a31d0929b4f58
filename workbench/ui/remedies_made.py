"""Advice for all sessions: of a row, or of all rows of a capture, made row by row so that a stop loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st

from workbench.capture import Capture
from workbench.errors import CaptureError
from workbench.figures.words import count
from workbench.runs.advise import Advising
from workbench.runs.remedy import Advice
from workbench.ui import state
from workbench.ui.background import Background, Told
from workbench.ui.caches import TEXT
from workbench.ui.library import local
from workbench.ui.loading import circumstances
from workbench.ui.rowpage import Shown
from workbench.ui.view import View

AT_ONCE = 4_000_000  # scores that a capture may hold to be advised on without being asked for
ROWS_AT_ONCE = 200
MOST_ROWS = 20_000
_KEPT = 8


@st.cache_resource(max_entries=4 * _KEPT, show_spinner=False, hash_funcs=TEXT)
def _of_row(row: tuple[object, ...], _shown: Shown, _view: View) -> Advice:
    advising = Advising(_view.op, _view.release, _view.device, _view.k)
    advising.add(_shown.seen.row, _shown.seen.case)
    return advising.advice()


def of_row(shown: Shown) -> Advice:
    """Advice on the row that is shown, in its circumstances.

    Raises:
        UsageError, CaptureError: they do not go together.
    """
    view = state.current()
    return _of_row((*circumstances(shown.file, view), shown.number), shown, view)


@dataclass(eq=False)
class Made:
    """Advice on a capture while it is made. ``done``: rows that are counted, from the first one on."""

    advising: Advising
    going: Background = field(default_factory=Background)
    lock: Lock = field(default_factory=Lock)
    done: int = 0
    _told: tuple[int, Advice] | None = None

    def advice(self) -> Advice:
        """On the rows that are counted."""
        with self.lock:
            if self._told is None or self._told[0] != self.done:
                self._told = self.done, self.advising.advice()
            return self._told[1]


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _of_capture(capture: tuple[object, ...], _view: View) -> Made:
    return Made(Advising(_view.op, _view.release, _view.device, _view.k))


def of_capture(shown: Shown) -> Made:
    """Advice on all rows of the capture, as far as any session made it."""
    view = state.current()
    return _of_capture(circumstances(shown.file, view), view)


def is_quick(capture: Capture) -> bool:
    """Whether all rows are counted without being asked for."""
    return len(capture) <= ROWS_AT_ONCE and len(capture) * max(1, capture.info.length_max) <= AT_ONCE


def count_rows(shown: Shown, held: Made) -> Iterator[Told]:
    """Count every row that was not counted yet, and tell how far that is; what is counted when it is stopped is kept.

    Raises:
        CaptureError, UsageError: a row that cannot be read or judged.
    """
    capture = shown.file.capture
    while held.done < len(capture):
        at = held.done
        yield at / len(capture), f"Judging rows: {count(at)} of {count(len(capture))}"
        try:
            row = capture[at]
        except CaptureError as error:
            raise local(error, shown.file.entry) from None
        with held.lock:
            if held.done == at:  # else another session was as far
                held.advising.add(row)
                held.done += 1
