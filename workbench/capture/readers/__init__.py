"""Readers of the formats that people dump selector calls in: one module each, listed in ``table``."""
