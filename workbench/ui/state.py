"""The view of a session: read from the URL when it opens, changed by widgets, written back to the URL."""

from __future__ import annotations

import re
from typing import cast

import streamlit as st

from workbench.ui.carried import Carried, Params, leave_page
from workbench.ui.library import Uploads
from workbench.ui.view import View, from_params

__all__ = ["leave_page"]  # of the pages that carry nothing

_UPLOADS = "workbench-uploads"
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")


def _read(params: Params) -> tuple[View, list[str]]:
    return from_params({name: texts[-1] for name, texts in params.items()})


def _write(view: View) -> dict[str, list[str]]:
    return {name: [text] for name, text in view.to_params().items()}


_VIEW = Carried("inspect", _read, _write)
current, follow_url, change, settle, bound = _VIEW.current, _VIEW.follow_url, _VIEW.change, _VIEW.settle, _VIEW.bound
note, notices, hold_url, write_url = _VIEW.note, _VIEW.notices, _VIEW.hold_url, _VIEW.write_url


def linked_digest() -> str | None:
    """The digest that the link carried, until the view is of a file that was opened."""
    linked = _VIEW.linked()
    return None if linked is None else linked.digest


def open_capture(key: str) -> None:
    """Turn to another capture."""
    _VIEW.turn(View(capture=key, view=current().view))


def settle_digest(digest: str) -> None:
    """Carry the digest of the file that was opened."""
    settle(digest=digest)
    _VIEW.forget_link()


def uploads() -> Uploads:
    """The files uploaded in this session."""
    if _UPLOADS not in st.session_state:
        st.session_state[_UPLOADS] = Uploads()
    return cast("Uploads", st.session_state[_UPLOADS])


def plain(text: str) -> str:
    """Text for Streamlit's Markdown that shows as it is: names in files and links are not ours."""
    return _SPECIAL.sub(r"\\\1", text)
