"""The Streamlit pages: state in the URL, cached loading, and the pictures of ``workbench.figures``."""
