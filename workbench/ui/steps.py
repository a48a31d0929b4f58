"""Steps from one bad row of a capture to the next, by buttons and keys.

A row is bad that lost winners or can lose some, that is invalid, or that cannot be inspected. Rows are stepped through
by their number; those on the way that were not inspected yet are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import streamlit as st

from workbench.analysis.risk import LOSING
from workbench.analysis.verdict import LOST
from workbench.figures.words import count, plural
from workbench.ui import state
from workbench.ui.loading import Opened, Summary, forget, lines_so_far, summary
from workbench.ui.rows import OFTEN_S, Place

NEXT, PREVIOUS = 1, -1
KEYS = {PREVIOUS: "P", NEXT: "N"}
_ICONS = {PREVIOUS: ":material/arrow_upward:", NEXT: ":material/arrow_downward:"}
_WORDS = {PREVIOUS: ("Previous", "before"), NEXT: ("Next", "after")}
_ABOUT = "a row that lost winners or can lose some, that is invalid, or that cannot be inspected"


def is_bad(line: Summary) -> bool:
    """Whether a row is one to look at."""
    return bool(line.error) or line.verdict in LOST or line.risk in LOSING


def ahead(known: Mapping[int, Summary], rows: int, row: int, way: int) -> tuple[int, bool] | None:
    """The next row that is bad or was not inspected yet, and whether it is bad; ``None`` where there is neither.

    Args:
        known: the lines of the rows inspected so far. rows: of the capture. row: to start after. way: ``NEXT`` or
            ``PREVIOUS``.
    """
    for number in range(row + way, rows if way == NEXT else -1, way):
        if number not in known or is_bad(known[number]):
            return number, number in known
    return None


def step_buttons(file: Opened, rows: int, row: int, key: str, slot: Place) -> None:
    """Buttons to the previous and the next bad row. ``key`` names the list that the row is of."""
    if rows < 2:
        return
    known = lines_so_far(file, state.current())
    with slot.container():
        for column, way in zip(st.columns(2), KEYS, strict=True):
            name, side = _WORDS[way]
            column.button(
                f"{name} bad row",
                key=f"step:{way}:{key}",
                icon=_ICONS[way],
                shortcut=KEYS[way],
                width="stretch",
                disabled=ahead(known, rows, row, way) is None,
                help=f"{side} this one, by its number: {_ABOUT}",
                on_click=lambda way=way: st.session_state.update({_asked(key): way}),
            )
        if (problem := st.session_state.pop(f"step-problem:{key}", None)) is not None:
            st.caption(problem)


def _asked(key: str) -> str:
    return f"step-asked:{key}"


def take_step(file: Opened, rows: int, row: int | None, key: str, slot: Place) -> int | None:
    """The row that a button asked for, with progress and a way to stop while it is looked for; the view turns to it.

    Returns:
        Its number; ``None`` where none was asked for, or there is none.
    """
    way = st.session_state.pop(_asked(key), None)
    if way is None or row is None:
        return None
    view, at = state.current(), row
    known = lines_so_far(file, view)
    name, side = _WORDS[way]
    bar: Place | None = None
    next_look = 0.0
    while (found := ahead(known, rows, at, way)) is not None:
        at, bad = found
        if not bad:
            if bar is None:
                with slot.container():  # any press of a widget ends this run; this one says so
                    st.button("Stop", key=f"step-stop:{key}", icon=":material/stop_circle:", width="stretch")
                    bar = st.empty()
            if (now := time.monotonic()) >= next_look:
                bar.progress((at + 1) / rows, f"{name} bad row: looking at row {count(at)} of {count(rows)}")
                next_look = now + OFTEN_S
            bad = is_bad(summary(file, view, at))
            if not bad:
                forget(file, view, at)
        if bad:
            state.change(row=at, bin=None)
            return at
    st.session_state[f"step-problem:{key}"] = f"There is no bad row {side} row {count(row)}."
    return None


def about_steps(known: Mapping[int, Summary], rows: int, slot: Place) -> None:
    """How many rows are bad, as far as rows were inspected."""
    if rows < 2:
        return
    bad = sum(map(is_bad, known.values()))
    of = plural(rows, "row") if len(known) == rows else f"the {plural(len(known), 'row')} inspected"
    slot.caption(f"{count(bad) if bad else 'None'} of {of} {'is' if bad <= 1 else 'are'} bad.")
