"""Per-row value diffs: which winners a selection lost, and what it kept in their place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from workbench.analysis.verdict import Verdict
from workbench.numeric.keys import value_keys


@dataclass(frozen=True)
class DiffEntry:
    """One value of the difference.

    Attributes:
        status: ``lost`` (an exact winner that the selection lacks) or ``kept`` (held instead).
        rank: place of the value in the whole row, 1 for the best; equal values share the best place.
        index: position in the row, relative to its start. score: the value.
        gap: score minus the k-th best score; 0 or more for lost values, less for kept ones; NaN where one is NaN.
    """

    status: Literal["lost", "kept"]
    rank: int
    index: int
    score: float
    gap: float


def value_diff(scores: torch.Tensor, exact: torch.Tensor, verdict: Verdict) -> list[DiffEntry]:
    """The lost and wrongly kept values of a selection, each best first, lost ones before kept ones.

    Args:
        scores: [length], the valid scores. exact: int [k], the reference's indices, -1 padded.
        verdict: of the selection.
    """
    lost, kept = verdict.difference.lost, verdict.difference.kept
    if not lost.numel() and not kept.numel():
        return []
    best = exact[exact >= 0]
    cut = float(scores[best[-1].long()])
    keys = value_keys(scores).sort().values
    entries = []
    for status, where in (("lost", lost), ("kept", kept)):
        ranks = keys.numel() - torch.searchsorted(keys, value_keys(scores[where]), right=True) + 1
        for index, rank, score in zip(where.tolist(), ranks.tolist(), scores[where].tolist(), strict=True):
            entries.append(DiffEntry(status, rank, index, score, score_gap(score, cut)))  # type: ignore[arg-type]
    return entries


def score_gap(score: float, cut: float) -> float:
    """Score minus the cut-off value; 0 for equal infinities, NaN where one is NaN."""
    if score == cut:  # equal infinities have no difference
        return 0.0
    return math.nan if math.isnan(score) or math.isnan(cut) else score - cut


def cutoff(scores: torch.Tensor, exact: torch.Tensor) -> float | None:
    """The k-th best score of a row, the last one of the reference; ``None`` for an empty row."""
    best = exact[exact >= 0]
    return float(scores[best[-1].long()]) if best.numel() else None
