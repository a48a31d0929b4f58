"""The verdict of a selection: is it valid, and does it lack a value of the exact top-k?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from workbench.numeric.select import Difference, difference
from workbench.rendering import Rendered

Kind = Literal["invalid", "lossy", "ties", "exact"]
LOST: tuple[Kind, ...] = ("lossy", "invalid")  # of a selection that is not an exact top-k
EMPTY = -1


@dataclass(frozen=True, eq=False)
class Verdict(Rendered):
    """How one selection compares with the exact reference.

    Attributes:
        kind: the first that applies of ``invalid`` (a duplicate, out-of-range, unwritten or short slot), ``lossy``
            (missing > 0), ``ties`` (no value lost, another index set than the reference's) and ``exact``.
        missing: values of the exact top-k that the selection lacks, as a multiset.
        recall: 1 - missing / min(k, length); 1 for an empty row.
        max_score_gap: the greatest lost score minus the smallest one wrongly kept; ``None`` where nothing is lost or
            nothing stands in the lost one's place, NaN where a NaN was lost.
        duplicates, out_of_range, unwritten, short: slots that repeat an index, lie outside [0, length), were never
            written, or are -1 inside min(k, length).
        wanted: how many winners there are, min(k, length).
        difference: which winners were lost, and what was kept instead.
    """

    kind: Kind
    missing: int
    recall: float
    max_score_gap: float | None
    duplicates: int
    out_of_range: int
    unwritten: int
    short: int
    wanted: int
    difference: Difference


def judge(scores: torch.Tensor, exact: torch.Tensor, indices: torch.Tensor, poison: int | None = None) -> Verdict:
    """Judge one selection.

    Args:
        scores: [length], the valid scores of the row.
        exact: int [k], the reference's indices, -1 padded.
        indices: int [k], the selection.
        poison: the value that the output held before the selector ran, if it was poisoned.
    """
    length, k = scores.numel(), exact.numel()
    slots = indices.to(torch.int64)
    wanted = min(k, length)
    is_unwritten = slots == poison if poison is not None else torch.zeros_like(slots, dtype=torch.bool)
    is_empty = slots == EMPTY
    inside = (slots >= 0) & (slots < length)
    unique = torch.unique(slots[inside])
    unwritten = int(is_unwritten.sum())
    short = int(is_empty[:wanted].sum()) + max(0, wanted - slots.numel())
    out_of_range = int((~inside & ~is_empty & ~is_unwritten).sum())
    duplicates = int(inside.sum()) - unique.numel()
    best = exact[exact >= 0].to(torch.int64)
    diff = difference(scores, best, unique)
    missing = diff.lost.numel()
    kind: Kind
    if duplicates or out_of_range or unwritten or short:
        kind = "invalid"
    elif missing:
        kind = "lossy"
    elif torch.equal(best.sort().values, unique):
        kind = "exact"
    else:
        kind = "ties"
    return Verdict(
        kind=kind,
        missing=missing,
        recall=1 - missing / wanted if wanted else 1.0,
        max_score_gap=_gap(scores, diff),
        duplicates=duplicates,
        out_of_range=out_of_range,
        unwritten=unwritten,
        short=short,
        wanted=wanted,
        difference=diff,
    )


def _gap(scores: torch.Tensor, diff: Difference) -> float | None:
    if not diff.lost.numel() or not diff.kept.numel():
        return None
    best, worst = float(scores[diff.lost[0]]), float(scores[diff.kept[-1]])
    return math.nan if math.isnan(best) else best - worst
