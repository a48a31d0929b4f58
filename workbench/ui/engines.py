"""The engine whose selections are shown: its choice, why it cannot answer here, and calls that are made when asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock

import streamlit as st
import torch

from workbench.engines.base import Task
from workbench.engines.cuda.device import CURE
from workbench.engines.launch import OpEngine
from workbench.engines.registry import get_engine, vendor_engine
from workbench.engines.vendor import sources
from workbench.engines.vendor.adapters import ADAPTERS
from workbench.engines.vendor.engine import NO_DEVICE
from workbench.errors import CaptureError, UsageError, WorkbenchError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.runs.called import Called, call_kernel, call_op, rows_of_call
from workbench.runs.inspect import Inspection
from workbench.ui import state
from workbench.ui.caches import TEXT
from workbench.ui.common import error_box
from workbench.ui.library import local
from workbench.ui.loading import Opened, circumstances, variant_of
from workbench.ui.view import CUDA, ENGINES, MODEL, RECORDED, VENDOR
from workbench.vendor.release import parse_wheel

CALLS = 10  # of a kernel or an op where it is asked for
_KEPT = 96  # every path of a row or two
_ABOUT = """What makes the selection:

- **model**: the path as described, under an arrival order that is chosen
- **recorded**: what production returned
- **cuda**: the workbench's own kernel of the path, on a GPU
- **vendor**: the release's real op, on a GPU"""


def default_engine(found: Inspection) -> str:
    """The engine to show where none was chosen: the recording where the page speaks of it, else the model."""
    speaks = found.recorded is not None and found.headline is found.recorded
    return RECORDED if speaks and state.current().path is None else MODEL


def pick_engine(found: Inspection, key: str, default: str | None = None) -> str:
    """A selector of the engine, which the URL carries. ``default``: the engine where none was chosen."""
    st.session_state[key] = state.current().engine or default or default_engine(found)
    st.selectbox("Engine", ENGINES, key=key, on_change=state.bound("engine", key), help=_ABOUT)
    return str(st.session_state[key])


def why_not(engine: str, found: Inspection, path: str | None) -> list[str]:
    """Why an engine cannot answer for a row, as far as can be told without calling it; empty if it may."""
    match engine:
        case "recorded":
            return _why_not_recorded(found)
        case "cuda":
            assert path is not None
            return _why_not_kernel(found, path)
        case "vendor":
            return _why_not_released(found)
    return []


def _why_not_recorded(found: Inspection) -> list[str]:
    if found.recorded is None:
        return ["the capture holds no recorded selection of this row"]
    refused = found.recorded.line.refused
    return [refused] if refused else []


def _why_not_kernel(found: Inspection, path: str) -> list[str]:
    case = found.case
    task = Task(case.row, case.k, Arrival(), get_path(path), variant_of(found, path), case.profile)
    return [reason.removesuffix(f"; {CURE}") for reason in get_engine(CUDA).refusals(task)]


def _why_not_released(found: Inspection) -> list[str]:
    op, release = found.case.op, found.case.release
    reasons = [
        f"the {name} is not known: choose it above" for name, said in (("op", op), ("release", release)) if not said
    ]
    if op is not None and release is not None:
        if op not in ADAPTERS:
            reasons.append(f"the vendor engine does not know how {op} is called")
        else:
            try:
                source = sources.find(ADAPTERS[op], parse_wheel(release), sources.store)
            except UsageError as error:
                source = str(error)
            reasons += [source] if isinstance(source, str) else []
    if not torch.cuda.is_available():
        reasons.append(NO_DEVICE)
    return reasons


@dataclass(eq=False)
class Asked:
    """Calls that every session shares once one of them asked for them."""

    lock: Lock = field(default_factory=Lock)
    called: Called | None = None


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _asked(circumstances: tuple[object, ...], number: int, engine: str, path: str | None) -> Asked:
    return Asked()


def open_released(release: str) -> OpEngine:
    """What calls the ops of a release."""
    return vendor_engine(release)


def known_answer(file: Opened, number: int, engine: str, path: str | None) -> Called | None:
    """The calls of ``answer``, where any session made them."""
    return _asked(circumstances(file, state.current()), number, engine, path).called


def answer(file: Opened, found: Inspection, number: int, engine: str, path: str | None, key: str) -> Called | None:
    """Calls of a kernel or of a released op: made when asked for, with the time that they take, and kept.

    Returns:
        What they amount to; ``None`` until then. Calls without a selection may be asked for anew.
    """
    held = _asked(circumstances(file, state.current()), number, engine, path)
    asked, failed = f"call-asked:{key}", f"call-problem:{key}"
    who = called_name(found, engine, path)
    place = st.empty()
    if st.session_state.pop(asked, False):
        # The key is the other button's: it takes its place on the page.
        place.button(f"Calling {who}", key=f"call:{key}", icon=":material/bolt:", disabled=True)
        with st.spinner(
            f"Calling it {CALLS} times; the first call may load a library or build a kernel", show_time=True
        ):
            try:
                _call(held, file, found, number, engine, path)
            except WorkbenchError as error:
                st.session_state[failed] = str(local(error, file.entry) if isinstance(error, CaptureError) else error)
        if held.called is None or held.called.why_none:
            st.rerun()  # a button's key stands once on a page
    if held.called is not None and not held.called.why_none:
        place.empty()
        return held.called
    place.button(
        f"Call {who}{' again' if held.called is not None else ''}",
        key=f"call:{key}",
        icon=":material/bolt:",
        help=f"{CALLS} times, as the call was captured; the worst of them is shown",
        on_click=lambda: st.session_state.update({asked: True}),
    )
    if (problem := st.session_state.pop(failed, None)) is not None:
        error_box(problem)
    return held.called


def called_name(found: Inspection, engine: str, path: str | None) -> str:
    """What is called, in words."""
    if engine == CUDA:
        assert path is not None
        return f"the kernel of {path} ({variant_of(found, path)})"
    return f"{found.case.op} of {found.case.release}"


def _call(held: Asked, file: Opened, found: Inspection, number: int, engine: str, path: str | None) -> None:
    with held.lock:
        if held.called is None or held.called.why_none:
            held.called = _MAKE[engine](file, found, number, path)


def _by_kernel(file: Opened, found: Inspection, number: int, path: str | None) -> Called:
    assert path is not None
    return call_kernel(found.case, path, variant_of(found, path), CALLS)


def _by_release(file: Opened, found: Inspection, number: int, path: str | None) -> Called:
    assert found.case.release is not None
    rows, at = rows_of_call(file.capture, number)
    with closing(open_released(found.case.release)) as engine:
        return call_op(found.case, engine, rows, at, CALLS)


_MAKE: dict[str, Callable[[Opened, Inspection, int, str | None], Called]] = {CUDA: _by_kernel, VENDOR: _by_release}
