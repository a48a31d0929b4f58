"""Matrices for all sessions: made by the models row by row, so that a stop loses nothing, or read from files."""

from __future__ import annotations

import hashlib
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st

from workbench.capture import Capture
from workbench.errors import CaptureError
from workbench.figures.words import count
from workbench.runs.judges import ModelJudge
from workbench.runs.matrix import Cell, Matrix, MatrixRow, tell_row
from workbench.runs.matrix_saved import parse_matrix
from workbench.runs.members import content_of
from workbench.ui.caches import TEXT
from workbench.ui.library import Entry, list_matrices, local, renewed
from workbench.ui.loading import Opened, short_digest

CALLS = 10  # of each cell, by the models
AT_ONCE = 4_000_000  # scores times ways that a row may take, judged without being asked for
MOST_ROWS = 20_000
_KEPT, _READ = 6, 4
_LATE, _OFTEN = 0.4, 0.2  # seconds after which progress is shown, and between two looks at it


@dataclass(frozen=True)
class Circumstances:
    """What a matrix of a capture is made of, besides its rows."""

    ops: tuple[str, ...]
    device: str | None
    k: int | None
    releases: tuple[str, ...]


@dataclass(eq=False)
class Made:
    """A matrix while it is made: the rows judged so far."""

    lock: Lock = field(default_factory=Lock)
    rows: dict[int, tuple[MatrixRow, tuple[Cell, ...]]] = field(default_factory=dict)
    whole: Matrix | None = None

    def matrix(self, releases: tuple[str, ...]) -> Matrix:
        """The rows judged so far as a matrix."""
        numbers = sorted(self.rows)
        if self.whole is None or len(self.whole.rows) != len(numbers):
            self.whole = Matrix(
                tuple(self.rows[at][0] for at in numbers), releases, tuple(self.rows[at][1] for at in numbers), CALLS
            )
        return self.whole


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _made(content: str, circumstances: Circumstances) -> Made:
    return Made()


def made(found: Opened, circumstances: Circumstances) -> Made:
    """The matrix of a capture as far as any session made it."""
    return _made(found.content, circumstances)


def is_quick(capture: Capture) -> bool:
    """Whether all rows are judged without being asked for."""
    return len(capture) * max(1, capture.info.length_max) <= AT_ONCE


def judge_rows(
    found: Opened, entry: Entry, circumstances: Circumstances, bar: st.delta_generator.DeltaGenerator
) -> None:
    """Judge every row that was not judged yet, with progress; what is judged when a session stops is kept.

    Raises:
        CaptureError, UsageError: a row that cannot be read or judged.
    """
    capture, held = found.capture, made(found, circumstances)
    started = shown = time.monotonic()
    with closing(ModelJudge(circumstances.ops, circumstances.device, circumstances.k, CALLS)) as judge:
        for number in range(len(capture)):
            if number in held.rows:
                continue
            now = time.monotonic()
            if now - started > _LATE and now - shown > _OFTEN:
                bar.progress(number / len(capture), f"Judging rows: {count(number)} of {count(len(capture))}")
                shown = now
            try:
                row = capture[number]
                told = tell_row(row, circumstances.k)
            except CaptureError as error:
                raise local(error, entry) from None
            cells = tuple(judge(row, release) for release in circumstances.releases)
            with held.lock:
                held.rows[number] = told, cells
    bar.empty()


@st.cache_data(ttl=5, max_entries=16, show_spinner=False, hash_funcs=TEXT)
def _saved(arguments: tuple[str, ...]) -> tuple[Entry, ...]:
    return list_matrices(arguments)


def saved() -> dict[str, Entry]:
    """The saved matrices on offer, by their keys."""
    return {entry.key: entry for entry in _saved(tuple(sys.argv[1:]))}


@st.cache_resource(max_entries=_READ, show_spinner=False, hash_funcs=TEXT)
def _read(path: str, stamp: tuple[int, int], _entry: Entry) -> tuple[Matrix, str]:
    content = content_of(_entry.path, _entry.key)
    return parse_matrix(content, _entry.key), short_digest(hashlib.sha256(content).hexdigest())


def read_saved(entry: Entry) -> tuple[Matrix, str]:
    """A saved matrix, and its digest as links carry it.

    Raises:
        CaptureError: it cannot be read, or is none.
    """
    now = renewed(entry)
    return _read(str(now.path), now.stamp, now)
