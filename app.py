"""The Streamlit entry: ``streamlit run app.py -- [FILE or FOLDER …]``, or ``workbench app``."""

import streamlit as st

from workbench.ui.served import end_in_order, is_session, routes

if is_session():
    from workbench.ui.pages import show_pages

    show_pages()
else:  # the server looks for what it is to serve
    end_in_order()
    app = st.App(__file__, routes=routes())
