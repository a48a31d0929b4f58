"""What a buffer loses over every arrival order, from how the threshold bin's members lie around the cut-off value.

Members are dropped in two stages. Each part of the buffer (one, or a rank of a cluster) sees ``members`` of the bin
and stores ``stored`` of them; of all that the parts stored, ``room`` are kept. Who arrives first decides which. Among
the members, ``better`` lie above the cut-off value and ``equal`` at it. Over all parts,

    missing = (better that were dropped) + max(0, equal_need - equal that were kept).

A uniformly random arrival order keeps a uniformly random subset in every part and again of what the parts stored: both
terms follow hypergeometric laws. The extremes follow from dropping the best, or the worst, first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.numeric.hypergeometric import all_survive, survivors

NEGLIGIBLE = 1e-15
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Part:
    """One part of a buffer: members that it sees and stores, and how many of them are better or equal."""

    members: int
    stored: int
    better: int
    equal: int


@dataclass(frozen=True)
class Outlook:
    """Over every arrival order: least and most missing; over random ones: chance of none, and the mean.

    Both of the latter are sums and products of rounded chances, which pass 1, or the least and the most, by some units
    in the last place: they are brought back to what they can be, here for all.
    """

    least: int
    most: int
    p_clean: float
    expected: float

    def __post_init__(self) -> None:
        vars(self)["p_clean"] = _within(self.p_clean, 0.0, 1.0)
        vars(self)["expected"] = _within(self.expected, float(self.least), float(self.most))


def _within(value: float, least: float, most: float) -> float:
    """A value without what rounding took it past its bounds; more than that is a defect, and no rounding."""
    held = min(max(value, least), most)
    assert abs(value - held) <= _ROUNDING * max(1.0, held), (value, least, most)
    return held


NOTHING_LOST = Outlook(0, 0, 1.0, 0.0)


def outlook(parts: list[Part], room: int, equal_need: int) -> Outlook:
    """The outlook of a threshold bin.

    Args:
        parts: of the buffer. room: members that are kept of all that the parts store.
        equal_need: members equal to the cut-off value that must be taken.
    """
    parts = [part for part in parts if part.members]
    spare = sum(part.equal for part in parts) - equal_need
    most, least = (_extreme(parts, room, spare, best_first) for best_first in (True, False))
    if not most:
        return NOTHING_LOST
    stored = sum(part.stored for part in parts)
    kept = min(1.0, room / stored)
    better_lost = sum(part.better * (1 - kept * part.stored / part.members) for part in parts)
    counts, mass = _equal_kept(parts, room)
    ties_lost = float((mass * np.maximum(equal_need - counts, 0)).sum())
    return Outlook(least, most, 0.0 if least else _p_clean(parts, room, equal_need), better_lost + ties_lost)


def _extreme(parts: list[Part], room: int, spare: int, best_first: bool) -> int:
    """Values missing if in both stages the best, or the worst, members are dropped first."""
    better = equal = others = 0
    for part in parts:
        left = _drop(part, part.members - part.stored, best_first)
        better, equal, others = better + left[0], equal + left[1], others + part.stored - sum(left)
    union = Part(better + equal + others, 0, better, equal)
    left = _drop(union, max(0, union.members - room), best_first)
    better_lost = sum(part.better for part in parts) - left[0]
    equal_lost = sum(part.equal for part in parts) - left[1]
    return better_lost + max(0, equal_lost - spare)


def _drop(part: Part, dropped: int, best_first: bool) -> tuple[int, int]:
    """Better and equal members that are left."""
    if best_first:
        better = min(dropped, part.better)
        return part.better - better, part.equal - min(dropped - better, part.equal)
    dropped -= min(dropped, part.members - part.better - part.equal)
    equal = min(dropped, part.equal)
    return part.better - (dropped - equal), part.equal - equal


def _equal_kept(parts: list[Part], room: int) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of the equal members that are kept: counts and their probabilities."""
    first, mass = 0, np.ones(1)
    for part in parts:
        if part.stored == part.members:
            first += part.equal
            continue
        counts, part_mass = survivors(part.members, part.equal, part.stored)
        first += int(counts[0])
        mass = np.convolve(mass, part_mass.numpy())
    stored = sum(part.stored for part in parts)
    if room >= stored:
        return np.arange(first, first + mass.size), mass
    kept = np.zeros(first + mass.size)
    for equal, chance in enumerate(mass, first):
        if chance > NEGLIGIBLE:
            counts, of_these = survivors(stored, equal, room)
            kept[counts.numpy()] += chance * of_these.numpy()
    return np.arange(kept.size), kept


def _p_clean(parts: list[Part], room: int, equal_need: int) -> float:
    """Chance that every better member is kept, and enough equal ones."""
    better, stored = sum(part.better for part in parts), sum(part.stored for part in parts)
    chance = float(np.prod([all_survive(part.members, part.better, part.stored) for part in parts]))
    chance *= all_survive(stored, better, min(room, stored))
    if not chance:
        return 0.0
    rest = [Part(part.members - part.better, part.stored - part.better, 0, part.equal) for part in parts]
    counts, mass = _equal_kept(rest, min(room, stored) - better)
    return chance * float(mass[counts >= equal_need].sum())
