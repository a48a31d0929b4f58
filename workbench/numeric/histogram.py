"""Coarse histograms and the bin that holds the k-th largest score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from workbench.numeric.kept import Kept
from workbench.numeric.keys import half_patterns, where_true

HALF_BINS = 1 << 16
_KEPT = 8  # sets of members, of the largest 8 bytes a score
LEAST_NUMBER, GREATEST_NUMBER = 0x03FF, 0xFC00  # ordered fp16 keys of -inf and +inf; beyond them lies NaN


@dataclass(frozen=True)
class Threshold:
    """Where the k-th largest score falls.

    Attributes:
        bin: the threshold bin, which holds the k-th largest score.
        above: scores in higher bins (fewer than k).
        population: scores in the threshold bin.
        need: how many of the bin must be taken, k - above; from 1 to ``population``.
    """

    bin: int
    above: int
    population: int
    need: int


class HalfHistogram:
    """Counts of a row's scores by their fp16 pattern: every coarse histogram of the row is a sum over it.

    They are made when first asked for; members of a bin are found without them.

    Args:
        scores: float32 [n], the valid scores. nan: how many of them are NaN, where that was counted already.
    """

    def __init__(self, scores: torch.Tensor, nan: int | None = None) -> None:
        self.scores, self._nan = scores, nan
        self._members: Kept[torch.Tensor] = Kept(_KEPT)

    @cached_property
    def patterns(self) -> torch.Tensor:
        """The fp16 bit patterns of the scores, int16 [n]."""
        return half_patterns(self.scores)

    @property
    def nan(self) -> int:
        """How many scores are NaN."""
        return self._counted[1] if self._nan is None else self._nan

    @property
    def counts(self) -> torch.Tensor:
        """How many scores have each ordered fp16 key, int64 [65536]; NaN at 65535."""
        return self._counted[0]

    @cached_property
    def _counted(self) -> tuple[torch.Tensor, int]:
        raw = torch.bincount(
            self.patterns.to(torch.int32).add_(0x8000), minlength=HALF_BINS
        )  # 0: pattern 0x8000 (-0.0)
        # Negative patterns 0x8000.. ascend with magnitude, so their ordered keys descend from 0x7FFF.
        counts = torch.cat([raw[:0x8000].flip(0), raw[0x8000:]])
        nan = int(counts[GREATEST_NUMBER + 1 :].sum() + counts[:LEAST_NUMBER].sum())
        if nan:
            counts[GREATEST_NUMBER + 1 :] = 0
            counts[:LEAST_NUMBER] = 0
            counts[-1] = nan
        return counts, nan

    def bins(self, bits: int) -> torch.Tensor:
        """Populations of the 2^bits coarse bins, int64, ascending by score."""
        return self.counts.view(1 << bits, -1).sum(1)

    @cached_property
    def _up_to(self) -> torch.Tensor:
        """How many scores lie up to each fp16 key, int64 [65536]."""
        return self.counts.cumsum(0)

    def threshold(self, bits: int, k: int) -> Threshold:
        """As ``locate`` of ``bins(bits)``, for 1 <= k <= n, without summing them."""
        total, width = self.scores.numel(), 1 << (16 - bits)
        # The fp16 key of the k-th largest score; its top bits are its bin under any coarse key.
        bin_ = int(torch.searchsorted(self._up_to, total - k, right=True)) >> (16 - bits)
        below = int(self._up_to[bin_ * width - 1]) if bin_ else 0
        reached = int(self._up_to[(bin_ + 1) * width - 1])
        above = total - reached
        return Threshold(bin_, above, reached - below, k - above)

    def at_or_above(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in one coarse bin and in all above it, int64, ascending."""
        return self._with_keys(bin_ << (16 - bits), HALF_BINS - 1)

    def members(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in one coarse bin, int64, ascending."""
        width = 1 << (16 - bits)
        return self._with_keys(bin_ * width, (bin_ + 1) * width - 1)

    def above(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in bins above ``bin_``, int64, ascending."""
        return self._with_keys((bin_ + 1) << (16 - bits), HALF_BINS - 1)

    def _with_keys(self, first: int, last: int) -> torch.Tensor:
        """Indices of the scores whose ordered fp16 keys are in [first, last], int64, ascending; they are shared."""
        return self._members.take((first, last), lambda: self._found(first, last))

    def _found(self, first: int, last: int) -> torch.Tensor:
        # NaN patterns differ between converters and their key is the greatest by definition: never compare them.
        numbers = range(max(first, LEAST_NUMBER), min(last, GREATEST_NUMBER) + 1)
        on_cpu = self.patterns.device.type == "cpu"
        # NumPy is several times faster at this.
        mask = with_numbers(self.patterns.numpy() if on_cpu else self.patterns, numbers)
        if self.nan and first < HALF_BINS <= last + 1:
            nan = torch.isnan(self.scores)
            mask |= nan.numpy() if on_cpu else nan
        return where_true(torch.as_tensor(mask))

    def forget(self) -> None:
        """Let go of the members that were found."""
        self._members.clear()


def with_numbers(patterns: np.ndarray | torch.Tensor, keys: range) -> np.ndarray | torch.Tensor:
    """Which fp16 patterns, int16 as signed integers, have an ordered key of this range, which holds no key of NaN."""
    if not keys:  # its bounds may be beyond int16, where torch compares with what they wrap to
        return patterns > patterns
    # As signed integers, patterns of positive scores ascend with the score and those of negative ones descend.
    mask = (patterns >= max(keys.start - 0x8000, 0)) & (patterns <= keys.stop - 1 - 0x8000)
    if keys.start < 0x8000:
        mask |= (patterns <= -1 - keys.start) & (patterns >= -min(keys.stop, 0x8000))
    return mask


@dataclass(frozen=True)
class RowCounts:
    """What one pass over a float32 row counts of its valid scores, wherever it was made.

    Attributes:
        length: how many there are. thresholds: by bits of the coarse key; none where there are no more than k scores.
        nan, minus_infinity: how many are NaN, and -inf. past_half: finite ones beyond 65504 in magnitude, which fp16
            cannot hold.
    """

    length: int
    thresholds: Mapping[int, Threshold]
    nan: int
    minus_infinity: int
    past_half: int


def half_histogram(scores: torch.Tensor) -> HalfHistogram:
    """Histogram of float32 scores [n] over all 65536 ordered fp16 keys, in one pass over the row."""
    return HalfHistogram(scores)


def locate(bins: torch.Tensor, k: int) -> Threshold:
    """The threshold bin of a histogram, int64 [bins] ascending by score, for 1 <= k <= total."""
    from_top = bins.flip(0).cumsum(0)
    at = int(torch.searchsorted(from_top, k))
    reached, population = int(from_top[at]), int(bins[len(bins) - 1 - at])
    above = reached - population
    return Threshold(len(bins) - 1 - at, above, population, k - above)
