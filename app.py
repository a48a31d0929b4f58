"""The Streamlit entry: ``streamlit run app.py -- [FILE or FOLDER …]``, or ``workbench app``."""

import streamlit as st

from workbench.ui.closing import lifetime
from workbench.ui.served import is_session, routes

if is_session():
    from workbench.ui.pages import show_pages

    show_pages()
else:  # the server looks for what it is to serve
    app = st.App(__file__, routes=routes(), lifespan=lifetime)
