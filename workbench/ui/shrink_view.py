"""Shrinking in the app: a button, progress that can be stopped, and the smallest row."""

from __future__ import annotations

from pathlib import PurePosixPath

import streamlit as st

from workbench.errors import CaptureError
from workbench.figures.tables import shrunk_table
from workbench.figures.words import count, plural
from workbench.runs.case import Case
from workbench.runs.law_words import law_notes
from workbench.runs.sentence import shrunk_sentence
from workbench.runs.shrink import Shrunk
from workbench.ui import inspector, state
from workbench.ui.background import show_background
from workbench.ui.common import error_box
from workbench.ui.library import local
from workbench.ui.loading import Opened
from workbench.ui.presses import drop_press, is_pressed, press
from workbench.ui.rowpage import Shown
from workbench.ui.work import LIMIT, Work, work

PRESSED = "shrink"  # names the press of Shrink and of Go on


def show_shrink(shown: Shown, path: str, variant: str) -> tuple[Shrunk, Case] | None:
    """Shrink the row on a path where asked to; gives the smallest row so far, where there is one that is smaller."""
    st.markdown("##### Shrink")
    file, found, number, key = shown.file, shown.seen, shown.number, f"{shown.key}:{path}:{variant}"
    row = work(file, state.current(), number, path, variant)
    if is_pressed(PRESSED, shown):
        row.start(found, state.current(), path, variant)
        drop_press(PRESSED)
    if row.going.busy:
        show_background(file, row.going, f"shrink:{key}")
        return None
    if not row.begun:
        st.caption("Finds the smallest row with the same fault: fewer scores, a smaller k, simpler values.")
        _button("Shrink", row, shown)
        return None
    shrunk, case = row.so_far()
    st.markdown(state.plain(shrunk_sentence(shrunk, f"row {count(number)}")))
    for note in shrunk.notes:
        st.caption(state.plain(f"Note: {note}."))
    if shrunk.fault is None:
        return None
    if not shrunk.is_minimum:
        _button("Go on", row, shown)
    if not shrunk.kept:
        return None
    left, right = st.columns([3, 2])
    right_text = st.column_config.TextColumn(alignment="right")
    left.dataframe(
        shrunk_table(shrunk),
        hide_index=True,
        height="content",
        column_config={"before": right_text, "after": right_text},
    )
    for note in law_notes([(shrunk.path, shrunk.after.risk.level, shrunk.after.risk.clean_at_most)]):
        st.caption(state.plain(f"{note}."))
    with right:
        _take_away(file, row, shrunk, number, key)
    return shrunk, case


def is_shrinking(shown: Shown, path: str, variant: str) -> bool:
    """Whether the row is being shrunk just now, for whichever session."""
    return work(shown.file, state.current(), shown.number, path, variant).going.busy


def _button(title: str, row: Work, shown: Shown) -> None:
    """One button for whatever path and variant are chosen: a press goes to what the page shows next."""
    st.button(
        title,
        key=f"shrink:{shown.key}",
        icon=":material/compress:",
        help=f"stops after {LIMIT:.0f} seconds, with the smallest row so far",
        on_click=lambda: press(PRESSED, shown),
    )
    if (problem := row.going.problem()) is not None:
        error_box(local(problem, shown.file.entry) if isinstance(problem, CaptureError) else problem)


def _take_away(file: Opened, row: Work, shrunk: Shrunk, number: int, key: str) -> None:
    """What can be done with the smallest row."""
    stem = PurePosixPath(file.entry.key).name.removesuffix(".safetensors")
    name = f"{stem}-row{number}-{shrunk.path}-shrunk.safetensors"
    how = "a local minimum" if shrunk.is_minimum else "stopped before the end"
    st.caption(f"{plural(shrunk.tried, 'candidate')} tried, {count(shrunk.kept)} kept: {how}.")
    key = f"{key}:{shrunk.tried}"
    if st.button("Inspect the shrunk row", key=f"open:{key}", icon=":material/search:"):
        try:
            state.open_capture(state.uploads().add(name, row.content()).key)
        except CaptureError as error:
            error_box(error)
        else:
            state.settle(path=shrunk.path, view=None)
            st.switch_page(inspector.page(), query_params=state.current().to_params())
    st.download_button(
        "Download as a capture",
        row.content,
        file_name=name,
        mime="application/octet-stream",
        key=f"capture:{key}",
        on_click="ignore",
        icon=":material/download:",
    )
