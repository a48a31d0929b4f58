"""The exact selection, and differences between selections as multisets of values."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.numeric.histogram import HalfHistogram
from workbench.numeric.keys import value_keys, where_true

LONG = 8192  # scores from which a pass by the histogram saves more than it costs
KEY16, ZERO = 16, 0x8000  # bits of the fp16 key, and the key of +0.0


def exact_topk(scores: torch.Tensor, k: int, half: HalfHistogram | None = None) -> torch.Tensor:
    """Indices of the k best scores, best first, ties to the smaller index.

    Args:
        scores: [n], float32, bfloat16 or float16, on any device.
        k: at least 1. half: the histogram of the scores, where the caller has it; long rows are then cut by it first.

    Returns:
        int64 [min(k, n)] on the device of ``scores``. NaN ranks above +inf whatever its sign; -0.0 equals +0.0.
    """
    if half is None or scores.numel() < max(LONG, k):
        return _exact(scores, k)
    bin_ = half.threshold(KEY16, k).bin
    best = half.at_or_above(bin_ - (bin_ == ZERO), KEY16)  # both zeros are one value, in two bins
    return best[_exact(scores[best], k)]


def _exact(scores: torch.Tensor, k: int) -> torch.Tensor:
    keys = value_keys(scores)
    k = min(k, keys.numel())
    if k == 0:
        return torch.empty(0, dtype=torch.int64, device=scores.device)
    cut = torch.topk(keys, k, sorted=False).values.min()
    better = where_true(keys > cut)
    ties = where_true(keys == cut)[: k - better.numel()]
    order = torch.sort(keys[better], descending=True, stable=True).indices
    return torch.cat([better[order], ties])


@dataclass(frozen=True, eq=False)
class Difference:
    """What a selection lacks of the exact one and what it holds instead, as multisets of values.

    Attributes:
        lost: indices of exact winners whose values the selection lacks, best first, int64.
        kept: indices the selection holds in their place, best first, int64 (fewer than ``lost`` if it is short).

    Among equal values it is undetermined which member is lost; the ones that the selection does not hold, the greater
    indices first, are named.
    """

    lost: torch.Tensor
    kept: torch.Tensor


def difference(scores: torch.Tensor, exact: torch.Tensor, selected: torch.Tensor) -> Difference:
    """Multiset difference of two index sets over one row.

    Args:
        scores: [n]. exact, selected: int64 indices into it, each without repeats.
    """
    only, spare = exact[~torch.isin(exact, selected)], selected[~torch.isin(selected, exact)]
    return Difference(lost=_surplus(scores, only, spare), kept=_surplus(scores, spare, only))


def _surplus(scores: torch.Tensor, only: torch.Tensor, spare: torch.Tensor) -> torch.Tensor:
    """Members of ``only`` whose values ``spare`` holds too few of, best first.

    Each of ``spare`` stands in for one equal value of ``only``; no index is in both.
    """
    keys = value_keys(scores[torch.cat([only, spare])])
    values, inverse = torch.unique(keys, return_inverse=True)
    covered = torch.bincount(inverse[only.numel() :], minlength=values.numel())
    # Rank each of ``only`` among its equals, smaller index first: the first ``covered`` are stood in for.
    order = torch.argsort(only)
    order = order[torch.sort(inverse[: only.numel()][order], stable=True).indices]
    groups = inverse[: only.numel()][order]
    starts = torch.searchsorted(groups, torch.arange(values.numel(), device=groups.device))
    rank = torch.arange(groups.numel(), device=groups.device) - starts[groups]
    surplus = only[order][rank >= covered[groups]]
    surplus = surplus.sort().values
    return surplus[torch.sort(value_keys(scores[surplus]), descending=True, stable=True).indices]
