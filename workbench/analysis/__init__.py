"""Verdicts, risk and value diffs: pure functions of rows and selections."""
