"""The pages of the app and what they share."""

from __future__ import annotations

import streamlit as st

from workbench.ui import compare, inspector, overview, remedies, repeat, whatif
from workbench.ui.divergence import divergence_page
from workbench.ui.environment import environment_page
from workbench.ui.paths import paths_page
from workbench.ui.releases import releases_page

SIDEBAR = 429  # pixels, so that the row list shows its columns


def _inspect() -> None:
    """The page that the app opens on, unless audits alone were given."""
    if overview.opens_first():
        st.switch_page(overview.page())
    inspector.inspect_page()


def navigation() -> list[st.Page]:
    """All pages; the first is the one that the app opens on."""
    return [
        inspector.page(_inspect),
        overview.page(),
        compare.page(),
        whatif.page(),
        remedies.page(),
        st.Page(divergence_page, title="Divergence", icon=":material/call_split:", url_path="divergence"),
        repeat.page(),
        st.Page(releases_page, title="Releases", icon=":material/history:", url_path="releases"),
        st.Page(paths_page, title="Paths", icon=":material/route:", url_path="paths"),
        st.Page(environment_page, title="Environment", icon=":material/memory:", url_path="environment"),
    ]
