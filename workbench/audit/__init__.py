"""Audit: many captures, planned from headers, worked off by any number of workers, kept as a dataset."""
