"""A page of what the app's styles are for, which Streamlit runs: see ``test_styles_in_browser.py``."""

from __future__ import annotations

import streamlit as st

from workbench.ui.common import code, letters_on_primary
from workbench.ui.navigation import Bar, Stop
from workbench.ui.pages import lay_out

WORDS = """def words(n):  # a comment
    return [True, 1, "a string"]
"""


def _draw() -> None:
    st.sidebar.write("what a sidebar holds")
    letters_on_primary()
    st.button("Primary", type="primary")
    st.multiselect("Several", ["one", "two"], default=["one"])
    st.table({"what": ["one"], "is": ["a cell"]})
    code(WORDS, "python")
    st.container(key="circumstances").columns(2)[0].write("what a selector stands in")


_PAGES = [st.Page(_draw, title="One", url_path="one"), st.Page(lambda: None, title="Two", url_path="two")]
_PAGE = st.navigation(_PAGES, position="hidden")
lay_out(_PAGE)
Bar([[Stop(_PAGES[0])], [Stop(_PAGES[1])]])
_PAGE.run()
