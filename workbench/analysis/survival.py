"""What a buffer loses over every arrival order, from how the threshold bin's members lie around the cut-off value.

Each part of the buffer (one, or a rank of a cluster) sees ``members`` of the bin and stores ``stored`` of them, whichever
arrive first. Among the members, ``better`` lie above the cut-off value and ``equal`` at it. Over all parts,

    missing = (better that were dropped) + max(0, equal_need - equal that were stored).

A uniformly random arrival order stores a uniformly random subset in every part, independently: both terms follow
hypergeometric laws, convolved over the parts. The extremes follow from dropping the best, or the worst, first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.numeric.hypergeometric import all_survive, survivors


@dataclass(frozen=True)
class Part:
    """One part of a buffer: members that it sees and stores, and how many of them are better or equal."""

    members: int
    stored: int
    better: int
    equal: int


@dataclass(frozen=True)
class Outlook:
    """Over every arrival order: least and most missing; over random ones: chance of none, and the mean."""

    least: int
    most: int
    p_clean: float
    expected: float


def outlook(parts: list[Part], equal_need: int) -> Outlook:
    """The outlook of a threshold bin.

    Args:
        parts: of the buffer. equal_need: members equal to the cut-off value that must be taken.
    """
    spare = sum(part.equal for part in parts) - equal_need
    most = _missing([_drop(part, best_first=True) for part in parts], spare)
    least = _missing([_drop(part, best_first=False) for part in parts], spare)
    if not most:
        return Outlook(0, 0, 1.0, 0.0)
    seen = [part for part in parts if part.members]
    better_lost = sum(part.better * (1 - part.stored / part.members) for part in seen)
    counts, mass = _equal_stored(seen)
    ties_lost = float((mass * np.maximum(equal_need - counts, 0)).sum())
    return Outlook(least, most, 0.0 if least else _p_clean(seen, equal_need), better_lost + ties_lost)


def _drop(part: Part, best_first: bool) -> tuple[int, int]:
    """Better and equal members that go if the best, or the worst, are dropped first."""
    dropped = part.members - part.stored
    if best_first:
        better = min(dropped, part.better)
        return better, min(dropped - better, part.equal)
    dropped -= min(dropped, part.members - part.better - part.equal)
    equal = min(dropped, part.equal)
    return dropped - equal, equal


def _missing(drops: list[tuple[int, int]], spare: int) -> int:
    return sum(better for better, _ in drops) + max(0, sum(equal for _, equal in drops) - spare)


def _equal_stored(parts: list[Part]) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of the equal members that are stored, over all parts."""
    first, mass = 0, np.ones(1)
    for part in parts:
        counts, part_mass = survivors(part.members, part.equal, part.stored)
        first += int(counts[0])
        mass = np.convolve(mass, part_mass.numpy())
    return np.arange(first, first + mass.size), mass


def _p_clean(parts: list[Part], equal_need: int) -> float:
    """Chance that every better member is stored, and enough equal ones."""
    chance = float(np.prod([all_survive(part.members, part.better, part.stored) for part in parts]))
    if not chance:
        return 0.0
    left = [Part(part.members - part.better, part.stored - part.better, 0, part.equal) for part in parts]
    counts, mass = _equal_stored(left)
    return chance * float(mass[counts >= equal_need].sum())
