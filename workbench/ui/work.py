"""Rows that shrink and rows that are exported, for all sessions: neither is done twice for the same row."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import streamlit as st

from workbench.errors import CaptureError, UsageError
from workbench.export.packed import Packed, export_packed
from workbench.runs.case import Case
from workbench.runs.inspect import Inspection
from workbench.runs.shrink import Shrinking, Shrunk
from workbench.ui.closing import temporary_folder
from workbench.ui.loading import Opened, circumstances
from workbench.ui.view import View

SEED = 0  # of shrinking, as on the command line where none is given
_WORKS, _EXPORTS = 6, 12


class Work:
    """A row that shrinks, a little at a time, for every session that looks at it.

    Whoever asks for more takes it on from where it is: the end is the same for any number of stops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._row: Shrinking | None = None
        self._steps: Iterator[int] = iter(())
        self._seconds = 0.0
        self._seen: tuple[Shrunk, Case] | None = None

    @property
    def begun(self) -> bool:
        """Whether anyone asked for it."""
        return self._row is not None

    def begin(self, found: Inspection, view: View, path: str, variant: str) -> None:
        """Look at the row as it is; nothing where that was done.

        Raises:
            CaptureError, UsageError: the row cannot be shrunk there.
        """
        with self._lock:
            if self._row is not None:
                return
            self._row = Shrinking(
                found.row, path, variant, op=view.op, release=view.release, device=view.device, k=view.k, seed=SEED
            )
            self._steps = iter(self._row)

    def go_on(self, seconds: float) -> tuple[int, int, int, bool]:
        """Shrink for about so long, by one candidate at least.

        Returns:
            Scores of the row as given and of the smallest one so far, candidates tried, whether there is more to do.
        """
        with self._lock:
            row, started = self._shrinking, time.monotonic()
            try:
                while not row.is_minimum:
                    next(self._steps)
                    if time.monotonic() - started >= seconds:
                        break
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
                reason = error.reason if isinstance(error, CaptureError) else f"cannot be written: {error.strerror}"
                raise CaptureError(reason, file="the temporary folder") from None

    @property
    def _shrinking(self) -> Shrinking:
        assert self._row is not None
        return self._row


@st.cache_resource(max_entries=_WORKS, show_spinner=False)
def _work(circumstances: tuple[object, ...], number: int, path: str, variant: str, seed: int) -> Work:
    return Work()


def work(file: Opened, view: View, number: int, path: str, variant: str) -> Work:
    """The shrinking of a row on a path and variant, in the circumstances of the view."""
    return _work(circumstances(file, view), number, path, variant, SEED)


@st.cache_resource(max_entries=_EXPORTS, show_spinner=False)
def _packed(row: tuple[object, ...], path: str, variant: str, style: str, op: str | None, _case: Case) -> Packed | str:
    try:
        return export_packed(_case, style=style, path=path, variant=variant, op=op)
    except UsageError as error:  # it holds for good, unlike a disk that is full
        return str(error)


def packed(row: tuple[object, ...], case: Case, path: str, variant: str, style: str, op: str | None) -> Packed | str:
    """A row's export, or why there is none. ``row``: names the row in its circumstances; ``op``: that was asked for.

    Raises:
        CaptureError: there is no room for it.
    """
    return _packed(row, path, variant, style, op, case)
