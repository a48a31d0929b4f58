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
_URL, _LINKED, _CHANGED = "workbench-url", "workbench-linked", "workbench-changed"
_AWAY, _HELD = "workbench-away", "workbench-held"
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")


def current() -> View:
    """The view of this session."""
    if _VIEW not in st.session_state:
        _read()
    return cast("View", st.session_state[_VIEW])


def _read() -> None:
    params = st.query_params.to_dict()
    view, problems = from_params(params)
    st.session_state[_VIEW], st.session_state[_NOTICES] = view, problems
    st.session_state[_URL], st.session_state[_LINKED] = params, view.digest


def follow_url() -> bool:
    """Take the view from the URL where that is not what the session wrote last, as after a step back or forward.

    A widget that changed the view in this run goes first: the browser may not yet know what was written for the last
    one. A URL without parameters is no step where another page was shown in between, since pages drop them.
    """
    view = current()
    hold_url(False)
    changed = st.session_state.pop(_CHANGED, False)
    away = st.session_state.pop(_AWAY, False)
    params = st.query_params.to_dict()
    if changed or params == st.session_state[_URL] or (away and not params):
        return False
    if from_params(params)[0] == view:
        st.session_state[_URL] = params
        return False
    _read()
    return True


def leave_page() -> None:
    """Note that a page is shown whose URL says nothing of the view."""
    current()
    st.session_state[_AWAY] = True


def linked_digest() -> str | None:
    """The digest that the link carried, until the view is of a file that was opened."""
    current()
    return cast("str | None", st.session_state[_LINKED])


def change(**fields: Any) -> View:
    """Change fields of the view; a whole new capture forgets what was chosen on the last one."""
    view = current()
    if any(getattr(view, name) != value for name, value in fields.items()):
        st.session_state[_NOTICES] = []  # what was said of the link no longer concerns what is shown
        st.session_state[_CHANGED] = True
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
    st.session_state[_LINKED], st.session_state[_CHANGED] = None, True


def settle_digest(digest: str) -> None:
    """Carry the digest of the file that was opened."""
    settle(digest=digest)
    st.session_state[_LINKED] = None


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


def hold_url(held: bool) -> None:
    """Leave the URL as it is while what is shown is not settled, so that a step back does not meet it."""
    st.session_state[_HELD] = held


def write_url() -> None:
    """Let the URL say what is shown."""
    if st.session_state.get(_HELD):
        return
    params = current().to_params()
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)
    st.session_state[_URL], st.session_state[_CHANGED] = params, False


def plain(text: str) -> str:
    """Text for Streamlit's Markdown that shows as it is: names in files and links are not ours."""
    return _SPECIAL.sub(r"\\\1", text)
