"""The view of a session: read from the URL when it opens, changed by widgets, written back to the URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import streamlit as st

from workbench.ui.library import Uploads
from workbench.ui.view import View, from_params

_VIEW, _NOTICES, _UPLOADS = "workbench-view", "workbench-notices", "workbench-uploads"
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")


def current() -> View:
    """The view of this session."""
    if _VIEW not in st.session_state:
        view, problems = from_params(st.query_params.to_dict())
        st.session_state[_VIEW], st.session_state[_NOTICES] = view, problems
    return cast("View", st.session_state[_VIEW])


def change(**fields: Any) -> View:
    """Change fields of the view; a whole new capture forgets what was chosen on the last one."""
    view = current()
    if any(getattr(view, name) != value for name, value in fields.items()):
        st.session_state[_NOTICES] = []  # what was said of the link no longer concerns what is shown
    st.session_state[_VIEW] = replace(view, **fields)
    return cast("View", st.session_state[_VIEW])


def settle(**fields: Any) -> View:
    """Fill in what a default decided; what was said of the link stays."""
    st.session_state[_VIEW] = replace(current(), **fields)
    return cast("View", st.session_state[_VIEW])


def open_capture(key: str) -> None:
    """Turn to another capture."""
    st.session_state[_VIEW] = View(capture=key, view=current().view)
    st.session_state[_NOTICES] = []


def note(message: str) -> None:
    """Say something of the link that was followed, until the view changes."""
    current()
    if message not in st.session_state[_NOTICES]:
        st.session_state[_NOTICES].append(message)


def notices() -> list[str]:
    """What is to be said of the link."""
    current()
    return list(st.session_state[_NOTICES])


def uploads() -> Uploads:
    """The files uploaded in this session."""
    if _UPLOADS not in st.session_state:
        st.session_state[_UPLOADS] = Uploads()
    return cast("Uploads", st.session_state[_UPLOADS])


def bound(field: str, key: str, read: Callable[[Any], Any] = lambda value: value) -> Callable[[], None]:
    """A callback that takes a widget's value into a field of the view."""

    def take() -> None:
        change(**{field: read(st.session_state[key])})

    return take


def write_url() -> None:
    """Let the URL say what is shown."""
    params = current().to_params()
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)


def plain(text: str) -> str:
    """Text for Streamlit's Markdown that shows as it is: names in files and links are not ours."""
    return _SPECIAL.sub(r"\\\1", text)
