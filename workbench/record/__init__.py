"""Rows out of a running engine: selector calls are intercepted, and what is kept of them goes into capture files."""
