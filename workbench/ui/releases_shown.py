"""A matrix row × release as the app shows it: one sentence, the picture, one cell in full, and the numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from workbench.errors import CaptureError
from workbench.figures import palette
from workbench.figures.releases import MOST_ROWS, cell_at, is_numbered, places_shown, releases_figure
from workbench.figures.words import count, plural, probability, value
from workbench.paths.ops import OPS
from workbench.runs.matrix import Cell, Matrix, MatrixRow
from workbench.runs.matrix_words import cell_sentence, cell_text, clean_notes, matrix_sentence, row_sentence
from workbench.ui import downloads, inspector, state
from workbench.ui.common import callout, device_missing, figures_row, picture
from workbench.ui.library import Entry, same_name
from workbench.ui.loading import input_digest, opened
from workbench.ui.releases_view import RELEASED
from workbench.ui.view import View, brief

_SHOWN = 200  # rows of the table


def show_matrix(matrix: Matrix, key: str, captures: dict[str, Entry], told: str, controls: bool = True) -> None:
    """A matrix, and the cell of it that is chosen.

    Args:
        key: names what is shown. captures: on offer, by their keys. told: where the matrix is from.
        controls: whether the circumstances are chosen above; those of a saved matrix are not.
    """
    if not matrix.rows or not matrix.releases:
        st.info("The matrix is empty: it has no row or no release.")
        return
    cure = device_missing(cell for cells in matrix.cells for cell in cells) if controls else ""
    callout(matrix_sentence(matrix) + cure, _colour(matrix))
    machine = [f"{name} {text}" for name, text in matrix.about.items() if name not in matrix.releases]
    st.caption(state.plain("; ".join([told, *machine]) + "."))
    for note in matrix.notes:
        st.caption(state.plain(f"{note[:1].upper()}{note[1:]}."))
    chosen = _chosen(matrix)
    _chart(matrix, chosen, key)
    _cell(matrix, chosen, captures)
    _table(matrix, chosen, key)


def _colour(matrix: Matrix) -> str:
    states = {cell.state for cells in matrix.cells for cell in cells}
    grave = next((name for name in palette.STANDING_TEXTS if name in states), "unknown")
    return palette.STANDING_TEXTS[grave]


def _chosen(matrix: Matrix) -> tuple[int, int]:
    """The cell that is shown in full, as places: the one chosen, else the newest of the worst row that loses, else its
    newest."""
    view = RELEASED.current()
    row = matrix.worst_first[0]
    if view.row is not None and view.row < len(matrix.rows):
        row = view.row
    elif view.row is not None:
        RELEASED.note(f"The link names row {count(view.row)} of the matrix; it has {count(len(matrix.rows))}, from 0.")
        view = RELEASED.settle(row=None, at=None)
    if view.at is not None and view.at in matrix.releases:
        return row, matrix.releases.index(view.at)
    if view.at is not None:
        RELEASED.note(f"The link names {brief(view.at)}, which this matrix does not have.")
        RELEASED.settle(at=None)
    losing = [at for at, cell in enumerate(matrix.cells[row]) if cell.loses]
    return row, losing[-1] if losing else len(matrix.releases) - 1


def _take(matrix: Matrix, place: tuple[int, int]) -> None:
    RELEASED.change(row=place[0], at=matrix.releases[place[1]])


def _chart(matrix: Matrix, chosen: tuple[int, int], key: str) -> None:
    chart = f"releases:{key}:{chosen}"

    def take() -> None:
        clicked = st.session_state[chart].selection.points
        place = cell_at(matrix, float(clicked[0]["x"]), float(clicked[0]["y"])) if clicked else None
        if place is not None:
            _take(matrix, place)

    saved = downloads.file_name(matrix.rows[0].capture, "releases")
    picture(
        releases_figure(matrix, chosen),
        key=chart,
        config=downloads.picture(saved),
        on_select=take,
        selection_mode="points",
    )
    rows, releases = places_shown(matrix)
    said = []
    if len(rows) < len(matrix.rows):
        said.append(f"the worst {MOST_ROWS} of {count(len(matrix.rows))} rows are drawn")
    if len(releases) < len(matrix.releases):
        said.append(f"the newest {len(releases)} of {len(matrix.releases)} releases are drawn")
    if is_numbered(matrix) and any(cell.missing_mean for cells in matrix.cells for cell in cells):
        said.append("numbers: values missing a call, on average")
    text = "; ".join(said)
    beside = f"{text[:1].upper()}{text[1:]}." if said else ""
    downloads.offer(saved, chart, {"Cells": matrix.to_pandas}, beside=beside)


def _cell(matrix: Matrix, chosen: tuple[int, int], captures: dict[str, Entry]) -> None:
    """The numbers of one cell, and the way to its row."""
    row, cell = matrix.rows[chosen[0]], matrix.cells[chosen[0]][chosen[1]]
    of = max(0, min(row.k, row.length))
    name = matrix.row_name(chosen[0])
    st.markdown(f"##### {state.plain(f'{name[:1].upper()}{name[1:]} in {cell.release}')}: {cell.state}")
    st.markdown(state.plain(cell_sentence(cell, of)))
    if len(matrix.rows) > 1:
        st.markdown(state.plain(row_sentence(matrix, chosen[0])))
    least, most = cell.missing_least, cell.missing_most
    span = "–" if least is None or most is None else count(most) if least == most else f"{count(least)} – {count(most)}"
    clean = probability(cell.p_clean, possible=cell.risk == "at risk")
    figures_row(
        [
            ("Verdict", cell.verdict or "–", "of the worst call"),
            ("Calls that lost", f"{count(cell.lost_calls)} of {count(cell.calls)}" if cell.calls else "–", ""),
            ("Missing a call", span, f"values of the exact top {count(of)} that a call lacks"),
            ("On average", "–" if cell.missing_mean is None else value(cell.missing_mean, 4), "over the calls"),
            ("Calls agree", cell.repeatability or "–", "what varies from call to call"),
            ("Risk", cell.risk or "–", "over every arrival order, by the analysis"),
            ("p clean", clean, "that a random arrival order loses nothing"),
        ]
    )
    for note in (*clean_notes(cell), *cell.notes):
        st.caption(state.plain(f"{note[:1].upper()}{note[1:]}."))
    _link(row, cell, captures)


def _link(row: MatrixRow, cell: Cell, captures: dict[str, Entry]) -> None:
    """The row in the inspector, in the cell's circumstances, where its capture is on offer."""
    view = RELEASED.current()
    entries = [captures[view.source]] if view.source in captures else same_name(captures.values(), row.capture)
    for entry in entries:
        try:
            found = opened(entry, View(capture=entry.key))
            if row.row >= len(found.capture) or input_digest(found, row.row) != row.digest:
                continue
        except CaptureError:
            continue
        params = {"capture": entry.key, "digest": found.digest, "row": f"{row.row}", "k": f"{row.k}"}
        known = {"op": cell.op, "release": _known(cell.release), "device": view.device}
        if cell.path is not None:
            known["path"] = cell.path
        st.page_link(
            inspector.page(),
            label=state.plain(f"Inspect row {count(row.row)} of {brief(entry.key, 80)} in {cell.release}"),
            icon=":material/search:",
            query_params=params | {name: text for name, text in known.items() if text is not None},
        )
        return
    st.caption(
        state.plain(f"Row {count(row.row)} of {brief(row.capture, 120)} is not on offer here with these scores.")
    )


def _known(release: str) -> str | None:
    """A release that the inspector can route."""
    return release if any(release in op.package_releases for op in OPS) else None


def _table(matrix: Matrix, chosen: tuple[int, int], key: str) -> None:
    """Every row with what each release makes of it; a click on a cell shows it in full."""
    order = matrix.worst_first[:_SHOWN]
    shown = f", the worst {_SHOWN} of them" if len(order) < len(matrix.rows) else ""
    st.markdown(f"**{plural(len(matrix.rows), 'row')}**{shown}: verdict of the worst call, and values missing a call")
    columns: dict[str, Any] = {
        "row": [matrix.row_name(at).removeprefix("row ") for at in order],
        "length": [matrix.rows[at].length for at in order],
    }
    several = len(matrix.of_package()) > 1
    names = [release if several else release.partition("==")[2] for release in matrix.releases]
    for place, name in enumerate(names):
        columns[name] = [cell_text(matrix.cells[at][place]) for at in order]
    table = f"matrix:{key}"
    st.session_state[table] = {"selection": {"rows": [order.index(chosen[0])] if chosen[0] in order else []}}

    def take() -> None:
        selection = st.session_state[table].selection
        if selection.cells:
            at, name = selection.cells[0]
            place = (order[at], names.index(name) if name in names else chosen[1])
            _take(matrix, place)
        elif selection.rows and order[selection.rows[0]] != chosen[0]:  # the row that is shown is marked, not clicked
            _take(matrix, (order[selection.rows[0]], chosen[1]))

    st.dataframe(
        pd.DataFrame(columns),
        key=table,
        hide_index=True,
        height="content" if len(order) <= 13 else 480,
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_config={
            "row": st.column_config.TextColumn(width=160 if " of " in matrix.row_name(0) else 46, pinned=True),
            "length": st.column_config.NumberColumn(format="localized", width=64, pinned=True),
            **{name: st.column_config.TextColumn(width=74) for name in names},
        },
    )
