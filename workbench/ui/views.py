"""The views of an inspected row, one at a time."""

from __future__ import annotations

from functools import partial

import streamlit as st

from workbench.ui import state
from workbench.ui.bins_view import show_bins
from workbench.ui.capacity_view import show_capacity
from workbench.ui.diff_view import show_diff
from workbench.ui.row_report import offer_page
from workbench.ui.rowpage import Shown, row_fragment
from workbench.ui.view import VIEWS


@row_fragment
def show_views(shown: Shown) -> None:
    """The chosen view with its controls; a change in it runs nothing else."""
    file, found, number, key = shown.file, shown.seen, shown.number, shown.key
    left, middle, right = st.columns([5.6, 3.5, 2])
    st.session_state["view"] = state.current().view or next(iter(VIEWS))
    left.segmented_control(
        "View",
        list(VIEWS),
        key="view",
        format_func=VIEWS.__getitem__,
        on_change=state.bound("view", "view"),
        required=True,
        wrap=False,
    )
    page = partial(offer_page, file, found, key)
    match st.session_state["view"]:
        case "capacity":
            show_capacity(found, key, page)
        case "diff":
            show_diff(file, found, number, key, (middle, right), page)
        case _:
            show_bins(found, key, (middle, right), page)
    state.write_url()
