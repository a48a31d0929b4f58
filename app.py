"""The Streamlit entry: ``streamlit run app.py -- [FILE or FOLDER …]``, or ``workbench app``."""

import streamlit as st

from workbench.ui.served import is_session, routes

if is_session():
    from workbench.ui.pages import SIDEBAR, navigation

    st.set_page_config(page_title="Top-k workbench", page_icon="🔍", layout="wide", initial_sidebar_state=SIDEBAR)
    st.navigation(navigation(), position="top").run()
else:  # the server looks for what it is to serve
    app = st.App(__file__, routes=routes())
