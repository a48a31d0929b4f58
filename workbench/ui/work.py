"""Rows that shrink and rows that are exported, for all sessions: neither is done twice for the same row."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import streamlit as st

from workbench.errors import CaptureError, UsageError
from workbench.export.packed import Packed, export_packed
from workbench.figures.words import count, plural
from workbench.runs.case import Case
from workbench.runs.inspect import Inspection
from workbench.runs.shrink import Shrinking, Shrunk
from workbench.ui.background import Background, Told
from workbench.ui.caches import TEXT
from workbench.ui.closing import temporary_folder
from workbench.ui.loading import Opened, circumstances
from workbench.ui.view import View
from workbench.words import because

SEED = 0  # of shrinking, as on the command line where none is given
LIMIT = 60.0  # seconds after which shrinking stops, until it is asked to go on
_WORKS, _EXPORTS = 6, 12


class Work:
    """A row that shrinks, a little at a time, for every session that looks at it.

    Whoever asks for more takes it on from where it is: the end is the same for any number of stops.

    Attributes:
        going: the thread that is at it.
    """

    def __init__(self) -> None:
        self.going = Background()
        self._lock = threading.Lock()
        self._row: Shrinking | None = None
        self._steps: Iterator[int] = iter(())
        self._seconds = 0.0
        self._seen: tuple[Shrunk, Case] | None = None

    @property
    def begun(self) -> bool:
        """Whether anyone asked for it."""
        return self._row is not None

    def start(self, found: Inspection, view: View, path: str, variant: str) -> None:
        """Shrink the row, for ``LIMIT`` seconds at most; nothing where that is done just now."""
        self.going.start(lambda: self._pieces(found, view, path, variant))

    def _pieces(self, found: Inspection, view: View, path: str, variant: str) -> Iterator[Told]:
        yield 0.0, f"Shrinking: looking at {plural(found.row.length, 'score')}"
        with self._lock:
            if self._row is None:
                self._row = Shrinking(
                    found.row, path, variant, op=view.op, release=view.release, device=view.device, k=view.k, seed=SEED
                )
                self._steps = iter(self._row)
        end, more = time.monotonic() + LIMIT, True
        while more:
            before, length, tried, more = self._step()
            text = f"Shrinking: {count(length)} of {plural(before, 'score')} left, {plural(tried, 'candidate')} tried"
            yield (before - length) / before, text
            if time.monotonic() >= end:
                return

    def _step(self) -> tuple[int, int, int, bool]:
        """Try one candidate, unless the row is a minimum already.

        Returns:
            Scores of the row as given and of the smallest one so far, candidates tried, whether there is more to do.
        """
        with self._lock:
            row, started = self._shrinking, time.monotonic()
            try:
                if not row.is_minimum:
                    next(self._steps)
            except StopIteration:  # with the last candidate it became a minimum
                pass
            except BaseException:  # what broke off is not gone on with
                self._steps = iter(row)
                raise
            self._seconds += time.monotonic() - started
            self._seen = None
            return row.before.length, row.smallest.length, row.tried, not row.is_minimum

    def so_far(self) -> tuple[Shrunk, Case]:
        """What has become of the row, and the smallest row in its circumstances."""
        with self._lock:
            if self._seen is None:
                shrunk = self._shrinking.result(self._seconds)
                self._seen = shrunk, Case(shrunk.row)
            return self._seen

    def content(self) -> bytes:
        """The smallest row so far as the capture that ``workbench shrink --output`` writes.

        Raises:
            CaptureError: there is no room for it.
        """
        with self._lock:
            row = self._shrinking
            try:
                with temporary_folder() as folder:
                    file = Path(folder) / "shrunk.safetensors"
                    row.saved(file).write(row.smallest, finished=row.is_minimum)
                    return file.read_bytes()
            except (CaptureError, OSError) as error:
                reason = error.reason if isinstance(error, CaptureError) else f"cannot be written: {because(error)}"
                raise CaptureError(reason, file="the temporary folder") from None

    @property
    def _shrinking(self) -> Shrinking:
        assert self._row is not None
        return self._row


@st.cache_resource(max_entries=_WORKS, show_spinner=False, hash_funcs=TEXT)
def _work(circumstances: tuple[object, ...], number: int, path: str, variant: str, seed: int) -> Work:
    return Work()


def work(file: Opened, view: View, number: int, path: str, variant: str) -> Work:
    """The shrinking of a row on a path and variant, in the circumstances of the view."""
    return _work(circumstances(file, view), number, path, variant, SEED)


class Exporting:
    """An export, for every session that asks for it: made once.

    Attributes:
        going: the thread that is at it. made: the export, or why there is none; ``None`` until then.
    """

    def __init__(self, case: Case, path: str, variant: str, style: str, op: str | None) -> None:
        self.going = Background()
        self.made: Packed | str | None = None
        self._case, self._path, self._variant, self._style, self._op = case, path, variant, style, op

    def start(self) -> None:
        """Write the test and run it; nothing where that is done, or done just now."""
        if self.made is None:
            self.going.start(self._pieces)

    def _pieces(self) -> Iterator[Told]:
        yield 0.0, "Writing the test"

        def told(number: int, of: int) -> None:
            self.going.tell((number / of, f"Running the test: call {count(number + 1)} of {count(of)} at most"))

        try:
            self.made = export_packed(
                self._case, style=self._style, path=self._path, variant=self._variant, op=self._op, told=told
            )
        except UsageError as error:  # it holds for good, unlike a disk that is full
            self.made = str(error)


@st.cache_resource(max_entries=_EXPORTS, show_spinner=False, hash_funcs=TEXT)
def _exporting(row: tuple[object, ...], path: str, variant: str, style: str, op: str | None, _case: Case) -> Exporting:
    return Exporting(_case, path, variant, style, op)


def exporting(row: tuple[object, ...], case: Case, path: str, variant: str, style: str, op: str | None) -> Exporting:
    """A row's export. ``row``: names the row in its circumstances; ``op``: that was asked for."""
    return _exporting(row, path, variant, style, op, case)
