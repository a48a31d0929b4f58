"""The inspected row as one HTML page that can be mailed."""

from __future__ import annotations

from functools import partial

import streamlit as st

from workbench.figures.row_page import Origin, row_page
from workbench.runs.inspect import Inspection
from workbench.ui import downloads
from workbench.ui.loading import Opened


def offer_page(file: Opened, found: Inspection, key: str) -> None:
    """A button that gives the page; it is made when it is pressed. ``key`` names what is inspected."""
    st.markdown("**The whole row**")
    st.download_button(
        "HTML page",
        partial(_page, file, found),
        file_name=f"{downloads.file_name(file.entry.key, f'row{found.row.index}')}.html",
        mime="text/html",
        key=f"page:{key}",
        on_click="ignore",
        icon=":material/download:",
        help="one file of about 5 MB with pictures and tables, which needs no network",
    )


def _page(file: Opened, found: Inspection) -> bytes:
    options = zip(("--scores", "--lengths", "--starts", "--indices"), file.names, strict=True)
    given = tuple(part for option, name in options if name is not None for part in (option, name))
    origin = Origin(file=file.entry.key.rsplit("/", 1)[-1], digest=file.whole, arguments=given)
    return row_page(found, origin).encode("utf-8", "backslashreplace")
