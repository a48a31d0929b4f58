"""The page of releases: one sentence, the matrix row × release, the numbers, and one cell in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st
import torch

from workbench.errors import UsageError, WorkbenchError
from workbench.figures import palette
from workbench.figures.words import count, plural
from workbench.paths.devices import DEVICES
from workbench.paths.ops import OPS
from workbench.ui import releases_made, state
from workbench.ui.common import error_box
from workbench.ui.library import Entry
from workbench.ui.loading import CHECKED, Opened, library, look, opened
from workbench.ui.releases_made import Circumstances
from workbench.ui.releases_shown import show_matrix
from workbench.ui.releases_view import RELEASED
from workbench.ui.view import View, brief

_FORGET: dict[str, Any] = dict.fromkeys(("digest", "op", "device", "k", "first", "last", "row", "at"))
_ASKED = "releases-asked"  # the matrix whose button was pressed
_KS = ("512", "1024", "2048")


def releases_page() -> None:
    """In which releases of an op rows lose winners, and in which they do not."""
    torch.set_num_threads(1)  # as on the command line: on single rows threads spend more time meeting than working
    RELEASED.follow_url()
    st.markdown("#### Which releases lose winners")
    notices = st.empty()
    try:
        _show()
    except WorkbenchError as error:
        error_box(error)
    RELEASED.write_url()
    if RELEASED.notices():
        notices.warning("\n\n".join(state.plain(text) for text in RELEASED.notices()), icon=":material/link:")


def _show() -> None:
    captures = {entry.key: entry for entry in (*library().entries, *state.uploads().entries.values())}
    saved = releases_made.saved()
    key = _pick_source(captures, saved)
    if key is None:
        st.info("There is no capture to judge: open one on the page Inspect, or give files or folders at start.")
        return
    if key in saved:
        matrix, digest = releases_made.read_saved(saved[key])
        _check_digest(digest)
        show_matrix(matrix, f"{digest}", captures, told=f"Saved in {key}", controls=False)
        return
    entry = captures[key]
    found = opened(entry, View(capture=key))
    _check_digest(found.digest)
    circumstances = _pick_circumstances(found)
    if circumstances is not None:
        _judge(entry, found, circumstances, captures)


def _pick_source(captures: dict[str, Entry], saved: dict[str, Entry]) -> str | None:
    """The capture or saved matrix that is shown: the one chosen, else the one that is inspected, else the first."""
    ready = [key for key, entry in list(captures.items())[:CHECKED] if look(entry).ready]
    options = [*saved, *ready]
    view = RELEASED.current()
    if view.source is not None and view.source not in options:
        if view.source in captures:
            options.append(view.source)
        else:
            RELEASED.note(f"The link's source {brief(view.source)} is not below the folders given at start.")
            view = RELEASED.settle(source=None, **_FORGET)
    if view.source is None:
        if not options:
            return None
        inspected = state.current().capture
        view = RELEASED.settle(source=next((key for key in (inspected, *options) if key in options), options[0]))
    st.session_state["source"] = view.source
    st.selectbox(
        "Capture, or saved matrix",
        options,
        key="source",
        format_func=lambda key: f"{key}  (saved matrix)" if key in saved else key,
        on_change=lambda: RELEASED.change(**{**_FORGET, "source": st.session_state["source"]}),
        help="A capture is judged by the models. A matrix that `workbench run --output FILE.json` wrote is shown as it "
        "was measured: give its folder at start.",
    )
    return view.source


def _check_digest(digest: str) -> None:
    asked = RELEASED.current().digest
    if asked is not None and asked != digest:
        RELEASED.note(
            f"The link was made from other content (digest {brief(asked)}) than this file holds now ({digest}): the "
            "picture may differ."
        )
    RELEASED.settle(digest=digest)


def _pick_circumstances(found: Opened) -> Circumstances | None:
    """Op, releases, device and k; ``None`` where they must be chosen first."""
    view, info = RELEASED.current(), found.capture.info
    said_ops = tuple(dict.fromkeys(call.op for call in found.capture.calls if call.op is not None))
    said_k = found.capture.call_values("k")
    columns = st.columns([3.6, 2.1, 2.1, 1.5, 1.4])
    own = f"{said_ops[0]}" if len(said_ops) == 1 else f"as captured ({len(said_ops)})" if said_ops else palette.UNKNOWN
    with columns[0]:
        _pick("Op", "op", [op.name for op in OPS], own, dict.fromkeys(("first", "last", "row", "at")))
    with columns[3]:
        _pick("Device", "device", [device.name for device in DEVICES], info.strings["device"] or palette.UNKNOWN)
    with columns[4]:
        _pick_k(said_k)
    ops = (view.op,) if view.op is not None else said_ops
    if not ops:
        st.info("The capture does not say which op its rows are of: choose one, and a device.")
        return None
    every = _releases_of(ops)
    if not every:
        st.info(f"Routing knows no release of {state.plain(', '.join(ops))}.")
        return None
    with columns[1]:
        _pick("From release", "first", list(every), every[0])
    with columns[2]:
        _pick("To release", "last", list(every), every[-1])
    first, last = view.first or every[0], view.last or every[-1]
    for end in (first, last):
        if end not in every:
            raise UsageError(f"{end} is no release of {', '.join(ops)}; choose another")
    if every.index(first) > every.index(last):
        raise UsageError(f"the range runs backwards, from {first} to {last}; choose the older one first")
    if None in said_k and view.k is None:
        st.info("The capture does not say k: choose it, and the rows are judged.")
        return None
    releases = every[every.index(first) : every.index(last) + 1]
    return Circumstances(ops if view.op is not None else (), view.device, view.k, releases)


def _releases_of(ops: Sequence[str]) -> tuple[str, ...]:
    packages = {op.package: op.package_releases for op in OPS if op.name in ops}
    return tuple(release for releases in packages.values() for release in releases)


def _pick(title: str, name: str, options: list[str], own: str, more: dict[str, Any] | None = None) -> None:
    """A selector of one field; its first option leaves it to the capture. ``more``: fields that it forgets."""
    chosen = getattr(RELEASED.current(), name)
    others = ["", *(option for option in options if option != own)]  # no two that read alike
    if chosen not in (None, own, *options):
        others.append(chosen)
    st.session_state[f"releases-{name}"] = "" if chosen in (None, own) else chosen

    def take() -> None:
        RELEASED.change(**{**(more or {}), name: st.session_state[f"releases-{name}"] or None})

    st.selectbox(
        title,
        others,
        key=f"releases-{name}",
        format_func=lambda option: option or own,
        on_change=take,
    )


def _pick_k(said: Sequence[int | None]) -> None:
    known = sorted({k for k in said if k is not None})
    own = palette.UNKNOWN if None in said else str(known[0]) if len(known) == 1 else "as captured"
    chosen = RELEASED.current().k
    st.session_state["releases-k"] = "" if chosen is None or str(chosen) == own else str(chosen)

    def take() -> None:
        text = st.session_state["releases-k"]
        RELEASED.change(k=int(text) if text else None)

    options = ["", *(k for k in _KS if [k] != [str(one) for one in known])]
    st.selectbox(
        "k",
        options if chosen is None or str(chosen) in (own, *options) else [*options, str(chosen)],
        key="releases-k",
        format_func=lambda option: option or own,
        on_change=take,
        help="winners wanted",
    )


def _judge(entry: Entry, found: Opened, circumstances: Circumstances, captures: dict[str, Entry]) -> None:
    """The matrix of a capture by the models, once it is asked for."""
    rows = len(found.capture)
    held = releases_made.made(found, circumstances)
    key = f"{found.digest}:{hash(circumstances):x}"
    place = st.empty()
    if len(held.rows) < rows and not _asked_for(found, rows, len(held.rows), key, place):
        if held.rows:
            show_matrix(held.matrix(circumstances.releases), key, captures, told=f"{count(len(held.rows))} rows so far")
        return
    if len(held.rows) < rows:
        RELEASED.hold_url(True)
        with place.container():  # any press of a widget ends this run; this one says so
            st.button("Stop", key=f"stop:{key}", icon=":material/stop_circle:")
            bar = st.empty()
        try:
            releases_made.judge_rows(found, entry, circumstances, bar)
        finally:
            RELEASED.hold_url(False)
        place.empty()
    told = f"{plural(rows, 'row')} by the models, {releases_made.CALLS} calls a cell under random arrival orders"
    show_matrix(held.matrix(circumstances.releases), key, captures, told=told)


def _asked_for(found: Opened, rows: int, done: int, key: str, place: st.delta_generator.DeltaGenerator) -> bool:
    """Whether all rows are judged now; a button where they are many."""
    if releases_made.is_quick(found.capture) or st.session_state.pop(_ASKED, None) == key:
        return True
    with place.container():
        if rows > releases_made.MOST_ROWS:
            st.info(
                f"{count(rows)} rows are more than the {count(releases_made.MOST_ROWS)} that are judged here: choose "
                "some with `workbench run FILE --row N-M --release A..B --output matrix.json`, and open that here."
            )
            return False
        so_far = f"; {count(done)} are judged" if done else ""
        st.button(
            f"Judge {plural(rows, 'row')} in every release",
            key=f"judge:{key}",
            help=f"by the models{so_far}",
            on_click=lambda: st.session_state.update({_ASKED: key}),
        )
    return False
