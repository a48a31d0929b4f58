"""The row list: a page of rows with their verdicts and risks, greatest damage first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import streamlit as st

from workbench.figures import palette
from workbench.figures.words import count
from workbench.ui import state
from workbench.ui.loading import Opened, Summary, forget, lines_so_far, summary
from workbench.ui.view import View

PAGE, MOST = 50, 100_000
OFTEN_S = 0.1  # between two times that progress is told
DAMAGE = "damage"
Place = st.delta_generator.DeltaGenerator
_LEVELS = {"certain": 2, "at risk": 1}


def damage(line: Summary) -> tuple[object, ...]:
    """How a line sorts: rows that cannot be inspected, then invalid ones, then by values missing, risk and row."""
    return (
        not line.error,
        line.verdict != "invalid",
        -(line.missing or 0),
        -_LEVELS.get(line.risk or "", 0),
        -(line.expected or 0.0),
        line.row,
    )


def damage_first(summaries: Iterable[Summary]) -> list[Summary]:
    """The greatest damage first."""
    return sorted(summaries, key=damage)


def order_of(known: Mapping[int, Summary], rows: int) -> Sequence[int]:
    """The rows in the order that pages follow: by damage once every row is inspected, by number until then."""
    return [line.row for line in damage_first(known.values())] if len(known) == rows else range(rows)


def fill(file: Opened, view: View, numbers: Sequence[int], bar: Place) -> list[Summary]:
    """The lines of some rows, worst first; those not yet inspected are, with progress in ``bar``."""
    known = lines_so_far(file, view)
    missing = [number for number in numbers if number not in known]
    worst = min((known[number] for number in numbers if number in known), key=damage, default=None)
    next_look = 0.0
    for done, number in enumerate(missing, len(numbers) - len(missing)):
        if (now := time.monotonic()) >= next_look:
            show_progress(bar, done, len(numbers))
            next_look = now + OFTEN_S
        found = summary(file, view, number)
        if worst is None or damage(found) < damage(worst):
            worst = found  # likely to be shown next
        elif number != view.row:
            forget(file, view, number)
    bar.empty()
    return damage_first(known[number] for number in numbers)


def show_progress(bar: Place, done: int, rows: int) -> None:
    """How far a list is; nothing for a single row."""
    if rows > 1:
        bar.progress(done / rows, f"Inspecting rows: {count(done)} of {count(rows)}")


def pick_page(key: str, order: Sequence[int], row: int | None, anew: bool) -> Sequence[int]:
    """The rows of the page to list, with a control where there are several pages.

    Args:
        key: names the list. order: the rows of all pages. row: what the list opens on. anew: turn to its page.
    """
    if len(order) <= PAGE:
        return order
    widget, kept = f"page:{key}", f"page-kept:{key}"
    pages = (len(order) - 1) // PAGE + 1
    if anew or kept not in st.session_state:
        st.session_state[kept] = 1 if row is None else order.index(row) // PAGE + 1

    asked = st.session_state.get(widget)

    def take() -> None:
        wanted = st.session_state[widget]
        if wanted is not None and 1 <= wanted <= pages:
            st.session_state[kept] = int(wanted)
        elif wanted is not None:
            st.session_state["page-problem"] = f"There is no page {wanted:,}: pages go from 1 to {count(pages)}."

    if asked != st.session_state[kept]:
        st.session_state[widget] = st.session_state[kept]
    st.number_input(f"Page of {count(pages)}", step=1, key=widget, on_change=take)
    problem = st.session_state.pop("page-problem", None)
    if problem:
        st.warning(problem)
    first = (st.session_state[kept] - 1) * PAGE
    return order[first : first + PAGE]


def inspect_all(file: Opened, view: View, rows: int, key: str) -> None:
    """A button that inspects every row, for an order by damage over the whole capture.

    What was inspected when it is stopped is kept, so that the next press goes on from there. ``key`` names the list.
    """
    done = len(lines_so_far(file, view))
    if rows <= PAGE or done == rows:
        return
    if rows > MOST:
        st.caption(f"An order by damage over the whole capture is made of up to {count(MOST)} rows.")
        return
    asked = f"all-asked:{key}"
    if not st.session_state.pop(asked, False):
        st.button(
            f"Inspect all {count(rows)} rows",
            key=f"all:{key}",
            width="stretch",
            help=f"then listed by damage over the whole capture; {count(done)} are inspected",
            on_click=lambda: st.session_state.update({asked: True}),
        )
        return
    # Any press of a widget ends this run; this one says so. The key is the other's: it takes its place on the page.
    st.button("Stop", key=f"all:{key}", width="stretch", icon=":material/stop_circle:")
    bar = st.empty()
    fill(file, view, range(rows), bar)
    st.session_state[f"page-kept:{key}:{DAMAGE}"] = 1
    st.rerun()


def row_list(lines: list[Summary], row: int | None, key: str, told: str) -> None:
    """The list; a click on a row turns to it.

    Args:
        lines: of the page. row: what is shown. key: names the list, so that its order stays as the user sorted it.
        told: what the list is of, below it; empty if it holds every row.
    """
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
            "verdict": chips(options=list(verdicts), color=list(verdicts.values()), width=84),
            "risk": chips(options=list(palette.RISKS), color=list(palette.RISKS.values()), width=84),
            "lost": st.column_config.NumberColumn(format="localized", width=50, help="winners that are missing"),
            "length": st.column_config.NumberColumn(format="localized", width=76),
        },
    )
    if told:
        st.caption(told)


def about_page(page: Sequence[int], order: Sequence[int], done: int) -> str:
    """What a page of the list is of, in words; empty where it holds every row."""
    if len(page) == len(order):
        return ""
    if done == len(order):
        return f"All {count(len(order))} rows, the greatest damage first."
    others = f"{count(done)} rows are" if done > len(page) else "only these are"
    return f"Rows {count(page[0])} to {count(page[-1])} of {count(len(order))}: {others} inspected."
