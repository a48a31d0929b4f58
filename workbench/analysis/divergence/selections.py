"""How two selections of one input differ, and which of them lost winners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from workbench.analysis.diff import cutoff, score_gap
from workbench.analysis.repeatability import Kind, compare
from workbench.analysis.verdict import LOST, judge
from workbench.analysis.verdict import Kind as VerdictKind
from workbench.numeric.keys import value_keys

Side = Literal["a", "b"]


@dataclass(frozen=True)
class Judged:
    """One side against the exact reference: its verdict, the values it lacks, and of how many."""

    verdict: VerdictKind
    missing: int
    of: int

    @property
    def lossy(self) -> bool:
        """Whether this side lost winners or holds invalid slots."""
        return self.verdict in LOST


@dataclass(frozen=True)
class Held:
    """An index that one side alone holds: its score, and the score minus the k-th best one."""

    index: int
    score: float
    gap: float
    side: Side


@dataclass(frozen=True)
class SelectionDifference:
    """How two selections of one row differ.

    Attributes:
        kind: by values, by members of a tie, or by order alone. a, b: each side against the exact reference.
        slots: places at which they hold another index. first_slot: the first of them, ``None`` if there is none.
        cut: the k-th best score, ``None`` for an empty row.
        held: the indices that one side alone holds, best score first, smaller index first.
        length, nan: how many scores are valid, and how many of them are NaN.
    """

    kind: Kind
    a: Judged
    b: Judged
    slots: int
    first_slot: int | None
    cut: float | None
    held: tuple[Held, ...]
    length: int
    nan: int


def judged(scores: torch.Tensor, exact: torch.Tensor, indices: torch.Tensor) -> Judged:
    """One selection against the reference; arguments as for ``judge``."""
    verdict = judge(scores, exact, indices)
    return Judged(verdict.kind, verdict.missing, min(exact.numel(), scores.numel()))


def selection_difference(
    scores: torch.Tensor, exact: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> SelectionDifference:
    """How two selections of one row differ.

    Args:
        scores: [length], the valid scores. exact: int [k], the reference's. a, b: integers [k].
    """
    slots = min(a.numel(), b.numel())
    other = torch.nonzero(a[:slots] != b[:slots]).flatten()
    beyond = max(a.numel(), b.numel()) - slots
    first = int(other[0]) if other.numel() else slots if beyond else None
    cut = cutoff(scores, exact)
    mine, theirs = (_valid(indices, scores.numel()) for indices in (a, b))
    only: list[tuple[Side, torch.Tensor]] = [
        ("a", mine[~torch.isin(mine, theirs)]),
        ("b", theirs[~torch.isin(theirs, mine)]),
    ]
    entries = [
        (-key, index, Held(index, score, score_gap(score, 0.0 if cut is None else cut), side))
        for side, where in only
        for index, score, key in zip(
            where.tolist(), scores[where].tolist(), value_keys(scores[where]).tolist(), strict=True
        )
    ]
    return SelectionDifference(
        kind=compare(scores, a, b),
        a=judged(scores, exact, a),
        b=judged(scores, exact, b),
        slots=other.numel() + beyond,
        first_slot=first,
        cut=cut,
        held=tuple(held for _, _, held in sorted(entries, key=lambda entry: entry[:2])),
        length=scores.numel(),
        nan=int(scores.isnan().sum()),
    )


def _valid(indices: torch.Tensor, length: int) -> torch.Tensor:
    slots = indices.to(torch.int64)
    unique: torch.Tensor = torch.unique(slots[(slots >= 0) & (slots < length)])
    return unique
