"""The row inspector: one sentence that says what happened, then the picture, then the numbers."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from workbench.figures.words import count
from workbench.runs.inspect import Inspection
from workbench.runs.sentence import finding, result_sentence
from workbench.ui import state
from workbench.ui.common import callout, colour_of
from workbench.ui.rowpage import Shown, show_row_page
from workbench.ui.view import brief
from workbench.ui.views import show_views

_FIELDS = ("layer", "step", "rank", "rows", "width", "stride", "next_n", "max_seq_len", "model", "request")
_MARKS = {True: "✓", False: "✗", None: "?"}


def page(show: Callable[[], None] | None = None) -> st.Page:
    """The inspector as a page, for navigation and for links to a row. ``show``: what it runs."""
    # It stands at the app's own address, and its name for Streamlit is no other page's: see ``named_page``.
    return st.Page(show or inspect_page, title="Inspect", url_path="start", default=True)


def named_page() -> st.Page:
    """What turns to the inspector from the address that has its name, as other pages have, with what that says."""

    def turn() -> None:
        said = [(name, text) for name in st.query_params for text in st.query_params.get_all(name)]
        st.switch_page(page(), query_params=said)

    return st.Page(turn, title="Inspect", url_path="inspect", visibility="hidden")


def inspect_page() -> None:
    """The page that the app opens on."""
    show_row_page(state.VIEW, _show)


def _show(shown: Shown) -> None:
    seen = shown.seen
    head = seen.headline
    line = None if head is None else head.line
    risk = None if line is None else line.risk or ("certain" if line.finding else None)
    callout(finding(seen), colour_of(line.verdict if line else None, risk))
    if seen.recorded is not None and seen.recorded is not head and seen.recorded.line.refused is not None:
        st.info(state.plain(result_sentence(seen.recorded)))
    if seen.of_the_call:
        st.caption(state.plain(seen.of_the_call))
    show_views(shown)
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
