"""The page that compares paths: one row on all of them, by their variants, by engines, or by releases."""

from __future__ import annotations

import streamlit as st

from workbench.figures import palette
from workbench.figures.compare import EXPECTED, compared_figure, is_numbered, least_width, number_text, place_at
from workbench.figures.words import count, plural
from workbench.runs.compare import AXES, SYSTEMS, Compared, Place, cells_to_run
from workbench.runs.compare_words import compared_sentence
from workbench.runs.matrix import Cell
from workbench.runs.run import STOCK
from workbench.ui import downloads
from workbench.ui.common import callout, device_missing, no_narrower, picture
from workbench.ui.compare_made import CALLS, call_models, compared, made
from workbench.ui.compare_shown import show_cell, show_table
from workbench.ui.compare_view import COMPARE
from workbench.ui.rowpage import Shown, row_fragment, show_row_page
from workbench.ui.state import plain
from workbench.ui.view import brief

_ALL = "all"
_ASKED = "compare-asked"  # the picture whose models are called
_SYSTEM = 130  # pixels of the choice of paths
_SLICE = 1.0  # seconds of calls between two looks at the page


def page() -> st.Page:
    """The page, for navigation and for links to it."""
    return st.Page(compare_page, title="Compare", url_path="compare")


def compare_page() -> None:
    """One row on all paths."""
    show_row_page(COMPARE, _show)


@row_fragment
def _show(shown: Shown) -> None:
    """The page below the row's circumstances; a change in it runs nothing else."""
    said = st.container()
    bar = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with bar:
        axis, system, losing = _controls()
    key = f"{axis}:{system}:{losing}:{shown.key}"
    whole, absent = compared(shown, axis)
    of_system = whole.only(system)
    found = of_system.only(losing=losing)
    with said:
        _say(of_system, system)
    if not found.lines:
        st.info(_nothing(of_system))
    else:
        todo = _call(shown, found, key, bar)
        chosen = _chosen(shown, whole, found)
        _chart(shown, found, chosen, absent, key)
        show_cell(shown, found, chosen, key)
        show_table(found, chosen, key)
        if todo:
            COMPARE.write_url()
            call_models(made(shown), shown.seen.case, todo, _SLICE)
            st.rerun()
    COMPARE.write_url()


def _say(found: Compared, system: str | None) -> None:
    if not found.cells:
        return
    states = {cell.state for cell in found.cells.values()}
    grave = next((name for name in palette.STANDING_TEXTS if name in states), "unknown")
    what = "ops" if found.axis == "releases" else "paths"
    who = what if system is None else f"{system} {what}" if system != "baselines" else "baselines"
    cure = device_missing(found.cells.values()) if found.axis == "releases" else ""
    callout(compared_sentence(found, who) + cure, palette.STANDING_TEXTS[grave])


def _nothing(found: Compared) -> str:
    """Why the picture is empty. ``found``: what it is without those left out that do not lose."""
    if found.lines:
        return "The row loses nothing on any of them: turn off “Only those that lose” to see all."
    return "Of this system nothing is compared by releases: choose another."


def _controls() -> tuple[str, str | None, bool]:
    """Columns, the system whose paths are shown, and whether only those that lose are."""
    view = COMPARE.current()
    st.session_state["compare-axis"] = view.axis or AXES[0]
    st.segmented_control(
        "Columns",
        AXES,
        key="compare-axis",
        format_func=str.capitalize,
        on_change=lambda: COMPARE.change(axis=st.session_state["compare-axis"], at=None),
        required=True,
        wrap=False,
        width="content",
    )
    st.session_state["compare-system"] = view.system or _ALL
    st.selectbox(
        "Paths of",
        [_ALL, *SYSTEMS],
        key="compare-system",
        on_change=COMPARE.bound("system", "compare-system", lambda chosen: None if chosen == _ALL else chosen),
        width=_SYSTEM,
    )
    st.session_state["compare-losing"] = bool(view.losing)
    st.toggle(
        "Only those that lose",
        key="compare-losing",
        on_change=COMPARE.bound("losing", "compare-losing", lambda chosen: chosen or None),
        help="paths on which the row loses winners or can lose some in a column that is shown",
    )
    return view.axis or AXES[0], view.system, bool(view.losing)


def _call(shown: Shown, found: Compared, key: str, bar: st.delta_generator.DeltaGenerator) -> list[Cell]:
    """A button at the end of the controls that calls the models of what is shown, a few at a time, so that the picture
    grows and a press of another widget is heard; what was called is kept.

    Returns:
        The cells to call now; empty where none were asked for.
    """
    ran = made(shown).ran
    todo, every = cells_to_run(found, ran), cells_to_run(found, {})
    if todo and st.session_state.get(_ASKED) == key:
        bar.button(
            "Stop",
            key=f"stop:{key}",
            icon=":material/stop_circle:",
            on_click=lambda: st.session_state.pop(_ASKED, None),
        )
        done = len(every) - len(todo)
        st.progress(done / len(every), f"Calling models: {count(done)} of {count(len(every))}, {todo[0].path}")
        return todo
    st.session_state.pop(_ASKED, None)
    if todo:
        bar.button(
            f"Call {plural(len(todo), 'model')}, {CALLS} times each",
            key=f"call:{key}",
            icon=":material/play_arrow:",
            help="under random arrival orders, seeds 0 to 9; until then the picture shows what the analysis says of "
            "every arrival order",
            on_click=lambda: st.session_state.update({_ASKED: key}),
        )
    return []


def _chosen(shown: Shown, whole: Compared, found: Compared) -> Place:
    """The cell that is shown in full: the one chosen, else of its line, or the first one, that of ``stock`` or of the
    row's release, else one that loses."""
    view = COMPARE.current()
    place = (view.on or "", view.at or "")
    if place in found.cells:
        return place
    if view.at is not None and place not in whole.cells:
        COMPARE.note(f"The link's cell, {brief(view.on or 'no path')} in {brief(view.at)}, is not in this picture.")
        COMPARE.settle(at=None)
    line = view.on if view.on in found.lines and view.on is not None else found.lines[0]
    cells = found.at(line)
    own = shown.seen.case.release if found.axis == "releases" else STOCK
    if own in cells:
        return line, own
    return line, next((column for column, cell in cells.items() if cell.loses), next(iter(cells)))


def _chart(shown: Shown, found: Compared, chosen: Place, absent: list[str], key: str) -> None:
    chart = f"compare:{key}:{chosen}"

    def take() -> None:
        clicked = st.session_state[chart].selection.points
        place = place_at(found, float(clicked[0]["x"]), float(clicked[0]["y"])) if clicked else None
        if place is not None:
            COMPARE.change(on=place[0], at=place[1])

    saved = downloads.file_name(shown.file.entry.key, f"row{shown.number}", "by", found.axis)
    with no_narrower("compared-picture", least_width(found)):
        picture(
            compared_figure(found, chosen),
            key=chart,
            config=downloads.picture(saved),
            on_select=take,
            selection_mode="points",
        )
    mark = "the op of the row" if found.axis == "releases" else "the path that the op takes"
    said = [f"▸: {mark}"] if found.reached in found.lines else []
    if is_numbered(found):
        numbers = [number_text(cell) for cell in found.cells.values()]
        if any(text and not text.startswith(EXPECTED) for text in numbers):
            said.append("numbers: values missing a call, on average")
        if any(text.startswith(EXPECTED) for text in numbers):
            said.append(f"{EXPECTED}: values that a random arrival order loses, on average")
    said.append("click a mark to see it below")
    text = "; ".join(said)
    beside = f"{text[:1].upper()}{text[1:]}."
    downloads.offer(saved, f"compare:{key}", {"Cells": found.to_pandas}, beside=beside)
    for reason in absent:
        st.caption(plain(f"No column for {reason}."))
