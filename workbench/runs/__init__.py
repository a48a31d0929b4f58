"""Paths × engines × rows: runs and their reports."""
