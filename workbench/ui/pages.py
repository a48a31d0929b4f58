"""The pages of the app and what they share."""

from __future__ import annotations

import streamlit as st

from workbench.figures.tables import paths_table
from workbench.paths.catalog import PATHS
from workbench.ui.inspector import inspect_page

SIDEBAR = 405  # pixels, so that the row list shows its columns


def paths_page() -> None:
    """The catalogue of paths."""
    st.markdown("#### Paths that the workbench knows")
    st.dataframe(
        paths_table(PATHS),
        hide_index=True,
        height="content",
        column_config={
            "summary": st.column_config.TextColumn(width=440),
            "length": st.column_config.TextColumn(width=120),
        },
    )


def navigation() -> list[st.Page]:
    """All pages; the first is the one that the app opens on."""
    return [
        st.Page(inspect_page, title="Inspect", icon=":material/search:", url_path="inspect", default=True),
        st.Page(paths_page, title="Paths", icon=":material/route:", url_path="paths"),
    ]
