"""Plotly figures and tables of results: plain functions, for the app, the command line and notebooks alike."""
