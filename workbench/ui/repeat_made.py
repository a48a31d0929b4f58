"""Repeated calls for all sessions: made once for the same bytes and circumstances, a little at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st

from workbench.capture import Capture
from workbench.errors import CaptureError
from workbench.figures.words import count, plural
from workbench.runs.called import CUDA, op_results, rows_of_call
from workbench.runs.repeat import MODEL, RECORDED, Repeated, repeat
from workbench.runs.repeating import Repeating
from workbench.runs.run import run_case
from workbench.ui import engines, state
from workbench.ui.background import Background, Told
from workbench.ui.caches import TEXT
from workbench.ui.library import local
from workbench.ui.loading import circumstances
from workbench.ui.rowpage import Shown

AT_ONCE = 8_000_000  # scores among which calls on the same input are looked for without being asked for
UNSEEN_S = 10.0  # after which calls that nobody looks at are not gone on with
_KEPT, _RECORDED = 8, 16


@dataclass(eq=False)
class Held:
    """Calls that every session shares. ``going``: the thread that makes those of the model."""

    calls: Repeating
    going: Background = field(default_factory=Background)
    lock: Lock = field(default_factory=Lock)
    _told: tuple[object, Repeated] | None = None

    def go_on(self, calls: int) -> None:
        """Have the model called until there are so many calls, in a thread; it stops where nobody looks at it."""
        self.going.start(lambda: self._pieces(calls), UNSEEN_S)

    def _pieces(self, calls: int) -> Iterator[Told]:
        while (done := len(self.calls)) < calls and not self.calls.over:
            yield done / calls, f"Calling: {count(done)} of {plural(calls, 'call')}"
            made = self.calls.called()  # this thread alone makes some, and who looks meanwhile does not wait for it
            with self.lock:
                self.calls.take([made])

    def call(self, shown: Shown, calls: int) -> None:
        """Have the kernel of the path, or the released op, make the calls that are lacking, in a thread."""
        self.going.start(lambda: self._called(shown, calls))

    def _called(self, shown: Shown, calls: int) -> Iterator[Told]:
        lacking, case = calls - len(self.calls), shown.seen.case
        yield 0.0, engines.calling(engines.called_name(shown.seen, self.calls.engine, self.calls.path), lacking)
        if self.calls.engine == CUDA:
            assert self.calls.path is not None
            assert self.calls.variant is not None
            made = run_case(case, paths=self.calls.path, variants=self.calls.variant, engine=CUDA, repeats=lacking)
        else:
            assert case.release is not None
            rows, at = rows_of_call(shown.file.capture, shown.number)
            with closing(engines.open_released(case.release, self.going.asked_to_stop)) as engine:
                made, _ = op_results(case, engine, rows, at, lacking)
        with self.lock:
            self.calls.refused = self.calls.finding = None  # it may be asked anew
            self.calls.take(made)

    def line(self, calls: int) -> Repeated:
        """What the first so many calls amount to."""
        with self.lock:
            of = (min(calls, len(self.calls)), self.calls.refused, self.calls.finding)
            if self._told is None or self._told[0] != of:
                self._told = of, self.calls.line(calls)
            return self._told[1]


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _held(
    circumstances: tuple[object, ...], number: int, engine: str, path: str | None, variant: str | None, _shown: Shown
) -> Held:
    called = "" if engine == MODEL else engines.called_name(_shown.seen, engine, path)
    return Held(Repeating(_shown.seen.case, path, variant, engine, called=called))


def held(shown: Shown, engine: str, path: str | None, variant: str | None) -> Held:
    """The calls of an engine on the row that is shown, as far as any session made them."""
    return _held(circumstances(shown.file, state.current()), shown.number, engine, path, variant, shown)


@st.cache_resource(max_entries=_RECORDED, show_spinner=False, hash_funcs=TEXT)
def _recorded(circumstances: tuple[object, ...], number: int, _shown: Shown) -> Repeated:
    view = state.current()
    try:
        found = repeat(
            _shown.seen.case.row,
            engine=RECORDED,
            among=_shown.file.capture,
            op=view.op,
            release=view.release,
            device=view.device,
            k=view.k,
        )
    except CaptureError as error:
        raise local(error, _shown.file.entry) from None
    return found.lines[-1]


def recorded(shown: Shown) -> Repeated:
    """The recorded calls of the capture on the same input, or why there are none.

    Raises:
        CaptureError: a row that cannot be read.
    """
    return _recorded(circumstances(shown.file, state.current()), shown.number, shown)


def is_quick(capture: Capture) -> bool:
    """Whether all rows are looked through without being asked for."""
    return len(capture) * max(1, capture.info.length_max) <= AT_ONCE
