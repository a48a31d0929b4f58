"""The circumstances that rows are judged in: op, release, device and k, the capture's own unless chosen otherwise."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from workbench.errors import UsageError
from workbench.figures import palette
from workbench.paths.devices import DEVICES
from workbench.paths.releases import OBSERVED
from workbench.paths.routing import OPS, get_op
from workbench.ui import state
from workbench.ui.common import error_box
from workbench.ui.view import View, read_whole

CAPTURED = ""  # the option that leaves it to the capture
KS = ("512", "1024", "2048")
_MOST_K = 2**31 - 1


def releases_of(op: str | None) -> list[str]:
    """The known releases of an op, newest first; of every op where it is not known."""
    for one in OPS:
        if one.name == op:
            return list(reversed(one.releases))
    return [f"{package}=={version}" for package, versions in OBSERVED.items() for version in reversed(versions)]


def pick_circumstances(captured: dict[str, str | None], k: int | None, key: str) -> None:
    """Four selectors, in a line where that has room. ``captured``: what the capture says; ``k``: that of the row."""
    view = state.current()
    op = view.op or captured["op"]
    release = captured["release"] if view.op is None or belongs(captured["release"], view.op) else None
    columns = st.container(key="circumstances").columns([4, 3.4, 2, 2])
    with columns[0]:
        _pick("op", "Op", [one.name for one in OPS], captured["op"], key, _new_op)
    with columns[1]:
        _pick("release", "Release", releases_of(op), release, key)
    with columns[2]:
        _pick("device", "Device", [device.name for device in DEVICES], captured["device"], key)
    with columns[3]:
        _pick_k(view, k, key)
    problem = st.session_state.pop("k-problem", None)
    if problem:
        error_box(problem)


def belongs(release: str | None, op: str) -> bool:
    """Whether a release is of the package that ships an op; what a capture says of another op's is not of use."""
    known = next((one for one in OPS if one.name == op), None)
    return known is None or release is None or release.split("==")[0] == known.package


def _new_op(op: str | None) -> dict[str, object]:
    """A release belongs to an op's package: another op forgets a release chosen for the last one."""
    chosen = state.current().release
    if op is None or chosen is None or chosen in get_op(op).releases:
        return {}
    return {"release": None}


def _pick(
    field: str,
    title: str,
    known: list[str],
    captured: str | None,
    key: str,
    more: Callable[[str | None], dict[str, object]] = lambda _: {},
) -> None:
    widget = f"{field}:{key}"
    chosen = getattr(state.current(), field)
    options = _options(known, captured, chosen)
    st.session_state[widget] = chosen if chosen in options else CAPTURED

    def take() -> None:
        value = st.session_state[widget] or None
        state.change(**{field: value, "path": None, "variant": None, "bin": None, **more(value)})

    st.selectbox(
        _title(title, st.session_state[widget]),
        options,
        key=widget,
        format_func=lambda value: value or captured or palette.UNKNOWN,
        on_change=take,
    )


def _options(known: list[str], captured: str | None, chosen: str | None) -> list[str]:
    """The capture's own value first, then the known ones, then one that a link or a person brought."""
    options = [CAPTURED, *(value for value in known if value != captured)]
    if chosen is not None and chosen not in options and chosen != captured:
        options.append(chosen)
    return options


def _title(title: str, value: str) -> str:
    return title if value == CAPTURED else f"{title} (chosen)"


def _pick_k(view: View, captured: int | None, key: str) -> None:
    widget = f"k:{key}"
    said, chosen = (None if k is None else str(k) for k in (captured, view.k))
    options = _options(list(KS), said, chosen)
    st.session_state[widget] = chosen if chosen in options else CAPTURED

    def take() -> None:
        text = st.session_state[widget]
        try:
            state.change(k=None if not text else read_whole(text.strip(), 1, _MOST_K), bin=None)
        except UsageError as error:
            st.session_state["k-problem"] = f"k: {error}"

    st.selectbox(
        _title("k", st.session_state[widget]),
        options,
        key=widget,
        format_func=lambda value: value or said or palette.UNKNOWN,
        accept_new_options=True,
        on_change=take,
        help="winners wanted; type any number",
    )
