"""Audits on offer, each summed up once for all sessions."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st

from workbench.audit.dataset import Dataset
from workbench.audit.summary import Summary, summarize
from workbench.capture.values import shown
from workbench.errors import CaptureError
from workbench.figures.words import count
from workbench.ui.caches import TEXT
from workbench.ui.library import Entry, audit_stamp, list_audits

WORST, GROUPS = 100, 50
_KEPT = 4
_LATE, _OFTEN = 0.4, 0.2  # seconds after which progress is shown, and between two looks at it


@st.cache_data(ttl=5, max_entries=16, show_spinner=False, hash_funcs=TEXT)
def _audits(arguments: tuple[str, ...]) -> tuple[Entry, ...]:
    return list_audits(arguments)


def audits() -> dict[str, Entry]:
    """The output folders of audits on offer, by their keys."""
    return {entry.key: entry for entry in _audits(tuple(sys.argv[1:]))}


@dataclass(eq=False)
class _Held:
    lock: Lock = field(default_factory=Lock)
    summary: Summary | None = None


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _held(path: str, stamp: tuple[int, int]) -> _Held:
    return _Held()


def summary(entry: Entry, bar: st.delta_generator.DeltaGenerator) -> Summary:
    """What an audit found, with progress in ``bar`` where that takes a while.

    Raises:
        CaptureError: with the folder by its relative name.
    """
    held = _held(str(entry.path), audit_stamp(entry.path))  # what is listed may be some seconds old
    with held.lock:
        if held.summary is None:
            held.summary = _summed(entry, bar)
    return held.summary


def _summed(entry: Entry, bar: st.delta_generator.DeltaGenerator) -> Summary:
    started = told = time.monotonic()

    def show(record: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - started > _LATE and now - told > _OFTEN:
            bar.progress(record / of, f"Reading record files: {count(record)} of {count(of)}")
            told = now

    try:
        dataset = Dataset(entry.path)
        of = max(1, len(dataset.records))
        return summarize(dataset, WORST, GROUPS, show)
    except CaptureError as error:
        file = entry.key + str(error.file or "").removeprefix(shown(entry.path))
        raise CaptureError(error.reason, file=file) from None
    finally:
        bar.empty()
