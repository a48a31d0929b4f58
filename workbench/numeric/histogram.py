"""Coarse histograms and the bin that holds the k-th largest score."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.numeric.keys import half_patterns

HALF_BINS = 1 << 16


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


@dataclass(frozen=True, eq=False)
class HalfHistogram:
    """Counts of a row's scores by their fp16 pattern: every coarse histogram of the row is a sum over it.

    Attributes:
        scores: float32 [n], the valid scores. patterns: int16 [n], their fp16 bit patterns.
        counts: int64 [65536], by ordered fp16 key; NaN at 65535.
        nan: how many scores are NaN.
    """

    scores: torch.Tensor
    patterns: torch.Tensor
    counts: torch.Tensor
    nan: int

    def bins(self, bits: int) -> torch.Tensor:
        """Populations of the 2^bits coarse bins, int64, ascending by score."""
        return self.counts.view(1 << bits, -1).sum(1)

    def members(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in one coarse bin, int64, ascending."""
        return torch.nonzero(self._within(bin_, bits)).flatten()

    def values(self, bin_: int, bits: int) -> torch.Tensor:
        """The scores in one coarse bin, in index order."""
        return self.scores[self._within(bin_, bits)]

    def above(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in bins above ``bin_``, int64, ascending."""
        first = (bin_ + 1) << (16 - bits)
        if first >= HALF_BINS:
            return torch.empty(0, dtype=torch.int64, device=self.scores.device)
        mask = _at_least(self.patterns, first)
        if self.nan:  # NaN patterns differ between converters; their key is the greatest by definition
            mask |= torch.isnan(self.scores)
        return torch.nonzero(mask).flatten()

    def _within(self, bin_: int, bits: int) -> torch.Tensor:
        shift = 16 - bits
        first, last = bin_ << shift, (bin_ << shift) + (1 << shift) - 1
        mask = _at_least(self.patterns, first)
        if last < HALF_BINS - 1:
            mask &= ~_at_least(self.patterns, last + 1)
        if self.nan:
            nan = torch.isnan(self.scores)
            mask = mask | nan if last == HALF_BINS - 1 else mask & ~nan
        return mask


def _at_least(patterns: torch.Tensor, key: int) -> torch.Tensor:
    """Which int16 fp16 patterns have an ordered key of at least ``key``."""
    if key >= 0x8000:  # a positive score: signed comparison is the order
        return patterns >= key - 0x8000
    # Negative patterns are the int16 values below 0, ascending towards -inf: ordered key = -1 - pattern.
    return (patterns >= 0) | (patterns <= -1 - key)


def half_histogram(scores: torch.Tensor) -> HalfHistogram:
    """Histogram of float32 scores [n] over all 65536 ordered fp16 keys, in one pass over the row."""
    patterns = half_patterns(scores)
    raw = torch.bincount(patterns.to(torch.int64) + 0x8000, minlength=HALF_BINS)  # 0: pattern 0x8000 (-0.0)
    # Negative patterns 0x8000.. ascend with magnitude, so their ordered keys descend from 0x7FFF.
    counts = torch.cat([raw[:0x8000].flip(0), raw[0x8000:]])
    above_inf = counts[0xFC01:].sum()
    below_inf = counts[:0x03FF].sum()
    nan = int(above_inf + below_inf)
    if nan:
        counts[0xFC01:] = 0
        counts[:0x03FF] = 0
        counts[0xFFFF] = nan
    return HalfHistogram(scores, patterns, counts, nan)


def locate(bins: torch.Tensor, k: int) -> Threshold:
    """The threshold bin of a histogram, int64 [bins] ascending by score, for 1 <= k <= total."""
    from_top = bins.flip(0).cumsum(0)
    at = int(torch.searchsorted(from_top, k))
    reached, population = int(from_top[at]), int(bins[len(bins) - 1 - at])
    above = reached - population
    return Threshold(len(bins) - 1 - at, above, population, k - above)
