"""The page of the environment: what ``workbench doctor`` finds, by area, and as text for a report of a fault."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st

from workbench.figures import palette
from workbench.runs.doctor import AREAS, Doctor, Fact, doctor
from workbench.ui import state
from workbench.ui.caches import TEXT
from workbench.ui.common import callout, code

_AGAIN = "environment-again"
_MARKS = {"fine": "✓", "absent": "–", "broken": "✗"}
_ABOVE = ("engines", "gpu", "kernels", "releases")  # what decides whether something runs, first


@dataclass(eq=False)
class _Held:
    """What was found last, for every session; looked at by one of them at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    found: Doctor | None = None


@st.cache_resource(show_spinner=False, hash_funcs=TEXT)
def _held() -> _Held:
    return _Held()


def environment_page() -> None:
    """What there is of what the workbench can use; looked at once, and again when asked."""
    state.leave_page()
    head, button = st.columns([5, 1])
    head.markdown("#### Environment")
    place, held = st.empty(), _held()
    again = st.session_state.pop(_AGAIN, False)
    found = held.found
    if found is None or again:
        with button:
            st.button(
                "Look again",
                key="environment-looking",
                icon=":material/refresh:",
                disabled=True,
                width="stretch",
            )
        _look(held, place, found)
        st.rerun()  # the other button takes its place
    with button:
        st.button(
            "Look again",
            width="stretch",
            key="environment-look",
            icon=":material/refresh:",
            on_click=lambda: st.session_state.update({_AGAIN: True}),
        )
    _show(found)


def _look(held: _Held, place: st.delta_generator.DeltaGenerator, seen: Doctor | None) -> None:
    """Look now, with how far it is; what another session finds meanwhile will do."""
    with place.container():
        bar = st.progress(0.0, "Looking at what is installed")
        with held.lock:
            if held.found is None or held.found is seen:
                held.found = doctor(told=lambda done, total: bar.progress(done / total, _progress(done, total)))


def _progress(done: int, total: int) -> str:
    return f"Looking at what is installed: {done} of {total}"


def _show(found: Doctor) -> None:
    callout(found.sentence, palette.LOSSY_TEXT if found.broken else palette.SAFE_TEXT)
    _table_of_problems(found.broken, "Broken: it is there and does not work")
    _table_of_problems(
        [one for one in found.facts if one.state == "absent" and (one.why or one.cure)],
        "Not there: what that keeps from running, and what helps",
    )
    areas = [*_ABOVE, *(area for area in AREAS if area not in _ABOVE)]
    left, right = st.columns(2)
    for number, area in enumerate(areas):
        with (left, right)[number % 2]:
            _area(AREAS[area], found.area(area))
    st.markdown("##### For a report of a fault")
    st.caption("Names of folders and devices are in it: read it before you send it.")
    code(found.text())


def _table_of_problems(facts: Sequence[Fact], title: str) -> None:
    if not facts:
        return
    st.markdown(f"##### {title}")
    lines = [(one.name, state.plain(one.why or one.value), f"`{one.cure}`" if one.cure else "–") for one in facts]
    frame = pd.DataFrame(lines, columns=["what", "why", "what helps"])
    frame["what"] = frame["what"].map(state.plain)
    st.table(frame.set_index("what"))


def _area(title: str, facts: Sequence[Fact]) -> None:
    st.markdown(f"##### {title}")
    if not facts:
        st.caption("Nothing was found to be told.")
        return
    frame = pd.DataFrame(
        [(f"{_MARKS[one.state]} {state.plain(one.name)}", state.plain(one.value)) for one in facts],
        columns=["what", "is"],
    )
    st.table(frame.set_index("what"))
