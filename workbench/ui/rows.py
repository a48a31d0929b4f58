"""The row list: a page of rows with their verdicts and risks, greatest damage first."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from workbench.figures import palette
from workbench.figures.words import count
from workbench.ui import state
from workbench.ui.library import Entry
from workbench.ui.loading import Opened, Summary, summary
from workbench.ui.view import View

PAGE = 50
_LEVELS = {"certain": 2, "at risk": 1}


def damage_first(summaries: list[Summary]) -> list[Summary]:
    """Rows that cannot be inspected first, then invalid ones, then by values missing, risk and row."""

    def key(line: Summary) -> tuple[object, ...]:
        return (
            not line.error,
            line.verdict != "invalid",
            -(line.missing or 0),
            -_LEVELS.get(line.risk or "", 0),
            -(line.expected or 0.0),
            line.row,
        )

    return sorted(summaries, key=key)


def page_of(row: int) -> int:
    """The page, from 0, that holds a row."""
    return row // PAGE


def summarise(entry: Entry, view: View, page: int, rows: int) -> list[Summary]:
    """The rows of a page, worst first, with progress while it takes time."""
    numbers = range(page * PAGE, min(rows, (page + 1) * PAGE))
    bar = st.empty()
    lines = []
    for done, number in enumerate(numbers, 1):
        lines.append(summary(entry, view, number))
        if len(numbers) > 1:
            bar.progress(done / len(numbers), f"Inspecting rows: {done} of {len(numbers)}")
    bar.empty()
    return damage_first(lines)


def pick_page(opened: Opened, row: int | None) -> int:
    """The page of rows to list, with a control where there are several."""
    rows = len(opened.capture)
    if rows <= PAGE:
        return 0
    widget = f"page:{opened.digest}"
    pages = page_of(rows - 1) + 1
    if widget not in st.session_state:
        st.session_state[widget] = page_of(row or 0) + 1
    st.number_input(f"Page of {pages:,}", min_value=1, max_value=pages, key=widget)
    return int(st.session_state[widget]) - 1


def row_list(lines: list[Summary], row: int, rows: int, key: str) -> None:
    """The list; a click on a row turns to it. ``key`` names the list, so that its order stays as the user sorted it."""
    table = pd.DataFrame(
        {
            "row": [line.row for line in lines],
            "verdict": [["error" if line.error else line.verdict or palette.UNKNOWN] for line in lines],
            "risk": [[line.risk or palette.UNKNOWN] for line in lines],
            "lost": pd.array([line.missing for line in lines], dtype="Int64"),
            "length": [line.length for line in lines],
        }
    )
    numbers = [line.row for line in lines]
    chips = st.column_config.MultiselectColumn
    verdicts = {**palette.VERDICTS, "error": palette.INVALID}
    # a click on any cell turns to its row; written back, it shows as the row that is selected
    st.session_state[key] = {"selection": {"rows": [numbers.index(row)] if row in numbers else []}}

    def take() -> None:
        selection = st.session_state[key].selection
        places = [cell[0] for cell in selection.cells] or selection.rows
        if places:
            state.change(row=numbers[places[0]], bin=None)

    st.dataframe(
        table,
        key=key,
        hide_index=True,
        placeholder="–",
        height="content" if len(lines) <= 13 else 440,
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_config={
            "row": st.column_config.NumberColumn(format="localized", width=46),
            "verdict": chips(options=list(verdicts), color=list(verdicts.values()), width=68),
            "risk": chips(options=list(palette.RISKS), color=list(palette.RISKS.values()), width=68),
            "lost": st.column_config.NumberColumn(format="localized", width=58, help="winners that are missing"),
            "length": st.column_config.NumberColumn(format="localized", width=76),
        },
    )
    if rows > len(lines):
        first, last = min(numbers), max(numbers)
        st.caption(f"Rows {count(first)} to {count(last)} of {count(rows)}: only these are inspected.")
