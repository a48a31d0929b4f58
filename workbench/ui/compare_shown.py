"""One cell of compared paths in full, and all of them as a table."""

from __future__ import annotations

import streamlit as st

from workbench.figures.compare import shown_texts, span_text
from workbench.figures.words import count, plural, probability
from workbench.paths.catalog import get_path
from workbench.runs.compare import NOT_CALLED, Compared, Place
from workbench.runs.compare_words import spot_sentence
from workbench.runs.matrix import Cell
from workbench.runs.run import STOCK
from workbench.ui import inspector, state
from workbench.ui.common import figures_row
from workbench.ui.compare_view import COMPARE
from workbench.ui.engines import answer
from workbench.ui.rowpage import Shown, row_link
from workbench.ui.view import CUDA, MODEL, VENDOR


def show_cell(shown: Shown, found: Compared, place: Place, key: str) -> None:
    """The numbers of one cell, why it is refused where it is, and the way to its row."""
    cell = found.cells[place]
    title = f"{cell.path} ({cell.variant})" if cell.path and cell.variant else place[0]
    if found.axis == "releases":
        title = f"{place[0]} of {place[1]}"
    elif found.axis == "engines":
        title = f"{title} · {place[1]}"
    st.markdown(f"##### {state.plain(title)}: {cell.state}")
    if cell.unknown == NOT_CALLED and cell.engine in (CUDA, VENDOR):
        path = cell.path if cell.engine == CUDA else None
        named = f"compare:{place}:{key}"
        if answer(shown.file, shown.seen, shown.number, cell.engine, path, named) is not None:
            st.rerun()  # what stands above it tells of the calls as well
        return
    reasons = cell.refused.split("; ") if cell.refused and not cell.fault else []
    if reasons:
        who = title if found.axis == "releases" else cell.engine if cell.engine != MODEL else cell.path
        told = [
            f"{state.plain(who or place[0])} does not take the row:",
            "",
            *(f"- {state.plain(one)}" for one in reasons),
        ]
        st.markdown("\n".join(told))
    else:
        st.markdown(state.plain(spot_sentence(found, place)))
    _figures(shown, found, cell)
    for note in _notes(cell):
        st.caption(state.plain(f"{note[:1].upper()}{note[1:]}{'' if note.endswith('.') else '.'}"))
    if cell.path is not None:
        fields: dict[str, object] = {"path": cell.path}
        fields |= {"variant": cell.variant} if cell.variant != STOCK else {}
        fields |= {"op": place[0], "release": place[1]} if found.axis == "releases" else {}
        fields |= {"engine": cell.engine, "view": "diff"} if found.axis == "engines" else {}
        as_sent = f", as {title} sends it" if found.axis == "releases" else ""
        label = f"Inspect row {count(shown.number)} on {cell.path}{as_sent}"
        row_link(inspector.page(), label, ":material/search:", **fields)


def _figures(shown: Shown, found: Compared, cell: Cell) -> None:
    risk = None
    if cell.path is not None and cell.variant is not None:
        path = get_path(cell.path)
        risk = shown.seen.case.risk(path, path.variant(cell.variant))
    level = risk.told if risk is not None and risk.observed else cell.risk or "–"
    clean = probability(cell.p_clean, possible=cell.risk == "at risk")
    of_calls = [
        ("Verdict", cell.verdict or "–", "of the worst call"),
        ("Calls that lost", f"{count(cell.lost_calls)} of {count(cell.calls)}", ""),
        ("Missing a call", span_text(cell), f"values of the exact top {count(found.of)} that a call lacks"),
    ]
    figures_row(
        [
            *(of_calls if cell.calls else []),
            ("Risk", level, "over every arrival order, by the analysis"),
            ("p clean", clean, "that a random arrival order loses nothing"),
            ("Population", count(risk.population if risk else None), "scores in the threshold bin"),
            ("Capacity", count(risk.room if risk else None), "how many of this bin the buffer takes"),
        ]
    )


def _notes(cell: Cell) -> list[str]:
    """What must be known of a cell besides what is said already, and what its variant is."""
    notes = [note for note in cell.notes if note not in cell.why]
    if cell.p_pass is None and cell.p_clean is not None:
        notes.append("in the threshold bin scores follow their position, so p clean does not describe real arrival")
    if cell.path is not None and cell.variant is not None:
        variant = get_path(cell.path).variant(cell.variant)
        modelled = "" if variant.modelled else "; not modelled"
        notes.append(f"variant {cell.variant}: {variant.note.removesuffix('.')} ({variant.evidence.value}{modelled})")
    return notes


def show_table(found: Compared, chosen: Place, key: str) -> None:
    """Every cell with its numbers, those of calls where some were made; a click on one shows it in full."""
    places, table = found.places(), found.to_pandas()
    for name, texts in zip(
        ("missing", "p_clean", "expected_missing"),
        zip(*(shown_texts(found.cells[place]) for place in places), strict=True),
        strict=True,
    ):
        table[name] = texts
    widget = f"compared:{key}"
    st.session_state[widget] = {"selection": {"rows": [places.index(chosen)] if chosen in places else []}}

    def take() -> None:
        selection = st.session_state[widget].selection
        at = [cell[0] for cell in selection.cells] or selection.rows
        if at and places[at[0]] != chosen:  # the browser may tell of the line that was marked for it: no choice
            COMPARE.change(on=places[at[0]][0], at=places[at[0]][1])

    st.markdown(f"**{plural(len(places), 'cell')}** — a click on one shows it above, with its reasons in full")
    text = st.column_config.TextColumn
    by_calls = ("verdict", "missing") if any(cell.calls for cell in found.cells.values()) else ()
    more = {"variants": {}, "engines": {"engine": 80}, "releases": {"op": 190, "release": 110}}[found.axis]
    st.dataframe(
        table,
        key=widget,
        hide_index=True,
        placeholder="–",
        height="content" if len(places) <= 13 else 480,
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_order=[*more, "path", "variant", "state", *by_calls, "p_clean", "expected_missing", "why"],
        column_config={
            **{name: text(width=width) for name, width in more.items()},
            "path": text(width=146),
            "variant": text(width=136),
            "state": text(width=66),
            "verdict": text(width=56),
            "missing": text(width=62, alignment="right", help="values missing a call, on average"),
            "p_clean": text("p clean", width=64, alignment="right"),
            "expected_missing": text("mean lost", width=72, alignment="right", help="by a random arrival order"),
            "why": text(width=420),
        },
    )
