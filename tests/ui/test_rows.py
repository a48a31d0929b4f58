"""The order of the row list."""

from __future__ import annotations

from workbench.ui.loading import Summary
from workbench.ui.rows import damage_first


def test_greatest_damage_first_and_ties_by_row() -> None:
    lines = [
        Summary(0, 9, "exact", "safe", 0, 0.0),
        Summary(1, 9, "lossy", "at risk", 3, 2.0),
        Summary(2, 9, "exact", "at risk", 0, 0.5),
        Summary(3, 9, "invalid", None, 0, None),
        Summary(4, 9, "lossy", "certain", 8, 8.0),
        Summary(5, 9, error="cannot be read"),
        Summary(6, 9, "exact", "safe", 0, 0.0),
    ]
    assert [line.row for line in damage_first(lines[::-1])] == [5, 3, 4, 1, 2, 0, 6]
