"""The passes. Each is given a row and proposes simpler ones; it is told of each whether it was kept.

A pass need not know what makes the fault: a proposal that goes too far is not kept, and the pass tries a smaller step.
Scores that go are chosen at random by the seed, and those that stay keep their order: threads arrive roughly by
position, so that neither must make good scores come before bad ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

import numpy as np
import torch

from workbench.analysis.shrinking.candidate import Candidate, complexity, patterns
from workbench.analysis.shrinking.values import LEVELS, fitting, levels, near_one, pairs_in_bin, simple

Proposals = Generator[Candidate, bool, None]
Pass = Callable[[Candidate], Proposals]

FEW_VALUES = 24  # up to so many distinct values, each is looked at alone


def _most(make: Callable[[int], Candidate], most: int) -> Generator[Candidate, bool, int]:
    """Propose the greatest step, then halve the span to the greatest one that is kept; 1 is always among them."""
    if most < 1:
        return 0
    if (yield make(most)):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if (yield make(middle)):
            low = middle
        else:
            high = middle
    return low


def _shuffled(row: Candidate, positions: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(row.subject.seed)
    return positions[torch.randperm(positions.numel(), generator=generator)]


def fewer_below(row: Candidate) -> Proposals:
    """Delete scores below the threshold bin."""
    order = _shuffled(row, row.parts.below)
    yield from _most(partial(_deleted, row, order), order.numel())


def smaller_k(row: Candidate) -> Proposals:
    """Lower k: delete as many winners, those above the bin first, or only these; or make losers of the others."""
    parts = row.parts
    above, winners = _shuffled(row, parts.above), _shuffled(row, parts.winners)
    order = torch.cat([above, winners])

    def deleting(count: int) -> Candidate:
        return row.without(order[:count], row.k - count)

    def above_only(count: int) -> Candidate:
        return row.without(above[:count], row.k - count)

    def demoting(count: int) -> Candidate:
        value = row.scores[parts.losers[:1]]
        return row.with_values((winners[:count], value.expand(min(count, winners.numel())))).with_k(row.k - count)

    def deleting_none(count: int) -> Candidate:
        return row.with_k(row.k - count)

    ways = [deleting, above_only, deleting_none] + ([demoting] if parts.losers.numel() else [])
    if row.subject.path.ks is None:
        for make in ways:
            yield from _most(make, row.k - 1)
        return
    for k in sorted(row.subject.path.ks):
        for make in ways if k < row.k else ():
            if (yield make(row.k - k)):
                return


def fewer_above(row: Candidate) -> Proposals:
    """Delete scores above the threshold bin with k as it is: more of the bin must be taken."""
    order = _shuffled(row, row.parts.above)
    yield from _most(partial(_deleted, row, order), order.numel())


def fewer_in_the_bin(row: Candidate) -> Proposals:
    """Delete members of the threshold bin that are no winners."""
    order = _shuffled(row, row.parts.losers)
    yield from _most(partial(_deleted, row, order), order.numel())


def from_the_ends(row: Candidate) -> Proposals:
    """Delete, or move out of the bin, from either end of the row: which rank of a cluster sees a score matters."""
    buffer = row.subject.variant.buffer or row.subject.path.buffer
    if buffer is None or buffer.ranks is None:
        return
    for part in (row.parts.below, row.parts.losers):
        for order in (part.flip(0), part):
            yield from _most(partial(_deleted, row, order), order.numel())
    yield from _sunk(row, row.parts.losers.flip(0), shuffled=False)


def _deleted(row: Candidate, order: torch.Tensor, count: int) -> Candidate:
    return row.without(order[:count])


def out_of_the_bin(row: Candidate) -> Proposals:
    """Move members that are no winners below the bin: for paths that take no shorter row."""
    yield from _sunk(row, row.parts.losers)


def down_from_above(row: Candidate) -> Proposals:
    """Move scores from above the bin below it, with k as it is."""
    yield from _sunk(row, row.parts.above)


def alike(row: Candidate) -> Proposals:
    """Make scores equal to the most common one, or to 0; for faults in which no bin matters."""
    if row.subject.bits is not None:
        return
    for value in (row.common, torch.zeros(1, dtype=row.scores.dtype)):
        order = _shuffled(row, torch.nonzero(patterns(row.scores) != patterns(value)).flatten())
        yield from _most(partial(_set, row, order, value), order.numel())


def _set(row: Candidate, order: torch.Tensor, value: torch.Tensor, count: int) -> Candidate:
    return row.with_values((order[:count], value.expand(count)))


def _sunk(row: Candidate, positions: torch.Tensor, shuffled: bool = True) -> Proposals:
    floor = _below(row)
    if not floor or not positions.numel():
        return
    order = _shuffled(row, positions) if shuffled else positions
    yield from _most(lambda count: row.with_values((order[:count], floor[0])), order.numel())


def into_plain_bins(row: Candidate) -> Proposals:
    """Put the bin at 1 with few values in it, everything above at 2 and everything below at 0."""
    bits, parts = row.subject.bits, row.parts
    if bits is None:
        return
    keys = row.scores
    for count in LEVELS:
        places = near_one(bits, count)
        changes = levels(keys, parts.winners, parts.losers, places)
        if (yield row.with_values(*changes, (parts.above, 2.0), (parts.below, 0.0))):
            return


def few_values_in_the_bin(row: Candidate) -> Proposals:
    """Two values, or few, for the members where they are: one for winners, a lower one for the others."""
    bits, bin_, parts = row.subject.bits, row.threshold_bin, row.parts
    if bits is None or bin_ is None:
        return
    members = row.scores[torch.cat([parts.winners, parts.losers])]
    for pair in pairs_in_bin(bits, bin_, members):
        if (yield row.with_values(*levels(row.scores, parts.winners, parts.losers, pair))):
            return


def one_value_above(row: Candidate) -> Proposals:
    """One value for all scores above the bin; or for those among them that are plain numbers."""
    yield from _one_value(row, row.parts.above, _above(row))


def one_value_below(row: Candidate) -> Proposals:
    """One value for all scores below the bin; or for those among them that are plain numbers."""
    yield from _one_value(row, row.parts.below, _below(row))


def _one_value(row: Candidate, positions: torch.Tensor, values: list[float]) -> Proposals:
    if not positions.numel():
        return
    scores = row.scores[positions]
    plain = positions[torch.isfinite(scores) & (scores != 0)]
    for some in (positions, plain) if plain.numel() < positions.numel() else (positions,):
        for value in values if some.numel() else ():
            if (yield row.with_values((some, value))):
                return


def _above(row: Candidate) -> list[float]:
    """Values above the bin, the simplest first."""
    return _fitting(row, row.parts.above, higher=True)


def _below(row: Candidate) -> list[float]:
    """Values below the bin, the simplest first."""
    return _fitting(row, row.parts.below, higher=False)


def _fitting(row: Candidate, positions: torch.Tensor, higher: bool) -> list[float]:
    parts = row.parts
    own = row.scores[positions]
    members = row.scores[torch.cat([parts.winners, parts.losers])]
    return fitting(row.subject.bits, row.threshold_bin, own, members, higher)


def simpler_values(row: Candidate) -> Proposals:
    """Replace one value at a time by a simpler one, or by another that the row holds; where there are few."""
    if row.distinct.numel() > FEW_VALUES:
        return
    values = row.distinct[np.argsort(-complexity(row.distinct), kind="stable")]
    for at in range(values.numel()):
        value = values[at : at + 1]
        for other in simple(value, torch.cat([values[:at], values[at + 1 :]])):
            where = torch.nonzero(patterns(row.scores) == patterns(value)).flatten()
            proposed = row.with_values((where, other.expand(where.numel())))
            if (yield proposed):
                row = proposed
                break


# Scores go before k does: with a small k few members of the bin win, and more of them are needed to lose one as often.
PASSES: tuple[Pass, ...] = (
    fewer_below,
    fewer_above,
    fewer_in_the_bin,
    smaller_k,
    out_of_the_bin,
    from_the_ends,
    alike,
    down_from_above,
    into_plain_bins,
    few_values_in_the_bin,
    one_value_above,
    one_value_below,
    simpler_values,
)
