"""The choice of a capture: from what is on offer, from the link, or by upload."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.capture import list_tensors
from workbench.errors import CaptureError
from workbench.figures.words import count
from workbench.ui import state
from workbench.ui.common import error_box
from workbench.ui.library import UPLOADS, Entry, Library, is_foreign, local, same_name
from workbench.ui.loading import CHECKED, Opened, fault, library, opened, short_digest
from workbench.ui.view import View, brief

_ROLES = {
    "scores": ("Scores", "[rows, width] or [width]; one * matches many tensors, each a call"),
    "lengths": ("Lengths", "valid scores of each row; without them every row is taken at its full width"),
    "starts": ("Starts", "first valid cell of each row"),
    "indices": ("Indices", "recorded selection of each row, [rows, k]"),
}
_FLOATS, _WHOLES = ("float32", "bfloat16", "float16"), ("int32", "int64")


def pick_capture() -> Entry | None:
    """The sidebar's picker; ``None`` where there is nothing to open."""
    offered = library()
    entries = {entry.key: entry for entry in (*offered.entries, *state.uploads().entries.values())}
    faults = {key: fault(one) for key, one in list(entries.items())[:CHECKED]}
    entry = _of_link(offered.without(faults), entries)

    def label(key: str) -> str:
        return f"⚠ {key}" if faults.get(key) else key

    if entry is not None:
        st.session_state["capture"] = entry.key
        st.selectbox("Capture", list(entries), key="capture", format_func=label, on_change=_turn)
    _upload()
    broken = [text for text in faults.values() if text]
    if broken:
        with st.expander(f"{count(len(broken))} of {count(len(entries))} files cannot be opened"):
            for text in broken:
                st.markdown(f"- {state.plain(text)}")
    for text in offered.notes:
        st.caption(state.plain(text))
    return entry


def _turn() -> None:
    state.open_capture(st.session_state["capture"])


def _of_link(offered: Library, entries: dict[str, Entry]) -> Entry | None:
    """The file that the view names; a default, with a word of why, where it is not there."""
    view = state.current()
    if view.capture in entries:
        return entries[view.capture]
    if view.capture is None:
        if offered.default is not None:
            state.settle(capture=offered.default.key)
        return offered.default
    for entry in same_name(entries.values(), view.capture):
        if view.digest and _digest(entry, view) == short_digest(view.digest):
            state.note(f"{brief(view.capture)} is {entry.key} here: same name, same digest.")
            state.settle(capture=entry.key)
            return entry
    why = (
        "was uploaded in another session; upload it again"
        if view.capture.startswith(f"{UPLOADS}/")
        else ("is not below the folders given at start")
    )
    message = f"The link's capture {brief(view.capture)} {why}."
    if offered.default is not None:
        message += f" {offered.default.key} is shown instead."
        state.open_capture(offered.default.key)
    state.note(message)
    return offered.default


def _digest(entry: Entry, view: View) -> str:
    try:
        return opened(entry, view).digest
    except CaptureError:
        return ""


def check_digest(found: Opened) -> None:
    """Say so where the link's digest is not that of the file, and carry the file's from now on."""
    asked = state.current().digest
    if asked is not None and short_digest(asked) != found.digest:
        state.note(
            f"The link was made from other content (digest {brief(asked)}) than this file holds now "
            f"({found.digest}): the picture may differ."
        )
    state.settle(digest=found.digest)


def _upload() -> None:
    with st.popover("Open a file…", width="stretch"):
        st.file_uploader(
            "A .safetensors file, kept for this session only", type=["safetensors"], key="upload", on_change=_take
        )
        st.caption("Large files: give their folder at start instead, as in `workbench app FOLDER`.")
    problem = st.session_state.pop("upload-problem", None)
    if problem:
        error_box(problem)


def _take() -> None:
    file: Any = st.session_state["upload"]
    if file is None:
        return
    try:
        state.open_capture(state.uploads().add(file.name, file.getvalue()).key)
    except CaptureError as error:
        st.session_state["upload-problem"] = str(error)


def pick_tensors(entry: Entry) -> bool:
    """For a foreign file, the choice of its tensors; whether its scores are named.

    Raises:
        CaptureError: the file is damaged.
    """
    view = state.current()
    try:
        if not is_foreign(entry.path) and view.scores is None:
            return True
        tensors = list_tensors(entry.path)
    except CaptureError as error:
        raise local(error, entry) from None
    with st.expander("Tensors of this file", expanded=view.scores is None, icon=":material/table:"):
        if view.scores is None:
            st.markdown("This file is not a workbench capture. Name the tensor that holds its scores.")
        labels = {name: f"{name} · {dtype} {list(shape)}" for name, dtype, shape in tensors}
        for column, (role, (title, about)) in zip(st.columns(4), _ROLES.items(), strict=True):
            kinds = _FLOATS if role == "scores" else _WHOLES
            names = [name for name, dtype, shape in tensors if dtype in kinds and 1 <= len(shape) <= 2]
            with column:
                _tensor(role, title, about, names, labels, entry)
    return state.current().scores is not None


def _tensor(role: str, title: str, about: str, names: list[str], labels: dict[str, str], entry: Entry) -> None:
    key = f"tensor-{role}:{entry.key}"
    chosen = getattr(state.current(), role)
    st.session_state[key] = chosen

    def take() -> None:
        state.change(**{role: st.session_state[key], "row": None, "bin": None})

    st.selectbox(
        title,
        names if chosen is None or chosen in names else [chosen, *names],
        key=key,
        index=None,
        format_func=lambda name: labels.get(name, name),
        help=about,
        placeholder="none" if role != "scores" else "choose a tensor",
        accept_new_options=True,
        on_change=take,
    )
