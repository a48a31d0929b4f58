"""Rows on which the mean over random arrival orders is not to be trusted."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.cli.tables import ranges


def order_unreliable(correlation: float | None) -> bool:
    """Whether scores follow their position so closely that the expected loss may be far off."""
    if correlation is None:
        return False
    from workbench.analysis.risk import ORDERED

    return abs(correlation) > ORDERED


def order_warning(rows: Iterable[int]) -> list[str]:
    """A line that names such rows; none without any."""
    numbers = sorted(set(rows))
    if not numbers:
        return []
    where = f"{'row' if len(numbers) == 1 else 'rows'} {ranges(numbers)}"
    return [
        f"Expected missing is unreliable in {where}: in the threshold bin scores follow their position, and real "
        "threads arrive roughly by position, not at random. --arrival walk follows the threads."
    ]
