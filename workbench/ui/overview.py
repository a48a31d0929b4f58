"""The page that says what is wrong in a folder of captures: by a scan of it, or out of an audit's output folder."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.ui import scans, state
from workbench.ui.audits import audits, summary
from workbench.ui.common import error_box
from workbench.ui.library import Entry
from workbench.ui.loading import library
from workbench.ui.overview_scan import show_scan
from workbench.ui.overview_shown import show_found
from workbench.ui.overview_view import OVERVIEW
from workbench.ui.scans import Place
from workbench.ui.view import brief
from workbench.ui.watching import watched_page

_SEEN = "overview-seen"  # whether this session met the app's first page, or chose this one
_FORGET = dict.fromkeys(("audit", "scan", "file", "row"))
AUDIT, SCAN = "audit", "scan"


def page() -> st.Page:
    """The overview as a page."""
    return st.Page(overview_page, title="Overview", url_path="overview")


def opens_first() -> bool:
    """Whether the app opens here: audits alone were given, and the session is new and follows no link."""
    if st.session_state.get(_SEEN):
        return False
    st.session_state[_SEEN] = True
    return not st.query_params and bool(audits()) and not library().given


def overview_page() -> None:
    """What is wrong in these captures."""
    st.session_state[_SEEN] = True
    with watched_page():
        _page()


def _page() -> None:
    OVERVIEW.follow_url()
    head, notices = st.empty(), st.empty()
    try:
        _show(head)
    except WorkbenchError as error:
        error_box(error)
    OVERVIEW.write_url()
    if OVERVIEW.notices():
        notices.warning("\n\n".join(state.plain(text) for text in OVERVIEW.notices()), icon=":material/link:")
    st.caption(state.plain(scans.reach()))


def _show(head: st.delta_generator.DeltaGenerator) -> None:
    offered, places = audits(), scans.places()
    left, right = st.columns([4, 2.2], vertical_alignment="bottom")
    with left:
        chosen = _pick(offered, places)
    if chosen is None:
        head.markdown("#### What is wrong in these captures")
        st.info("There is nothing to look at: start the app with captures, or folders that hold some.")
        return
    kind, key = chosen
    if kind == SCAN:
        head.markdown("#### What is wrong in these captures")
        show_scan(places[key], right)
        return
    head.markdown("#### What an audit found")
    show_found(replace(summary(offered[key], st.empty()), name=key), key)


def _pick(offered: dict[str, Entry], places: dict[str, Place]) -> tuple[str, str] | None:
    """What is shown: the audit or folder that was chosen, else the first audit, else the first folder."""
    view = OVERVIEW.current()
    for kind, known, words in ((AUDIT, offered, "audit"), (SCAN, places, "folder")):
        asked = getattr(view, kind)
        if asked is not None and asked not in known:
            OVERVIEW.note(f"The link's {words} {brief(asked)} is not below the folders given at start.")
            view = OVERVIEW.settle(**{kind: None, "file": None, "row": None})
    options = [*((AUDIT, key) for key in offered), *((SCAN, key) for key in places)]
    if not options:
        return None
    chosen = (SCAN, view.scan) if view.scan is not None else (AUDIT, view.audit) if view.audit is not None else None
    if chosen is None:
        chosen = options[0]
        OVERVIEW.settle(**{chosen[0]: chosen[1]})
    st.session_state["overview-of"] = chosen

    def take() -> None:
        kind, key = st.session_state["overview-of"]
        OVERVIEW.change(**{**_FORGET, kind: key})

    st.selectbox(
        "Captures, or an audit of some",
        options,
        key="overview-of",
        format_func=lambda one: f"{one[1]}  (audit)" if one[0] == AUDIT else one[1],
        on_change=take,
        help="Captures are scanned now. An audit is the output folder of `workbench audit`: give it at start.",
    )
    return str(chosen[0]), str(chosen[1])
