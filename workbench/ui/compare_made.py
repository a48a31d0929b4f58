"""What is compared of a row, for all sessions: nothing is worked out or called twice for the same row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st

from workbench.paths.catalog import PATHS
from workbench.runs.called import Called
from workbench.runs.case import Case
from workbench.runs.compare import UNROUTED, Compared, by_engines, by_releases, by_variants, run_cell
from workbench.runs.matrix import Cell
from workbench.ui import state
from workbench.ui.caches import TEXT
from workbench.ui.engines import known_answer, why_not
from workbench.ui.loading import circumstances
from workbench.ui.rowpage import Shown
from workbench.ui.view import CUDA, MODEL, RECORDED, VENDOR

CALLS = 10  # of each model
_REASONS = 6  # why an engine has no column
_KEPT = 12


@dataclass(eq=False)
class Made:
    """What models made of one row so far, by path and variant."""

    lock: Lock = field(default_factory=Lock)
    ran: dict[tuple[str, str], Cell] = field(default_factory=dict)


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _made(circumstances: tuple[object, ...], number: int) -> Made:
    return Made()


def made(shown: Shown) -> Made:
    """What models made of the row in its circumstances, in any session."""
    return _made(circumstances(shown.file, state.current()), shown.number)


def call_models(held: Made, case: Case, cells: Sequence[Cell], seconds: float) -> None:
    """Call the models of some cells, in their order, for about so long, and of one at least; they are kept."""
    started = time.monotonic()
    for cell in cells:
        assert cell.path is not None
        assert cell.variant is not None
        key = (cell.path, cell.variant)
        with held.lock:
            if key not in held.ran:
                held.ran[key] = run_cell(case, cell, CALLS)
        if time.monotonic() - started >= seconds:
            return


def compared(shown: Shown, axis: str) -> tuple[Compared, list[str]]:
    """The row on every path by an axis, and what is to be said of columns that are not there."""
    ran = made(shown).ran
    match axis:
        case "engines":
            engines, called, absent = _offered(shown)
            return by_engines(shown.seen, ran, called, engines), absent
        case "releases":
            return by_releases(shown.seen.case, ran), []
    return by_variants(shown.seen.case, ran), []


def _offered(shown: Shown) -> tuple[list[str], dict[tuple[str, str], Called | str], list[str]]:
    """The engines that can answer for the row: those, what they made of it so far, and why the others cannot."""
    engines, absent = [MODEL], []
    called: dict[tuple[str, str], Called | str] = {}
    for engine in (RECORDED, CUDA, VENDOR):
        lines = [path.name for path in PATHS] if engine == CUDA else [shown.seen.reached or UNROUTED]
        why = {line: why_not(engine, shown.seen, line if engine == CUDA else None) for line in lines}
        if all(why.values()):  # said is what most of them lack
            times = Counter(reason for reasons in why.values() for reason in reasons)
            most = [reason for reason, number in times.items() if number == max(times.values())]
            more = f"; and {len(most) - _REASONS} more" if len(most) > _REASONS else ""
            absent.append(f"{engine}: {'; '.join(most[:_REASONS])}{more}")  # they end in commands, and hold commas
            continue
        engines.append(engine)
        if engine == RECORDED:
            continue
        for line, reasons in why.items():
            answered = known_answer(shown.file, shown.number, engine, line if engine == CUDA else None)
            called[line, engine] = "; ".join(reasons) if reasons else answered or ""
    return engines, called, absent
