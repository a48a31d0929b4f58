"""The choice of a capture: from what is on offer, from the link, or by upload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from workbench.capture import list_tensors
from workbench.errors import CaptureError
from workbench.figures.words import count
from workbench.ui import state
from workbench.ui.common import error_box
from workbench.ui.dumps import DUMPS, SUFFIXES, is_capture
from workbench.ui.library import UPLOADS, Entry, local, same_name
from workbench.ui.loading import CHECKED, Opened, library, look, opened, short_digest
from workbench.ui.view import View, brief
from workbench.words import listed

_ROLES = {
    "scores": ("Scores", "[rows, width] or [width]; one * matches many tensors, each a call"),
    "lengths": ("Lengths", "valid scores of each row; without them every row is taken at its full width"),
    "starts": ("Starts", "first valid cell of each row"),
    "indices": ("Indices", "recorded selection of each row, [rows, k]"),
}
_FLOATS, _WHOLES = ("float32", "bfloat16", "float16"), ("int32", "int64")
_FEW = 3  # tensors named of many


def pick_capture() -> Entry | None:
    """The sidebar's picker; ``None`` where there is nothing to open."""
    offered = library()
    entries = {entry.key: entry for entry in (*offered.entries, *state.uploads().entries.values())}
    looks = {key: look(one) for key, one in list(entries.items())[:CHECKED]}
    faults = {key: one.fault for key, one in looks.items() if one.fault}
    ready = {key for key, one in looks.items() if one.ready}
    entry = _of_link(offered.without(faults).default(ready), entries)

    def label(key: str) -> str:
        return f"⚠ {key}" if key in faults else key

    if entry is not None:
        st.session_state["capture"] = entry.key
        st.selectbox("Capture", list(entries), key="capture", format_func=label, on_change=_turn)
    _upload()
    if faults:
        with st.expander(f"{count(len(faults))} of {count(len(entries))} files cannot be opened"):
            for text in faults.values():
                st.markdown(f"- {state.plain(text)}")
    for text in offered.notes:
        st.caption(state.plain(text))
    return entry


def _turn() -> None:
    state.open_capture(st.session_state["capture"])


def _of_link(default: Entry | None, entries: dict[str, Entry]) -> Entry | None:
    """The file that the view names; a default, with a word of why, where it is not there."""
    view = state.current()
    if view.capture in entries:
        return entries[view.capture]
    if view.capture is None:
        if default is not None:
            state.settle(capture=default.key)
        return default
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
    if default is not None:
        message += f" {default.key} is shown instead."
        said = state.VIEW.own_notices()
        state.open_capture(default.key)
        for text in said:  # of other parameters: turning to a file forgets them
            state.note(text)
    state.note(message)
    return default


def _digest(entry: Entry, view: View) -> str:
    try:
        return opened(entry, view).digest
    except CaptureError:
        return ""


def check_digest(found: Opened) -> None:
    """Say so where the digest of the link, or of the file shown before, is not the file's; carry it from now on."""
    asked = state.current().digest
    if asked is not None and short_digest(asked) != found.digest:
        if asked == state.linked_digest():
            state.note(
                f"The link was made from other content (digest {brief(asked)}) than this file holds now "
                f"({found.digest}): the picture may differ."
            )
        else:
            state.note(
                f"The file was replaced while it was open (digest {brief(asked)} before, {found.digest} now): "
                "what is shown is read from the new one."
            )
    state.settle_digest(found.digest)


def _upload() -> None:
    with st.popover("Open a file…", width="stretch"):
        st.file_uploader(
            "A capture or a dump, kept for this session only",
            type=[suffix.removeprefix(".") for suffix in (SUFFIXES[0], *DUMPS)],
            key="upload",
            on_change=_take,
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
    """For a dump, the choice of its tensors; whether its scores are found by name, or named.

    Raises:
        CaptureError: it is damaged, or holds no scores.
    """
    view = state.current()
    try:
        if view.scores is None and is_capture(entry.path):
            return True
        why = _why_unnamed(entry, view) if view.scores is None else ""
        tensors = list_tensors(entry.path)
    except CaptureError as error:
        raise local(error, entry) from None
    if why and not any(_fits(*tensor[1:], _FLOATS) for tensor in tensors):
        raise CaptureError(_no_scores(tensors), file=entry.key)
    with st.expander("Tensors of this file", expanded=bool(why), icon=":material/table:"):
        if why:
            st.markdown(state.plain(f"{why[0].upper()}{why[1:]}. Name the tensor that holds its scores."))
        elif view.scores is None:
            st.markdown("Its tensors were found by their names; name others to read it in another way.")
        labels = {name: f"{name} · {dtype} {list(shape)}" for name, dtype, shape in tensors}
        for column, (role, (title, about)) in zip(st.columns(4), _ROLES.items(), strict=True):
            kinds = _FLOATS if role == "scores" else _WHOLES
            names = [name for name, dtype, shape in tensors if _fits(dtype, shape, kinds)]
            with column:
                _tensor(role, title, about, names, labels, entry)
    return state.current().scores is not None or not why


def _why_unnamed(entry: Entry, view: View) -> str:
    """Why the tensors of a dump are not found by their names, as short as it can be said; empty if they are."""
    try:
        opened(entry, view)
    except CaptureError as error:
        return error.reason.split("; ")[0].removesuffix(".")
    return ""


def _fits(dtype: str, shape: tuple[int, ...], kinds: tuple[str, ...]) -> bool:
    return dtype in kinds and 1 <= len(shape) <= 2


def _no_scores(tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> str:
    """Why no tensor can be the scores, in one line that names a few of those that are there."""
    few = [f"{brief(name)!r} {dtype} {list(shape)}" for name, dtype, shape in tensors[:_FEW]]
    if len(tensors) > _FEW:
        few.append(f"{count(len(tensors) - _FEW)} more")
    return f"no {_FLOATS[0]}, {_FLOATS[1]} or {_FLOATS[2]} tensor of one or two dimensions; it has " + (
        listed(few) if few else "no tensors at all"
    )


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
