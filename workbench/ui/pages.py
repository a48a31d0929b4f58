"""The pages of the app, in the groups that its bar shows: of a folder, of one row, and what holds for all rows."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from workbench.ui import compare, export, inspector, overview, remedies, repeat, whatif
from workbench.ui.compare_view import COMPARE
from workbench.ui.divergence import divergence_page
from workbench.ui.divergence_view import COMPARED
from workbench.ui.environment import environment_page
from workbench.ui.export_view import EXPORT
from workbench.ui.navigation import Bar, Stop
from workbench.ui.overview_view import OVERVIEW
from workbench.ui.paths import paths_page
from workbench.ui.paths_view import SHOWN
from workbench.ui.releases import releases_page
from workbench.ui.releases_view import RELEASED
from workbench.ui.remedies_view import REMEDIES
from workbench.ui.repeat_view import REPEAT
from workbench.ui.state import VIEW
from workbench.ui.whatif_view import ASKED

NAME = "Top-k workbench"
_STYLE = Path(__file__).with_name("layout.css")
SIDEBAR = 429  # pixels, so that the row list shows its columns


def _inspect() -> None:
    """The page that the app opens on, unless audits alone were given."""
    if overview.opens_first():
        st.switch_page(overview.page())
    inspector.inspect_page()


def _groups() -> list[list[Stop]]:
    return [
        [
            Stop(overview.page(), OVERVIEW),
            Stop(st.Page(divergence_page, title="Divergence", url_path="divergence"), COMPARED),
        ],
        [
            Stop(inspector.page(_inspect), VIEW),
            Stop(compare.page(), COMPARE),
            Stop(whatif.page(), ASKED),
            Stop(remedies.page(), REMEDIES),
            Stop(repeat.page(), REPEAT),
            Stop(export.page(), EXPORT),
        ],
        [
            Stop(st.Page(releases_page, title="Releases", url_path="releases"), RELEASED),
            Stop(st.Page(paths_page, title="Paths", url_path="paths"), SHOWN),
            Stop(st.Page(environment_page, title="Environment", url_path="environment")),
        ],
    ]


def navigation() -> list[st.Page]:
    """All pages, as the bar names them."""
    return [stop.page for stops in _groups() for stop in stops]


def lay_out(page: st.Page) -> None:
    """The window's title and size of what it shows, and the styles of all pages."""
    st.set_page_config(f"{page.title} · {NAME}", "🔍", layout="wide", initial_sidebar_state=SIDEBAR)
    st.html(_STYLE)


def show_pages() -> None:
    """The bar, and the page that was turned to."""
    groups = _groups()
    pages = [stop.page for stops in groups for stop in stops]
    page = st.navigation([*pages, inspector.named_page()], position="hidden")
    lay_out(page)
    bar = Bar(groups)
    page.run()
    bar.follow()
