"""What repeated measurements of one thing amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import UsageError


@dataclass(frozen=True)
class Spread:
    """The middle of measurements and how far they lie apart, in their unit.

    Attributes:
        median, p10, p90: quantiles, interpolated between neighbours. least: the smallest. count: how many there were.
    """

    median: float
    p10: float
    p90: float
    least: float
    count: int


@dataclass(frozen=True)
class Ratio:
    """One spread over another.

    Attributes:
        of_medians: the ratio of the medians. low, high: the upper p10 over the lower p90, and the upper p90 over the
            lower p10. With 1 between them the two are not told apart.
    """

    of_medians: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether the spreads lie apart."""
        return not self.low <= 1 <= self.high


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile of ascending numbers, interpolated between neighbours (type 7 of Hyndman and Fan 1996, as NumPy).

    Args:
        values: at least one, ascending. share: from 0 to 1.
    """
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one measurement; UsageError without any."""
    if not values:
        raise UsageError("a spread is of at least one measurement")
    ordered = sorted(values)
    return Spread(quantile(ordered, 0.5), quantile(ordered, 0.1), quantile(ordered, 0.9), ordered[0], len(ordered))


def ratio(upper: Spread, lower: Spread) -> Ratio | None:
    """``upper`` over ``lower``; ``None`` where a quantile of the lower one is 0."""
    if min(lower.median, lower.p10, lower.p90) <= 0:
        return None
    return Ratio(upper.median / lower.median, upper.p10 / lower.p90, upper.p90 / lower.p10)
