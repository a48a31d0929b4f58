"""The view of a session: read from the URL when it opens, changed by widgets, written back to the URL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import streamlit as st

from workbench.ui.carried import Beside, Carried, Params, leave_page
from workbench.ui.library import Uploads
from workbench.ui.view import ROW, View, from_params
from workbench.words import printable

__all__ = ["leave_page"]  # of the pages that carry nothing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    V = TypeVar("V", bound=DataclassInstance)
else:
    V = TypeVar("V")

_UPLOADS = "workbench-uploads"
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&=])")
_INDENT = re.compile(r"\n[^\S\n]*")


def _write(view: View) -> dict[str, list[str]]:
    return {name: [text] for name, text in view.to_params().items()}


VIEW = Carried("inspect", from_params, _write)
current, change, settle, bound, note = VIEW.current, VIEW.change, VIEW.settle, VIEW.bound, VIEW.note
write_url = VIEW.write_url


def beside_row(
    page: str,
    read: Callable[[Params], tuple[V, list[str]]],
    write: Callable[[V], dict[str, list[str]]],
    also: tuple[str, ...] = (),
) -> Carried[V]:
    """The own value of a page that concerns one row, whose URL carries the row as well.

    Args:
        page, read, write: as of ``Carried``; ``read`` gets the page's own parameters alone.
        also: fields of the view that the page shows besides those that say which row it is, and in which circumstances.
    """
    return Carried(page, read, write, Beside(VIEW, (*ROW, *also)))


def linked_digest() -> str | None:
    """The digest that the link carried, until the view is of a file that was opened."""
    linked = VIEW.linked()
    return None if linked is None else linked.digest


def open_capture(key: str) -> None:
    """Turn to another capture."""
    VIEW.turn(View(capture=key, view=current().view))


def settle_digest(digest: str) -> None:
    """Carry the digest of the file that was opened."""
    settle(digest=digest)
    VIEW.forget_link()


def uploads() -> Uploads:
    """The files uploaded in this session."""
    if _UPLOADS not in st.session_state:
        st.session_state[_UPLOADS] = Uploads()
    return cast("Uploads", st.session_state[_UPLOADS])


def plain(text: str) -> str:
    """Text for Streamlit's Markdown that shows as it is: names in files and links are not ours."""
    lines = [printable(line) for line in _INDENT.split(text)]  # four spaces would begin a block of code
    return _SPECIAL.sub(r"\\\1", "\n".join(lines))
