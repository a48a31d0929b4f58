"""Arrival order: the order in which threads reach the buffer, the one thing that a row does not determine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from workbench.errors import UsageError
from workbench.words import listed

WARP = 32
SEEDS = 2**63

Unit = Literal["element", "warp"]
OrderKind = Literal["index", "reverse", "random", "explicit"]


@dataclass(frozen=True)
class Arrival:
    """An order of a row's scores.

    Attributes:
        kind: ``index`` (ascending), ``reverse``, ``random`` (uniform, by seed) or ``explicit``.
        unit: ``element``, or ``warp``: runs of 32 consecutive scores stay together (the order of their lanes is kept).
        seed: of a random order, from 0 to 2^63 - 1. order: the positions in arrival order, for ``explicit``.
    """

    kind: OrderKind = "index"
    unit: Unit = "element"
    seed: int = 0
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(OrderKind):
            raise UsageError(f"unknown arrival order {self.kind!r}; known orders: {listed(get_args(OrderKind))}")
        if self.unit not in get_args(Unit):
            raise UsageError(f"unknown arrival unit {self.unit!r}; known units: {listed(get_args(Unit))}")
        if not isinstance(self.seed, int) or not 0 <= self.seed < SEEDS:
            raise UsageError(f"seed {self.seed!r} is no integer from 0 to {SEEDS - 1}")

    def sort(self, indices: torch.Tensor, length: int) -> torch.Tensor:
        """``indices`` (ascending positions of a row of ``length``) in arrival order.

        One arrival order is one order of the whole row: subsets sorted separately agree with each other.
        """
        if self.kind == "index":
            return indices
        if self.kind == "explicit":
            if sorted(self.order) != list(range(length)):
                raise UsageError(f"an explicit arrival order must hold each of 0..{length - 1} once")
            rank = torch.empty(length, dtype=torch.int64)
            rank[torch.tensor(self.order, dtype=torch.int64)] = torch.arange(length)
        elif self.unit == "element":
            rank = self._ranks(length)
        else:
            rank = self._ranks(-(-length // WARP)).repeat_interleave(WARP) * WARP
            rank = rank + torch.arange(rank.numel()) % WARP
        return indices[torch.argsort(rank.to(indices.device)[indices])]

    def _ranks(self, count: int) -> torch.Tensor:
        if self.kind == "reverse":
            return torch.arange(count - 1, -1, -1)
        return torch.randperm(count, generator=torch.Generator().manual_seed(self.seed))
