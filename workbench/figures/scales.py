"""Log scales of chances and of means, whose 0 and 1 have places of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.analysis.risk import Risk
from workbench.figures.words import MINUS

DEEPEST = 12  # decades below which a chance or a mean is drawn at the edge, and named as less than that
_GAP = 0.25  # of a log scale, between its end and a number that has no logarithm
_IN_FULL, _GREATEST = 3, 6  # decimals of a number in full; powers of ten in full
_TINY = f"≤ 1e{MINUS}{DEEPEST}"


@dataclass(frozen=True)
class Scale:
    """A log scale that ends in values which have no logarithm.

    Attributes:
        low, high: where it ends, in its own units. ticks: places and their texts.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    place: Callable[[float], float]

    @property
    def least(self) -> float:
        """The place of numbers too small to be drawn, and of those too small for a float."""
        return self.ticks[1][0]


def chance_scale(risks: Sequence[Risk]) -> Scale:
    """log10(p / (1 - p)) between a place for 0 and one for 1."""
    inner = [_logit(one.p_clean) for one in risks if one.p_clean is not None and 0 < one.p_clean < 1]
    deep = any(one.p_clean == 0 and one.level == "at risk" for one in risks) or min([0.0, *inner]) < -DEEPEST
    low = -DEEPEST if deep else math.floor(min([-1.0, *inner]))
    high = min(DEEPEST, math.ceil(max([1.0, *inner])))
    gap = _GAP * (high - low)

    def place(chance: float) -> float:
        if chance in (0, 1):
            return low - gap if chance == 0 else high + gap
        return min(max(_logit(chance), low), high)

    texts = [_chance(step) for step in _thinned(low, high)]
    if deep:
        texts[0] = (float(low), _TINY)
    ticks = ((low - gap, "0"), *texts, (high + gap, "1"))
    return Scale(low - gap * 1.4, high + gap * 1.4, ticks, place)


def _chance(step: int) -> tuple[float, str]:
    """Place and text of the chance nearest to a whole step: 0.5 at 0, 0.9 and 0.99 above, 0.1 and 0.01 below."""
    if abs(step) > _IN_FULL:
        return float(step), f"1 {MINUS} 1e{MINUS}{step}" if step > 0 else _power(step)
    chance = 0.5 if step == 0 else 1 - 0.1**step if step > 0 else 0.1**-step
    return _logit(chance), f"{chance:.{max(1, abs(step))}f}"


def _power(step: int) -> str:
    """A power of ten, small and great ones by their exponent."""
    if -_IN_FULL <= step < 0:
        return f"{10.0**step:.{-step}f}"
    if 0 <= step <= _GREATEST:
        return f"{10**step:,}"
    return f"1e{MINUS if step < 0 else ''}{abs(step)}"


def _logit(chance: float) -> float:
    return math.log10(chance) - math.log10(1 - chance)


def mean_scale(risks: Sequence[Risk]) -> Scale:
    """log10 of the mean lost above a place for 0."""
    means = [one.expected_missing for one in risks if one.expected_missing]
    tops = [one.most_missing for one in risks if one.most_missing]
    deep = any(one.expected_missing == 0 and one.most_missing for one in risks)
    deep = deep or (bool(means) and math.log10(min(means)) < -DEEPEST)
    low = -DEEPEST if deep else min(0, math.floor(math.log10(min(means)))) if means else 0
    high = math.ceil(math.log10(max([10.0, *means, *tops])))
    gap = _GAP * (high - low)

    def place(mean: float) -> float:
        return low - gap if mean <= 0 else max(math.log10(mean), low)

    texts = [(float(step), _power(step)) for step in _thinned(low, high)]
    if deep:
        texts[0] = (float(low), _TINY)
    return Scale(low - 1.4 * gap, high + 0.3 * gap, ((low - gap, "0"), *texts), place)


def _thinned(low: int, high: int) -> list[int]:
    """Whole steps, few enough to read: the lowest, then those that 0 is among."""
    every = max(1, math.ceil((high - low) / 3))
    inner = [step for step in range(low, high + 1) if step % every == 0 and step - low >= every]
    return [low, *inner]
