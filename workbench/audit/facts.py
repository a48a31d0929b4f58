"""What a row's scores are, beside what selectors do to them: NaN, -inf, what fp16 cannot hold, and ties at the cut."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.analysis.profile import RowProfile
from workbench.numeric.histogram import GREATEST_NUMBER, LEAST_NUMBER
from workbench.numeric.keys import GREATEST_HALF, signed_keys

# The greatest number of each dtype that fp16 holds as well; in fp16 itself nothing is beyond.
MOST_HALF = {torch.float32: GREATEST_HALF, torch.bfloat16: 65280.0}


@dataclass(frozen=True)
class Facts:
    """Counts over the valid scores of a row.

    Attributes:
        nan, neg_inf: how many are these. fp16_overflow: finite, and beyond 65504 in magnitude.
        ties: how many equal the k-th best, itself among them; ``None`` where there are no more than k.
    """

    nan: int
    neg_inf: int
    fp16_overflow: int
    ties: int | None


def facts(profile: RowProfile) -> Facts:
    """The facts of a row, from its histogram where that tells them."""
    scores = profile.scores
    if profile.dtype != "float32":
        return _of_16_bits(scores, profile.k)
    known = profile.counts
    if known is not None:
        return Facts(known.nan, known.minus_infinity, known.past_half, _ties(profile))
    counts = profile.half.counts
    # The fp16 keys at both ends: the infinities, with what rounds to them, and the numbers next to these.
    low, high = counts[LEAST_NUMBER : LEAST_NUMBER + 2].tolist(), counts[GREATEST_NUMBER - 1 : GREATEST_NUMBER + 1]
    neg_inf = int((scores == -torch.inf).sum()) if low[0] else 0
    beyond = 0
    if sum(low) > neg_inf or bool(high.any()):
        beyond = _beyond(scores)
    return Facts(profile.nan, neg_inf, beyond, _ties(profile))


def _beyond(scores: torch.Tensor) -> int:
    return int(((scores.abs() > MOST_HALF[scores.dtype]) & torch.isfinite(scores)).sum())


def _ties(profile: RowProfile) -> int | None:
    if not profile.countable:
        return None
    # Equal scores lie in one bin of any key: of one whose threshold is known already.
    cut = profile.cut(16 if profile.counts is None else max(profile.counts.thresholds))
    # Both zeros are one value, though they lie in two bins.
    return int((profile.scores == 0).sum()) if cut.cut == 0 else cut.equal


def _of_16_bits(scores: torch.Tensor, k: int) -> Facts:
    nan = int(torch.isnan(scores).sum())
    neg_inf = int((scores == -torch.inf).sum())
    beyond = _beyond(scores) if scores.dtype in MOST_HALF else 0
    if scores.numel() <= k:
        return Facts(nan, neg_inf, beyond, None)
    if nan >= k:
        return Facts(nan, neg_inf, beyond, nan)
    numbers = scores[~torch.isnan(scores)] if nan else scores
    values = numbers + 0.0  # -0.0 becomes +0.0: they are one value
    counts = torch.bincount(signed_keys(values).to(torch.int32) + 0x8000, minlength=1 << 16)
    from_top = counts.flip(0).cumsum(0)
    at = int(torch.searchsorted(from_top, k - nan))
    return Facts(nan, neg_inf, beyond, int(counts[len(counts) - 1 - at]))
