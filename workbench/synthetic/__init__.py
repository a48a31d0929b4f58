"""Rows made to measure: the distributions of upstream tests, and rows that fill a path's buffer to the last slot."""
