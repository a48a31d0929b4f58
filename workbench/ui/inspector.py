"""The row inspector: one sentence that says what happened, then the picture, then the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st
import torch

from workbench.errors import WorkbenchError
from workbench.figures.words import count, plural
from workbench.runs.inspect import Inspection
from workbench.runs.sentence import finding, result_sentence
from workbench.ui import state
from workbench.ui.common import callout, colour_of, error_box
from workbench.ui.controls import pick_circumstances
from workbench.ui.library import Entry
from workbench.ui.loading import Opened, inspected, lines_so_far
from workbench.ui.loading import opened as open_entry
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
from workbench.ui.view import brief
from workbench.ui.views import show_views

_FIELDS = ("layer", "step", "rank", "rows", "width", "stride", "next_n", "max_seq_len", "model", "request")
_MARKS = {True: "✓", False: "✗", None: "?"}


def page(show: Callable[[], None] | None = None) -> st.Page:
    """The inspector as a page, for navigation and for links to a row. ``show``: what it runs."""
    return st.Page(show or inspect_page, title="Inspect", icon=":material/search:", url_path="inspect", default=True)


def inspect_page() -> None:
    """The page that the app opens on."""
    torch.set_num_threads(1)  # as on the command line: on single rows threads spend more time meeting than working
    turned = state.follow_url()
    with st.sidebar:
        entry = pick_capture()
        list_slot = st.container()
    notices = st.empty()
    _open(entry, list_slot, turned)
    state.write_url()
    if state.notices():
        notices.warning("\n\n".join(state.plain(text) for text in state.notices()), icon=":material/link:")


def _open(entry: Entry | None, list_slot: st.delta_generator.DeltaGenerator, turned: bool) -> None:
    if entry is None:
        st.info("There is no capture to open: open a file in the sidebar, or give files or folders at start.")
        return
    try:
        if not pick_tensors(entry):
            return
        found = open_entry(entry, state.current())
    except WorkbenchError as error:
        error_box(error)
        return
    check_digest(found)
    _inspect(entry, found, list_slot, turned)


def _inspect(entry: Entry, found: Opened, list_slot: st.delta_generator.DeltaGenerator, turned: bool) -> None:
    rows, key = len(found.capture), _identity(found)
    row = state.current().row
    if row is not None and row >= rows:
        st.warning(f"The link names row {count(row)}; this capture has rows 0 to {count(rows - 1)}.")
        row = state.settle(row=None).row
    head = st.container()
    with list_slot:
        known = lines_so_far(entry, state.current())
        order = order_of(known, rows)
        listed = f"{key}:{DAMAGE}" if len(known) == rows else key
        page = pick_page(listed, order, row, turned)
        bar, place = st.empty(), st.container()
    if row is None and any(number not in known for number in page):
        _settle_row(entry, found, page, head, bar)
    number = damage_first(known[one] for one in page)[0].row if row is None else row
    state.settle(row=number)
    with head:
        _inspect_row(entry, found, number)
    lines = fill(entry, state.current(), page, bar)
    with place:
        row_list(lines, number, f"rows:{listed}:{page[0]}", about_page(page, order, len(known)))
        _about(found)
        inspect_all(entry, state.current(), rows, key)


def _settle_row(entry: Entry, found: Opened, page: Sequence[int], head: Place, bar: Place) -> None:
    """Show the first row of the page at once, and turn to the worst one when all are inspected."""
    state.hold_url(True)
    show_progress(bar, 0, len(page))
    with head:
        _inspect_row(entry, found, page[0])
    worst = fill(entry, replace(state.current(), row=page[0]), page, bar)[0]
    state.hold_url(False)
    state.settle(row=worst.row)
    st.rerun()


def _identity(found: Opened) -> str:
    view = state.current()
    return ":".join(map(str, (found.digest, *view.names, view.k, view.op, view.release, view.device)))


def _inspect_row(entry: Entry, found: Opened, number: int) -> None:
    call = found.capture.call(found.capture.call_of(number))
    st.markdown(f"#### {state.plain(entry.key)} · row {count(number)}")
    pick_circumstances(found.capture.info.strings, call.k, f"{found.digest}:{number}")
    view = state.current()
    try:
        if (call.k or view.k) is None:
            st.info("The capture does not say k: choose it above, and the row is inspected.")
            return
        with st.spinner("Inspecting the row", show_time=True):
            seen = inspected(entry, view, number)
    except WorkbenchError as error:
        error_box(error)
        return
    _show(entry, seen, number, f"{_identity(found)}:{number}")


def _show(entry: Entry, seen: Inspection, number: int, key: str) -> None:
    head = seen.headline
    line = None if head is None else head.line
    risk = None if line is None else line.risk or ("certain" if line.finding else None)
    callout(finding(seen), colour_of(line.verdict if line else None, risk))
    if seen.recorded is not None and seen.recorded is not head and seen.recorded.line.refused is not None:
        st.info(state.plain(result_sentence(seen.recorded)))
    if seen.of_the_call:
        st.caption(state.plain(seen.of_the_call))
    show_views(entry, seen, number, key)
    _route(seen)
    _call(seen)


def _route(seen: Inspection) -> None:
    route = seen.route
    with st.expander("Route: why the row takes this path", icon=":material/alt_route:"):
        st.markdown(state.plain(f"Judged: {seen.judged_because}."))
        if route is None:
            st.markdown(state.plain(f"There is no route, since {seen.case.unrouted}."))
            return
        end = route.path or (f"refused: {route.refused}" if route.refused else seen.case.unrouted)
        st.markdown(state.plain(f"{route.op}, {route.release}, {route.device} → {end}"))
        lines = [f"| {_MARKS[one.met]} | {state.plain(one.text)} |" for one in route.reasons]
        st.markdown("\n".join(["| met | condition |", "|:-:|:--|", *lines]))


def _call(seen: Inspection) -> None:
    row = seen.case.row
    with st.expander("Call and row", icon=":material/info:"):
        facts = {
            "length": count(row.length) + (" (outside the row)" if row.outside else ""),
            "start": count(row.start),
            "dtype": row.dtype,
        }
        facts |= {"recorded": "no" if row.indices is None else row.mapped.returned if row.mapped else "yes"}
        for name in _FIELDS:
            known = getattr(row.call, name)
            facts[name] = "unknown" if known is None else count(known) if isinstance(known, int) else brief(known)
        names, values = zip(*facts.items(), strict=True)
        half = (len(names) + 1) // 2
        for part in (slice(None, half), slice(half, None)):
            head, body = names[part], values[part]
            st.markdown(
                "\n".join(
                    [
                        "| " + " | ".join(state.plain(text) for text in head) + " |",
                        "|" + ":--|" * len(head),
                        "| " + " | ".join(state.plain(str(text)) for text in body) + " |",
                    ]
                )
            )


def _about(found: Opened) -> None:
    info = found.capture.info
    parts = [plural(info.rows, "row"), plural(info.calls, "call"), info.dtype, f"up to {count(info.length_max)} scores"]
    if info.strings.get("model"):
        parts.append(brief(str(info.strings["model"])))
    st.caption(state.plain(" · ".join(parts)))
    for text in info.notes:
        st.caption(state.plain(text))
    if info.source:
        with st.expander("How it was made"):
            st.markdown(state.plain(info.source))
