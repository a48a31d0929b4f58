"""The engine whose selections are shown: its choice, why it cannot answer here, and calls that are made when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event

import streamlit as st
import torch

from workbench.engines.base import Task
from workbench.engines.cuda.device import CURE
from workbench.engines.launch import OpEngine
from workbench.engines.registry import get_engine, vendor_engine
from workbench.engines.vendor import sources
from workbench.engines.vendor.adapters import ADAPTERS
from workbench.engines.vendor.engine import NO_DEVICE
from workbench.errors import CaptureError, UsageError
from workbench.figures.words import plural
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.runs.called import Called, call_kernel, call_op, rows_of_call
from workbench.runs.inspect import Inspection
from workbench.ui import state
from workbench.ui.background import Background, Told, show_background
from workbench.ui.caches import TEXT
from workbench.ui.common import error_box
from workbench.ui.library import local
from workbench.ui.loading import Opened, circumstances, variant_of
from workbench.ui.view import CUDA, ENGINES, MODEL, RECORDED, VENDOR
from workbench.vendor.release import parse_wheel

CALLS = 10  # of a kernel or an op where it is asked for
AT_ONCE_S = 0.3  # of calls before it is drawn how far they are
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


def pick_engine(found: Inspection, key: str, shown: str | None = None) -> str:
    """A selector of the engine, which the URL carries. ``shown``: the engine that the page shows, whichever was
    chosen."""
    st.session_state[key] = shown or state.current().engine or default_engine(found)
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
    """Calls that every session shares once one of them asked for them. ``going``: the thread that makes them."""

    going: Background = field(default_factory=Background)
    called: Called | None = None


@st.cache_resource(max_entries=_KEPT, show_spinner=False, hash_funcs=TEXT)
def _asked(circumstances: tuple[object, ...], number: int, engine: str, path: str | None) -> Asked:
    return Asked()


def open_released(release: str, stop: Event | None = None) -> OpEngine:
    """What calls the ops of a release. ``stop``: once set, the process that does so is ended."""
    return vendor_engine(release, stop=stop)


def known_answer(file: Opened, number: int, engine: str, path: str | None) -> Called | None:
    """The calls of ``answer``, where any session made them."""
    return _asked(circumstances(file, state.current()), number, engine, path).called


def answer(file: Opened, found: Inspection, number: int, engine: str, path: str | None, key: str) -> Called | None:
    """Calls of a kernel or of a released op: made when asked for, with a stop, and kept.

    Returns:
        What they amount to; ``None`` until then. Calls without a selection may be asked for anew.
    """
    held = _asked(circumstances(file, state.current()), number, engine, path)
    who, going = called_name(found, engine, path), held.going
    problem = going.problem()
    if going.busy:
        going.wait(AT_ONCE_S)
    if going.busy:
        show_background(file, going, f"call:{key}")
        return None
    if held.called is not None and not held.called.why_none:
        return held.called

    def pieces() -> Iterator[Told]:
        yield 0.0, calling(who, CALLS)
        held.called = _MAKE[engine](file, found, number, path, going.asked_to_stop)

    st.button(
        f"Call {who}{' again' if held.called is not None else ''}",
        key=f"call:{key}",
        icon=":material/bolt:",
        help=f"{CALLS} times, as the call was captured; the worst of them is shown",
        on_click=lambda: going.start(pieces),
    )
    if (problem := problem or going.problem()) is not None:
        error_box(local(problem, file.entry) if isinstance(problem, CaptureError) else problem)
    return held.called


def calling(who: str, calls: int) -> str:
    """What is going on while somebody is called, in words."""
    return f"Calling {who} {plural(calls, 'time')}; the first call may load a library or build a kernel"


def called_name(found: Inspection, engine: str, path: str | None) -> str:
    """What is called, in words."""
    if engine == CUDA:
        assert path is not None
        return f"the kernel of {path} ({variant_of(found, path)})"
    return f"{found.case.op} of {found.case.release}"


def _by_kernel(file: Opened, found: Inspection, number: int, path: str | None, stop: Event) -> Called:
    assert path is not None
    return call_kernel(found.case, path, variant_of(found, path), CALLS)


def _by_release(file: Opened, found: Inspection, number: int, path: str | None, stop: Event) -> Called:
    assert found.case.release is not None
    rows, at = rows_of_call(file.capture, number)
    with closing(open_released(found.case.release, stop)) as engine:
        return call_op(found.case, engine, rows, at, CALLS)


_MAKE: dict[str, Callable[[Opened, Inspection, int, str | None, Event], Called]] = {
    CUDA: _by_kernel,
    VENDOR: _by_release,
}
