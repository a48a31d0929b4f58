"""Arrival order: the order in which threads reach the buffer, the one thing that a row does not determine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, get_args

import torch

from workbench.arguments import check_fields
from workbench.errors import UsageError
from workbench.numeric.keys import where_true
from workbench.paths.orders import OrderKind
from workbench.paths.spec import Walk
from workbench.paths.walk import WARP, walked
from workbench.words import described, listed

FEW = 8  # below one in so many positions, sorting them is cheaper than walking the row
SEEDS = 2**63

Unit = Literal["element", "warp"]


@dataclass(frozen=True)
class Arrival:
    """An order of a row's scores.

    Attributes:
        kind: ``index`` (ascending), ``reverse``, ``random`` (uniform, by seed), ``walk`` (as threads walk the row, by
            seed) or ``explicit``.
        unit: ``element``, or ``warp``: runs of 32 consecutive scores stay together (the order of their lanes is kept).
            A walk has units of its own.
        seed: of a random order or a walk, from 0 to 2^63 - 1. order: the positions in arrival order, for ``explicit``.
        walk: how the threads walk, for ``walk``; ``workbench.paths.walk.walk_of`` has that of a path.
    """

    kind: OrderKind = "index"
    unit: Unit = "element"
    seed: int = 0
    order: tuple[int, ...] = ()
    walk: Walk | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.order, tuple) or not all(type(at) is int for at in self.order):
            raise UsageError(f"order is {described(self.order)}; a tuple of whole numbers is needed")
        check_fields(self)
        if self.kind not in get_args(OrderKind):
            raise UsageError(f"unknown arrival order {self.kind!r}; known orders: {listed(get_args(OrderKind))}")
        if self.unit not in get_args(Unit):
            raise UsageError(f"unknown arrival unit {self.unit!r}; known units: {listed(get_args(Unit))}")
        if not 0 <= self.seed < SEEDS:
            raise UsageError(f"seed {described(self.seed)} is no integer from 0 to {SEEDS - 1}")
        if (self.kind == "walk") != (self.walk is not None):
            raise UsageError("a walk, and no other arrival order, needs to know how the threads walk the row")

    @property
    def words(self) -> str:
        """As it is told of: ``random, seed 0``, ``index``."""
        return f"{self.kind}, seed {self.seed}" if self.kind in ("random", "walk") else self.kind

    def sort(self, indices: torch.Tensor, length: int) -> torch.Tensor:
        """``indices`` (ascending positions of a row of ``length``) in arrival order.

        One arrival order is one order of the whole row: subsets sorted separately agree with each other.
        """
        if self.kind == "index":
            return indices
        if self.kind == "reverse" and self.unit == "element":
            return indices.flip(0)
        if self.kind == "explicit":
            if sorted(self.order) != list(range(length)):
                raise UsageError(f"an explicit arrival order must hold each of 0..{length - 1} once")
            order = torch.tensor(self.order, dtype=torch.int64)
            ranking = _Ranking(order=order)
        else:
            ranking = _ranking(self.kind, self.unit, self.seed, self.walk, length)
        if indices.numel() * FEW < length:
            return indices[torch.argsort(ranking.rank.to(indices.device)[indices])]
        order = ranking.order.to(indices.device)
        return order[where_true(flags(indices, length)[order])]


def flags(indices: torch.Tensor, length: int) -> torch.Tensor:
    """Which positions of a row are among ``indices``, bool [length]."""
    held = torch.zeros(length, dtype=torch.bool, device=indices.device)
    held[indices] = True
    return held


class _Ranking:
    """When each position arrives, and the positions in arrival order: one is given, and the other made when asked for.

    Neither is to be written to.
    """

    def __init__(self, *, rank: torch.Tensor | None = None, order: torch.Tensor | None = None) -> None:
        if rank is not None:
            self.rank = rank
        if order is not None:
            self.order = order

    @cached_property
    def rank(self) -> torch.Tensor:
        return _inverse(self.order)

    @cached_property
    def order(self) -> torch.Tensor:
        return _inverse(self.rank)


@lru_cache(maxsize=4)  # the models of one row share their order
def _ranking(kind: str, unit: str, seed: int, walk: Walk | None, length: int) -> _Ranking:
    if walk is not None:
        return _Ranking(order=walked(walk, length, seed))
    count = length if unit == "element" else -(-length // WARP)
    rank = torch.arange(count - 1, -1, -1) if kind == "reverse" else random_ranks(count, seed)
    if unit == "warp":  # whole warps move, their lanes stay in order; the last one may be short
        order = (_inverse(rank)[:, None] * WARP + torch.arange(WARP)).flatten()
        order = order[order < length]
        return _Ranking(order=order)
    return _Ranking(rank=rank)


def random_ranks(count: int, seed: int) -> torch.Tensor:
    """When each of so many scores, or warps, arrives in the random order of a seed, int64 [count]."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _inverse(permutation: torch.Tensor) -> torch.Tensor:
    inverse = torch.empty_like(permutation)
    inverse[permutation] = torch.arange(permutation.numel())
    return inverse
