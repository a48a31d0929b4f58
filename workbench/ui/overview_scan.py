"""A scan on the overview: how far it is, stop and go on, what it covers, and what it found so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import streamlit as st

from workbench.audit.words import fault_words, route_cure, size_words
from workbench.errors import UsageError
from workbench.figures.words import count, plural
from workbench.paths.devices import DEVICES
from workbench.paths.ops import OPS
from workbench.ui import state
from workbench.ui.common import error_box
from workbench.ui.controls import KS, releases_of
from workbench.ui.overview_shown import show_found
from workbench.ui.overview_view import OVERVIEW
from workbench.ui.scans import Place, Running, running
from workbench.ui.view import read_whole
from workbench.ui.watching import part, watch
from workbench.words import listed

POLL_S = 2.0  # seconds between two looks at a scan that is at work
_CIRCUMSTANCES = ("op", "release", "device", "k")
COVERS = """A scan does what `workbench audit` does, and writes no records:

- every capture and dump below the folders is opened, every row read and judged: its risk over every arrival order on
  every path (where the route is known, what counts is the path that the row takes), and what production recorded;
- it is an analysis of captured scores: no kernel and no released op is run, and what was not captured is not judged;
- what cannot be opened or judged is listed with the reason; hidden files are left out, and links that lead out of the
  folders are told and not followed;
- what was worked out is kept in your cache by file, so that only new and changed files are read next time."""


def show_scan(place: Place, beside: st.delta_generator.DeltaGenerator) -> None:
    """The scan of a place; it is begun where nobody did. ``beside``: the place of its circumstances."""
    with beside:
        _pick_circumstances()
    view = OVERVIEW.current()
    asked = {name: getattr(view, name) for name in _CIRCUMSTANCES}
    held = running(place, **asked)
    key = ":".join([place.key, *(str(text or "") for text in asked.values())])
    part(partial(_show, held, f"scan:{key}"))


def _show(held: Running, key: str) -> None:
    scan = held.scan
    busy = held.busy
    if busy:
        _watch(held, key)
    else:
        _head(held, key)
    if scan.state == "failed":
        error_box(scan.error)
    found = scan.summary()
    if not scan.plan.files and not busy and scan.state == "done":
        st.info("There is no capture and no dump below what was given.")
        return
    if scan.plan.files and (found.total.rows or fault_words(found) or not busy):
        show_found(found, key)
        if cure := route_cure(found):
            st.caption(state.plain(cure))
    with st.expander("What a scan covers", icon=":material/info:"):
        st.markdown(COVERS)
        if scan.why:
            st.markdown(state.plain(f"Nothing is kept for another time: {scan.why}."))
    OVERVIEW.write_url()


def _watch(held: Running, key: str) -> None:
    """How far a scan is that is at work, and its end; what it found meanwhile is drawn when there is more of it."""
    scan, seen = held.scan, _found(held)

    def draw() -> None:
        if scan.state == "working":
            st.progress(min(1.0, scan.progress.share), f"Scanning: {_so_far(held)}")
        else:
            st.progress(0.0, f"Looking at files: {count(scan.looked)} so far")

    left, right = st.columns([6, 1.15], vertical_alignment="center")
    _button(right, "Stop", "stop_circle", f"stop:{key}", scan.stop)
    with left:
        watch(draw, lambda: not held.busy or _found(held) != seen, POLL_S)


def _found(held: Running) -> tuple[object, ...]:
    at = held.scan.progress
    return held.scan.state, at.rows[0], at.files


def _head(held: Running, key: str) -> None:
    """How far it is that is not at work, and the button that goes with that."""
    scan, at = held.scan, held.scan.progress
    left, right = st.columns([6, 1.15], vertical_alignment="center")
    if scan.state == "waiting":
        todo = size_words(at.bytes[1] - at.bytes[0])
        left.info(f"{plural(at.files, 'file')}: {todo} of scores are to be read. They are scanned when you say so.")
        _button(right, "Scan", "play_arrow", f"go:{key}", partial(held.start, allowed=True))
    elif scan.state == "stopped":
        left.info(f"Stopped: {_so_far(held)}. What is done is kept, and not done again.")
        _button(right, "Go on", "play_arrow", f"go:{key}", partial(held.start, allowed=True))
    else:
        left.caption(state.plain(_looked(held)))
        _button(right, "Look again", "refresh", f"again:{key}", partial(held.start, allowed=True))


def _so_far(held: Running) -> str:
    at = held.scan.progress
    known = f", {plural(at.known, 'unit')} of work known from before" if at.known else ""
    return f"{count(at.rows[0])} of {plural(at.rows[1], 'row')} in {plural(at.files, 'file')}{known}"


def _looked(held: Running) -> str:
    """When the folders were looked at, and what is new since."""
    at = time.strftime("%H:%M:%S", time.localtime(held.looked))
    if held.scan.state != "done":
        return f"Looked at {at}."
    names = ("appeared", "vanished", "changed")
    told = [f"{plural(number, 'file')} {name}" for number, name in zip(held.news(), names, strict=True) if number]
    return f"Looked at {at}. " + (f"Since then {listed(told)}: look again." if told else "Nothing changed since.")


def _button(place: st.delta_generator.DeltaGenerator, text: str, icon: str, key: str, do: Callable[[], None]) -> None:
    place.button(text, key=key, icon=f":material/{icon}:", width="stretch", on_click=do)


def _pick_circumstances() -> None:
    """Op, release, device and k of every call, where the captures' own are not to be taken."""
    view = OVERVIEW.current()
    options = {
        "op": [op.name for op in OPS],
        "release": releases_of(view.op),
        "device": [device.name for device in DEVICES],
        "k": list(KS),
    }
    chosen = [f"{name} {value}" if name == "k" else f"{value}" for name, value in _chosen().items()]
    with st.popover(
        f"Circumstances: {', '.join(chosen) or 'as the captures say'}", icon=":material/tune:", width="stretch"
    ):
        st.markdown("Of every call, before what the captures say:")
        for name, known in options.items():
            value = str(getattr(view, name) or "")
            widget = f"overview-{name}"
            st.session_state[widget] = value
            st.selectbox(
                name.capitalize() if name != "k" else name,
                ["", *known, *([value] if value and value not in known else [])],
                key=widget,
                format_func=lambda text: text or "as captured",
                accept_new_options=name == "k",
                on_change=partial(_take, name, widget),
            )
        if problem := st.session_state.pop("overview-problem", None):
            error_box(problem)


def _chosen() -> dict[str, object]:
    view = OVERVIEW.current()
    return {name: value for name in _CIRCUMSTANCES if (value := getattr(view, name)) is not None}


def _take(name: str, widget: str) -> None:
    text = st.session_state[widget]
    try:
        value: object = None if not text else read_whole(text.strip(), 1, 2**31 - 1) if name == "k" else text
    except UsageError as error:
        st.session_state["overview-problem"] = f"k: {error}"
        return
    fresh: dict[str, object] = {name: value, "file": None, "row": None}
    if name == "op" and OVERVIEW.current().release not in (None, *releases_of(text or None)):
        fresh["release"] = None
    OVERVIEW.change(**fresh)
