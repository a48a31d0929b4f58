"""What pages that concern one row share: its choice in the sidebar, its circumstances, and the row, inspected.

The row is the same on all of them: each page's URL carries it (``state.beside_row``), so that turning to another page
keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any

import streamlit as st
import torch

from workbench.errors import WorkbenchError
from workbench.figures.words import count, plural
from workbench.runs.inspect import Inspection
from workbench.ui import state
from workbench.ui.carried import Carried
from workbench.ui.common import error_box
from workbench.ui.controls import pick_circumstances
from workbench.ui.library import Entry
from workbench.ui.loading import Opened, inspected, lines_so_far, opened
from workbench.ui.picker import check_digest, pick_capture, pick_tensors
from workbench.ui.rows import (
    DAMAGE,
    Place,
    about_page,
    damage_first,
    fill,
    inspect_all,
    order_of,
    pick_page,
    row_list,
    show_progress,
)
from workbench.ui.steps import about_steps, step_buttons, take_step
from workbench.ui.view import ROW, brief
from workbench.ui.watching import part, watched_page


@dataclass(frozen=True)
class Shown:
    """The row that a page shows.

    Attributes:
        file: its capture, open. number: of the row in it. seen: the row, inspected in the circumstances that are
            chosen.
        key: names all of this, for widgets that are of this row alone.
    """

    file: Opened
    number: int
    seen: Inspection
    key: str


@dataclass(frozen=True)
class _Page:
    """A page while it is drawn. ``turned``: whether a link or a step of the browser brought what it shows."""

    url: Carried[Any]
    show: Callable[[Shown], None]
    turned: bool


def show_row_page(url: Carried[Any], show: Callable[[Shown], None]) -> None:
    """A page that concerns one row.

    Args:
        url: what the page's URL carries: ``state.VIEW``, or a value made by ``state.beside_row``.
        show: draws the page's own part, below the row's name and circumstances; not called where there is no row, or
            none that can be inspected, which is said instead.
    """
    torch.set_num_threads(1)  # as on the command line: on single rows threads spend more time meeting than working
    with watched_page():
        _row_page(url, show)


def _row_page(url: Carried[Any], show: Callable[[Shown], None]) -> None:
    page = _Page(url, show, url.follow_url())
    with st.sidebar:
        entry = pick_capture()
        list_slot = st.container()
    notices = st.empty()
    _open(page, entry, list_slot)
    url.write_url()
    if url.notices():
        notices.warning("\n\n".join(state.plain(text) for text in url.notices()), icon=":material/link:")


def row_part(file: Opened, draw: Callable[[], None]) -> None:
    """Draw a part of a page as a fragment: a change in it runs nothing else, unless the file was changed since the page
    was drawn; the whole page runs then, and opens it anew.

    Args:
        file: what the part is of. draw: draws it.
    """
    part(draw, lambda: not file.capture.is_unchanged())


def row_fragment(draw: Callable[[Shown], None]) -> Callable[[Shown], None]:
    """What draws a row, as a fragment: see ``row_part``."""
    return wraps(draw)(lambda shown: row_part(shown.file, partial(draw, shown)))


def row_link(page: st.Page, label: str, icon: str | None = None, **fields: object) -> None:
    """A link to another page on the row that is shown. ``fields``: parameters that it has besides or instead; those
    that are ``None`` are left out."""
    carried = {name: value for name, value in state.current().to_params().items() if name in ROW}
    wanted = {**carried, **fields}
    params = {name: str(value) for name, value in wanted.items() if value is not None}
    st.page_link(page, label=state.plain(label), icon=icon, query_params=params)


def _open(page: _Page, entry: Entry | None, list_slot: Place) -> None:
    if entry is None:
        st.info("There is no capture to open: open a file in the sidebar, or give files or folders at start.")
        return
    try:
        if not pick_tensors(entry):
            return
        file = opened(entry, state.current())
    except WorkbenchError as error:
        error_box(error)
        return
    check_digest(file)
    _choose(page, file, list_slot)


def _choose(page: _Page, file: Opened, list_slot: Place) -> None:
    """The row list and the row that is chosen."""
    rows, key = len(file.capture), _identity(file)
    row = state.current().row
    if row is not None and row >= rows:
        st.warning(f"The link names row {count(row)}; this capture has rows 0 to {count(rows - 1)}.")
        row = state.settle(row=None).row
    head = st.container()
    with list_slot:
        steps, told = st.empty(), st.empty()
        stepped = take_step(file, rows, row, key, steps)
        row = row if stepped is None else stepped
        known = lines_so_far(file, state.current())
        order = order_of(known, rows)
        listed = f"{key}:{DAMAGE}" if len(known) == rows else key
        shown = pick_page(listed, order, row, page.turned or stepped is not None)
        bar, place = st.empty(), st.container()
    if row is None and any(number not in known for number in shown):
        _settle_row(page, file, shown, head, bar)
    number = damage_first(known[one] for one in shown)[0].row if row is None else row
    state.settle(row=number)
    step_buttons(file, rows, number, key, steps)
    with head:
        _inspect_row(page, file, number)
    lines = fill(file, state.current(), shown, bar)
    about_steps(lines_so_far(file, state.current()), rows, told)
    with place:
        row_list(lines, number, f"rows:{listed}:{shown[0]}", about_page(shown, order, len(known)))
        _about(file)
        inspect_all(file, state.current(), rows, key)


def _settle_row(page: _Page, file: Opened, shown: Sequence[int], head: Place, bar: Place) -> None:
    """Show the first row of the list's page at once, and turn to the worst one when all are inspected."""
    page.url.hold_url(True)
    show_progress(bar, 0, len(shown))
    with head:
        _inspect_row(page, file, shown[0])
    worst = fill(file, replace(state.current(), row=shown[0]), shown, bar)[0]
    page.url.hold_url(False)
    state.settle(row=worst.row)
    st.rerun()


def _identity(file: Opened) -> str:
    view = state.current()
    return ":".join(map(str, (file.digest, *view.names, view.k, view.op, view.release, view.device)))


def _inspect_row(page: _Page, file: Opened, number: int) -> None:
    call = file.capture.call(file.capture.call_of(number))
    st.markdown(f"#### {state.plain(file.entry.key)} · row {count(number)}")
    pick_circumstances(file.capture.info.strings, call.k, f"{file.digest}:{number}")
    view = state.current()
    try:
        if (call.k or view.k) is None:
            st.info("The capture does not say k: choose it above, and the row is inspected.")
            return
        with st.spinner("Inspecting the row", show_time=True):
            seen = inspected(file, view, number)
    except WorkbenchError as error:
        error_box(error)
        return
    page.show(Shown(file, number, seen, f"{_identity(file)}:{number}"))


def _about(file: Opened) -> None:
    info = file.capture.info
    parts = [plural(info.rows, "row"), plural(info.calls, "call"), info.dtype, f"up to {count(info.length_max)} scores"]
    if info.strings.get("model"):
        parts.append(brief(str(info.strings["model"])))
    st.caption(state.plain(" · ".join(parts)))
    for text in info.notes:
        st.caption(state.plain(text))
    if info.source:
        with st.expander("How it was made"):
            st.markdown(state.plain(info.source))
