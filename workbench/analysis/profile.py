"""One row's histogram and what was counted on it, shared by all paths."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from workbench.numeric.histogram import HalfHistogram, Threshold, half_histogram, locate
from workbench.numeric.keys import value_keys


class Cut:
    """The members of a threshold bin around the cut-off value.

    Args:
        members: their indices, ascending. scores: [length], the row's. need: how many must be taken.

    Attributes:
        members: as given. keys: value keys of the members. cut: the key of the cut-off value.
        better, equal: how many members lie above it and at it. equal_need: how many of the equal must be taken.
    """

    def __init__(self, members: torch.Tensor, scores: torch.Tensor, need: int) -> None:
        self.members = members
        self.keys = value_keys(scores[members])
        self.cut = torch.topk(self.keys, need, sorted=False).values.min()
        self.better, self.equal = int((self.keys > self.cut).sum()), int((self.keys == self.cut).sum())
        self.equal_need = need - self.better

    @cached_property
    def order_correlation(self) -> float:
        """Spearman's rank correlation of score and position; 0 where all values are equal."""
        values = self.keys.cpu().numpy()
        order = np.argsort(values)
        ascending = values[order]
        starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
        if starts.size < 2:
            return 0.0
        ends = np.append(starts[1:], order.size)
        ranks = np.repeat((starts + ends - 1) / 2, ends - starts)  # equal values share their mean rank
        return float(np.corrcoef(ranks, order)[0, 1])


class RowProfile:
    """One row's counts.

    Args:
        scores: [length], the valid scores. dtype: their name. k: winners wanted.
    """

    def __init__(self, scores: torch.Tensor, dtype: str, k: int) -> None:
        self.scores, self.dtype, self.k = scores, dtype, k
        self._thresholds: dict[int, Threshold] = {}
        self._cuts: dict[int, Cut] = {}

    @property
    def length(self) -> int:
        """Valid scores."""
        return self.scores.numel()

    @property
    def countable(self) -> bool:
        """Whether coarse keys and a k-th score exist: float32, and more scores than k."""
        return self.dtype == "float32" and self.length > self.k

    @property
    def nan(self) -> int:
        """How many valid scores are NaN."""
        return self.half.nan if self.dtype == "float32" else int(torch.isnan(self.scores).sum())

    @cached_property
    def half(self) -> HalfHistogram:
        """The row's histogram over fp16 keys; float32 rows only."""
        return half_histogram(self.scores)

    def threshold(self, bits: int) -> Threshold:
        """The threshold bin under a coarse key of ``bits`` bits."""
        if bits not in self._thresholds:
            self._thresholds[bits] = locate(self.half.bins(bits), self.k)
        return self._thresholds[bits]

    def cut(self, bits: int) -> Cut:
        """How the threshold bin's members lie around the cut-off value."""
        if bits not in self._cuts:
            at = self.threshold(bits)
            self._cuts[bits] = Cut(self.half.members(at.bin, bits), self.scores, at.need)
        return self._cuts[bits]
