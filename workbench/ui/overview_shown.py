"""What was found in many captures: one sentence, pictures, the worst rows and ways to inspect them, and the tables.

The same for an audit and for a scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from workbench.audit.summary import Summary
from workbench.audit.tables import (
    GROUPED,
    errors_table,
    files_table,
    group_table,
    missing_text,
    path_text,
    paths_table,
    shares_table,
    worst_table,
)
from workbench.audit.words import about_words, audit_sentence, fault_words, line_state
from workbench.errors import WorkbenchError
from workbench.figures.audit import captions, grid_figure, paths_figure, paths_shown
from workbench.figures.audit_page import audit_colour, cell_text
from workbench.figures.words import count
from workbench.paths.catalog import PATHS
from workbench.paths.ops import OPS
from workbench.runs.law_words import law_sentence
from workbench.ui import downloads, inspector, state
from workbench.ui.common import callout, figures_row, picture
from workbench.ui.library import Entry, same_name
from workbench.ui.loading import input_digest, library, opened
from workbench.ui.overview_tables import chips, column_config, file_stem, frame, offer_tables, show_table
from workbench.ui.overview_view import OVERVIEW
from workbench.ui.view import View, brief

_TENSORS = ("scores", "lengths", "starts", "indices")


def show_found(found: Summary, key: str) -> None:
    """All of it. ``key`` names what is shown."""
    callout(audit_sentence(found), audit_colour(found))
    if fault := fault_words(found):
        st.warning(state.plain(f"{fault[:1].upper()}{fault[1:]}: see the end of this page."), icon=":material/warning:")
    st.caption(state.plain(f"{about_words(found)}."))
    _pictures(found, key)
    offer_tables(found, key)
    if found.worst:
        _worst(found, key)
    _groups(found)
    _rest(found)


def _pictures(found: Summary, key: str) -> None:
    grid, paths = grid_figure(found), paths_shown(found)
    about_paths, about_grid = captions(found)
    saved = file_stem(found)
    places = st.columns([1, 1]) if paths and grid is not None else [st.container(), st.container()]
    if paths:
        with places[0]:
            st.markdown("**Bad rows by path**")
            picture(paths_figure(found), key=f"paths:{key}", config=downloads.picture(f"{saved}-paths"))
            st.caption(state.plain(about_paths))
    if grid is not None:
        with places[1]:
            st.markdown("**Bad rows by layer and step**")
            picture(grid, key=f"grid:{key}", config=downloads.picture(f"{saved}-layers"))
            st.caption(state.plain(about_grid))


def _worst(found: Summary, key: str) -> None:
    """The worst rows; one of them in full, with the way to inspect it."""
    at = _chosen(found)
    table = worst_table(found)
    st.markdown(f"**{state.plain(table.title)}**: click one to see it below")
    widget = f"worst:{key}"
    st.session_state[widget] = {"selection": {"rows": [at]}}

    def take() -> None:
        selection = st.session_state[widget].selection
        places = [cell[0] for cell in selection.cells] or selection.rows
        if places:
            line = found.worst[places[0]]
            OVERVIEW.change(file=line["file"], row=line["row"])

    st.dataframe(
        chips(frame(table), "finding"),
        key=widget,
        hide_index=True,
        height="content" if len(table.rows) <= 10 else 388,
        placeholder="–",
        on_select=take,
        selection_mode=["single-row", "single-cell"],
        column_config=column_config(table, "finding"),
    )
    _row(found, found.worst[at])


def _chosen(found: Summary) -> int:
    """Which of the worst rows is shown in full: the one chosen, else the first."""
    view = OVERVIEW.current()
    for at, line in enumerate(found.worst):
        if (line["file"], line["row"]) == (view.file, view.row):
            return at
    if (view.file is not None or view.row is not None) and not found.unfinished:  # else it may still come
        name = f"row {view.row} of {brief(view.file or '')}"
        OVERVIEW.note(f"The link names {name}, which is not among the {count(len(found.worst))} worst rows here.")
        OVERVIEW.settle(file=None, row=None)
    return 0


def _row(found: Summary, line: Mapping[str, Any]) -> None:
    """One line of the records in numbers."""
    where = f"Row {count(line['row'])} of {brief(line['file'], 100)}"
    st.markdown(f"##### {state.plain(where)}: {line_state(line)}")
    missing = missing_text(line)
    numbers = [
        ("Path", path_text(line) or "unknown", "that the finding is of"),
        ("Missing", cell_text("missing", missing), "winners: counted in a recorded selection, else ~ on average"),
        ("p clean", cell_text("p_clean", line["p_clean"]), "that a random arrival order loses nothing"),
        ("Population", count(line["population"]), "scores in the threshold bin"),
        ("Capacity", count(line["capacity"]), "scores that the buffer holds"),
        ("k of length", f"{count(line['k'])} of {count(line['length'])}", "winners wanted, and valid scores"),
    ]
    known = [number for number in numbers if number[1] != "–"]
    figures_row(known, [2.2, *[1] * (len(known) - 2), 1.6, *[1] * (len(numbers) - len(known))])
    if law := law_sentence(line["path"], line["risk"]):
        st.caption(state.plain(law))
    if line["finding"]:
        st.markdown(state.plain(f"The selector {line['finding']}."))
    _link(found, line)


def _link(found: Summary, line: Mapping[str, Any]) -> None:
    """The row in the inspector, where its file is on offer and still holds it."""
    entries = library().entries
    here = [one for one in entries if _is_at(one, found.folder, line["file"])]
    for entry in here or same_name(entries, line["file"]):
        params = _params(found, line)
        names = View(scores=params.get("scores"), lengths=params.get("lengths"), starts=params.get("starts"))
        names = replace(names, indices=params.get("indices"))
        try:
            held = opened(entry, names)
            if line["row"] >= len(held.capture) or input_digest(held, line["row"]) != line["scores"]:
                continue
        except WorkbenchError:
            continue
        st.page_link(
            inspector.page(),
            label=state.plain(f"Inspect row {count(line['row'])} of {brief(entry.key, 80)}"),
            icon=":material/search:",
            query_params={"capture": entry.key, "digest": held.digest, **params},
        )
        return
    what = "holds other scores now" if here else "is not on offer here"
    st.caption(
        state.plain(
            f"{brief(line['file'], 120)} {what}. To inspect its rows, start the app with the audited folder too: "
        )
        + f"`workbench app {'OUT ' if found.kind == 'audit' else ''}{_code(found.folder)}`"
    )


def _code(text: str) -> str:
    return brief(text, 200).replace("`", "'")


def _is_at(entry: Entry, folder: str, file: str) -> bool:
    try:
        return entry.path.resolve() == Path(folder, file).resolve()
    except (OSError, ValueError):
        return False


def _params(found: Summary, line: Mapping[str, Any]) -> dict[str, str]:
    """The circumstances of a line, as the inspector's link takes them."""
    asked = found.about["asked"]
    said = {"row": line["row"], "k": line["k"], "device": line["device"], **{one: asked.get(one) for one in _TENSORS}}
    known = [op for op in OPS if op.name == line["op"]]
    said |= {"op": line["op"]} if known else {}
    said |= {"release": line["release"]} if any(line["release"] in op.package_releases for op in OPS) else {}
    said |= {"path": line["path"]} if any(path.name == line["path"] for path in PATHS) else {}
    said |= {"view": "diff", "engine": "recorded"} if line["engine"] == "recorded" else {}
    return {name: str(value) for name, value in said.items() if value is not None}


def _groups(found: Summary) -> None:
    """Paths and groups, a tab each."""
    shown = {"path": paths_table(found), **{name: group_table(name, found) for name in GROUPED}}
    shown = {name: table for name, table in shown.items() if table.rows}
    if not shown:
        return
    for tab, table in zip(st.tabs([f"By {name}" for name in shown]), shown.values(), strict=True):
        with tab:
            show_table(table)


def _rest(found: Summary) -> None:
    for table in (shares_table(found), files_table(found), errors_table(found)):
        if table.rows:
            st.markdown(f"**{state.plain(table.title)}**")
            show_table(table)
