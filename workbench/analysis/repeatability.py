"""How much several selections of one row agree: ``same``, ``order varies``, ``ties vary`` or ``values vary``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

import torch

from workbench.analysis.diff import cutoff, score_gap
from workbench.numeric.keys import ulp_keys, value_keys, where_true
from workbench.numeric.rowkeys import Ascending
from workbench.rendering import Rendered

Kind = Literal["same", "order varies", "ties vary", "values vary"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Fingerprint(NamedTuple):
    """What a selection holds, as digests: its slots in order, in any order, and the values they hold.

    Values are a multiset as the oracle's: -0.0 equals +0.0, all NaN are equal. An index that stands twice holds its
    value once: its further slots are counted apart, and so is what stands in slots without a valid index.
    """

    order: bytes
    members: bytes
    values: bytes


def fingerprint(scores: torch.Tensor, indices: torch.Tensor) -> Fingerprint:
    """The fingerprint of one selection.

    Args:
        scores: [length], the valid scores of the row. indices: integers [k], relative to its start.
    """
    slots = indices.to(torch.int64)
    inside = (slots >= 0) & (slots < scores.numel())
    unique, counts = torch.unique(slots[inside], return_counts=True)
    repeated = torch.repeat_interleave(unique, counts - 1)
    keys, again = (value_keys(scores[where.to(scores.device)]).sort().values for where in (unique, repeated))
    others = slots[~inside].sort().values
    values = f"{keys.numel()} {again.numel()}\n".encode() + _bytes(keys) + _bytes(again) + _bytes(others)
    return Fingerprint(_digest(_bytes(slots)), _digest(_bytes(slots.sort().values)), _digest(values))


def kind_of(prints: Collection[Fingerprint]) -> Kind:
    """The repeatability of selections of one row, from their fingerprints."""
    if len({one.values for one in prints}) > 1:
        return "values vary"
    if len({one.members for one in prints}) > 1:
        return "ties vary"
    return "order varies" if len({one.order for one in prints}) > 1 else "same"


def compare(scores: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> Kind:
    """The repeatability of two selections of one row, by their values, their indices and their order.

    Args:
        scores: [length], the valid scores of the row. one, other: integers [k], relative to its start.
    """
    return kind_of([fingerprint(scores, one), fingerprint(scores, other)])


@dataclass(frozen=True)
class Member:
    """An index that some calls select and others do not.

    Attributes:
        index: position in the row, relative to its start. score: its value. rank: its place in the whole row from 1,
            the best score first and of equal ones the smaller index; the reference takes the ranks 1 to k.
        gap: score minus the k-th best score: 0 or more for a winner or a tie of one, less for others; NaN if one is.
        ulps: how many values of the dtype lie from the k-th best score to this one, with the sign of the gap; ``None``
            where one is NaN.
        held: calls that hold it. share: of all calls.
    """

    index: int
    score: float
    rank: int
    gap: float
    ulps: int | None
    held: int
    share: float


@dataclass(frozen=True)
class Held:
    """How many indices every call selects, some calls, and none."""

    every: int = 0
    some: int = 0
    none: int = 0


@dataclass(frozen=True)
class Repeatability(Rendered):
    """How much many calls on one row agree.

    Attributes:
        kind: the coarsest thing that varies.
        calls: how many there were. orders, sets, values: how many different sequences of slots, index sets and
            multisets of values they returned. commonest: how many calls returned the commonest set.
        steady: indices that every call holds. cut: the k-th best score, ``None`` for an empty row.
        members: the indices that come and go, best score first, smaller index first.
        above, ties, below: all indices, by whether their score is better than the k-th best one, equal to it, or less.
    """

    kind: Kind
    calls: int
    orders: int
    sets: int
    values: int
    commonest: int
    steady: int
    cut: float | None
    members: tuple[Member, ...]
    above: Held = Held()
    ties: Held = Held()
    below: Held = Held()


class Tally:
    """Counts selections of one row as they come, so that none is kept.

    Args:
        scores: [length], the valid scores. exact: int [k], the reference's indices, -1 padded.
    """

    def __init__(self, scores: torch.Tensor, exact: torch.Tensor) -> None:
        self._scores, self._exact = scores, exact
        self._held = torch.zeros(scores.numel(), dtype=torch.int64, device=scores.device)
        self._prints: Counter[Fingerprint] = Counter()

    def add(self, indices: torch.Tensor) -> None:
        """Count one selection, integers [k]."""
        slots = indices.to(device=self._held.device, dtype=torch.int64)
        self._held[slots[(slots >= 0) & (slots < self._held.numel())]] += 1  # an index that stands twice counts once
        self._prints[fingerprint(self._scores, indices)] += 1

    def result(self) -> Repeatability:
        """What the calls so far amount to."""
        calls = self._prints.total()
        sets: Counter[bytes] = Counter()
        for one, count in self._prints.items():
            sets[one.members] += count
        above, ties, below = self._sides(calls)
        return Repeatability(
            kind=kind_of(self._prints),
            calls=calls,
            orders=len({one.order for one in self._prints}),
            sets=len(sets),
            values=len({one.values for one in self._prints}),
            commonest=max(sets.values(), default=0),
            steady=int((self._held == calls).sum()) if calls else 0,
            cut=cutoff(self._scores, self._exact),
            members=tuple(self._members(calls)),
            above=above,
            ties=ties,
            below=below,
        )

    @property
    def _last(self) -> torch.Tensor:
        """int64 [1]: the index of the k-th best score; empty where there is none."""
        return self._exact[self._exact >= 0][-1:].long().to(self._scores.device)

    def _sides(self, calls: int) -> tuple[Held, Held, Held]:
        last = self._last
        if not last.numel() or not calls:
            return Held(), Held(), Held()
        keys = value_keys(self._scores)
        cut = keys[last]
        held = where_true(self._held > 0)
        side, every = torch.sign(keys[held].to(torch.int64) - cut), self._held[held] == calls
        above, ties = int((keys > cut).sum()), int((keys == cut).sum())
        found = []
        for which, total in ((1, above), (0, ties), (-1, keys.numel() - above - ties)):
            here = side == which
            always, ever = int((here & every).sum()), int(here.sum())
            found.append(Held(always, ever - always, total - ever))
        return found[0], found[1], found[2]

    def _members(self, calls: int) -> Iterable[Member]:
        moving = where_true((self._held > 0) & (self._held < calls))
        if not moving.numel():
            return
        scores = self._scores
        # Of equal scores the smaller index is the better: no two of these numbers are equal.
        places = torch.arange(scores.numel() - 1, -1, -1, device=scores.device)
        unique = (value_keys(scores).to(torch.int64) << 32).bitwise_or_(places)
        order = Ascending(unique)
        ranks = torch.empty_like(places)
        ranks[moving] = torch.tensor([len(order) - order.below(one) for one in unique[moving].tolist()]).to(ranks)
        moving = moving[ranks[moving].argsort()]
        cut = scores[self._last]
        keys, at = ulp_keys(scores[moving]).tolist(), int(ulp_keys(cut))
        told = zip(
            *(moving.tolist(), scores[moving].tolist(), ranks[moving].tolist(), keys, self._held[moving].tolist()),
            strict=True,
        )
        for index, score, rank, key, count in told:
            gap = score_gap(score, float(cut))
            ulps = None if score != score or cut.isnan() else key - at
            yield Member(index, score, rank, gap, ulps, count, count / calls)


def repeatability(scores: torch.Tensor, exact: torch.Tensor, selections: Iterable[torch.Tensor]) -> Repeatability:
    """The repeatability of many selections of one row; arguments as for ``Tally``."""
    tally = Tally(scores, exact)
    for indices in selections:
        tally.add(indices)
    return tally.result()


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.cpu().contiguous().numpy().tobytes()


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
