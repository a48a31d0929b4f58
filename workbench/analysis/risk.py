"""The risk of a row on a path over every arrival order, computed without running the path.

All buffered selectors lose winners in one way: the threshold bin holds ``population`` scores, the buffer takes
the first ``capacity`` to arrive, and the ``need`` best of those are selected exactly. Which members arrive
first is the only unknown. With ``better`` members above the bin's cut-off value and ``equal`` members at it, of
which ``equal_need`` must be taken,

    missing = (better that were dropped) + max(0, equal_need - equal that were stored).

A uniformly random arrival order keeps a uniformly random subset, so both terms follow hypergeometric laws; the
extremes follow from dropping the best or the worst members first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from workbench.numeric.histogram import HalfHistogram, Threshold, half_histogram, locate
from workbench.numeric.hypergeometric import all_survive, survivors
from workbench.numeric.keys import value_keys
from workbench.paths.catalog import PATHS
from workbench.paths.spec import Path, Variant

Level = Literal["safe", "at risk", "certain"]


@dataclass(frozen=True)
class Risk:
    """The risk of one row on one path and variant.

    Attributes:
        path, variant: their names. refused: the path's unmet conditions; the risk is then not given, though the
            populations are, where they can be counted.
        level: ``safe`` (no arrival order loses), ``at risk`` (some do), ``certain`` (all do); ``None`` if unknown.
        p_clean: probability that a uniformly random arrival order loses nothing.
        expected_missing: mean number of values lost over those orders.
        least_missing, most_missing: over every arrival order.
        threshold_bin, above, population, need, capacity: as in the design; ``None`` without a coarse key or buffer.
        breach: population > capacity. buffered: whether the bin goes through the buffer at all; a bin that is taken
            whole bypasses it on some paths, and a breach then loses nothing.
        order_correlation: rank correlation of score and position within a breached bin, -1 to 1. Near ±1 the scores
            rise or fall along the row, real arrival follows position, and the mean over random orders does not
            describe it (the extremes still hold).
        note: what else a reader must know.
    """

    path: str
    variant: str
    refused: tuple[str, ...] = ()
    level: Level | None = None
    p_clean: float | None = None
    expected_missing: float | None = None
    least_missing: int | None = None
    most_missing: int | None = None
    threshold_bin: int | None = None
    above: int | None = None
    population: int | None = None
    need: int | None = None
    capacity: int | None = None
    breach: bool = False
    buffered: bool = False
    order_correlation: float | None = None
    note: str = ""


class RowProfile:
    """One row's histogram and what was counted on it, shared by all paths.

    Args:
        scores: [length], the valid scores. dtype: their name. k: winners wanted.
    """

    def __init__(self, scores: torch.Tensor, dtype: str, k: int) -> None:
        self.scores, self.dtype, self.k = scores, dtype, k
        self._half: HalfHistogram | None = None
        self._thresholds: dict[int, Threshold] = {}
        self._cuts: dict[int, _Cut] = {}

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
        return self.half().nan if self.dtype == "float32" else int(torch.isnan(self.scores).sum())

    def half(self) -> HalfHistogram:
        """The row's histogram over fp16 keys; float32 rows only."""
        if self._half is None:
            self._half = half_histogram(self.scores)
        return self._half

    def threshold(self, bits: int) -> Threshold:
        """The threshold bin under a coarse key of ``bits`` bits."""
        if bits not in self._thresholds:
            self._thresholds[bits] = locate(self.half().bins(bits), self.k)
        return self._thresholds[bits]

    def cut(self, bits: int) -> _Cut:
        """How the threshold bin's members lie around the cut-off value."""
        at = self.threshold(bits)
        if bits not in self._cuts:
            self._cuts[bits] = _Cut.of(self.scores[self.half().members(at.bin, bits)], at.need)
        return self._cuts[bits]


@dataclass(frozen=True, eq=False)
class _Cut:
    """Members of a bin better than the cut-off value, equal to it, and how many equal ones are wanted."""

    keys: torch.Tensor
    better: int
    equal: int
    equal_need: int

    @staticmethod
    def of(values: torch.Tensor, need: int) -> _Cut:
        keys = value_keys(values)
        cut = torch.topk(keys, need, sorted=False).values.min()
        better, equal = int((keys > cut).sum()), int((keys == cut).sum())
        return _Cut(keys, better, equal, need - better)

    @cached_property
    def order_correlation(self) -> float:
        """Rank correlation of score and position."""
        return _rank_correlation(self.keys)


def _rank_correlation(keys: torch.Tensor) -> float:
    """Spearman's correlation of values and positions; 0 where all values are equal."""
    values = keys.cpu().numpy()
    order = np.argsort(values)
    ascending = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    if starts.size < 2:
        return 0.0
    ends = np.append(starts[1:], order.size)
    ranks = np.repeat((starts + ends - 1) / 2, ends - starts)  # equal values share their mean rank
    return float(np.corrcoef(ranks, order)[0, 1])


def risk(profile: RowProfile, path: Path, variant: Variant | None = None) -> Risk:
    """The risk of a row on a path.

    Args:
        profile: of the row. variant: of the path; ``stock`` by default.
    """
    variant = variant or path.variant("stock")
    found = _located(profile, path, variant)
    if found.refused:
        return found
    if path.family == "identity":
        return _settled(found, 0)
    if path.family == "radix":
        return _settled(found, _signed_nan_missing(profile))
    if variant.lossless:
        return _lossless(profile, found, variant)
    return _buffered(profile, path, found)


def census(profile: RowProfile, paths: tuple[Path, ...] = PATHS) -> list[Risk]:
    """Risk of one row on every path's stock variant, without running them."""
    return [risk(profile, path) for path in paths]


def _located(profile: RowProfile, path: Path, variant: Variant) -> Risk:
    """What can be said before the risk: refusals, and the threshold bin where it can be counted."""
    refused = tuple(path.unmet(k=profile.k, length=profile.length, dtype=profile.dtype))
    found = Risk(path.name, variant.name, refused)
    if path.key_bits is None or path.buffer is None or not profile.countable:
        return found
    at, capacity = profile.threshold(path.key_bits), path.buffer.slots(profile.k)
    return replace(
        found,
        threshold_bin=at.bin,
        above=at.above,
        population=at.population,
        need=at.need,
        capacity=capacity,
        breach=at.population > capacity,
        buffered=path.buffer.whole_bin or at.need < at.population,
    )


def _settled(found: Risk, missing: int) -> Risk:
    """The risk of a path whose loss does not depend on arrival."""
    return replace(
        found,
        level="certain" if missing else "safe",
        p_clean=0.0 if missing else 1.0,
        expected_missing=float(missing),
        least_missing=missing,
        most_missing=missing,
    )


def _lossless(profile: RowProfile, found: Risk, variant: Variant) -> Risk:
    nan = profile.nan
    if nan:
        note = f"the row holds {nan} NaN; what {found.path} {found.variant} does with them is not established"
        return replace(found, note=note)
    return replace(_settled(found, 0), note=variant.note)


def _buffered(profile: RowProfile, path: Path, found: Risk) -> Risk:
    assert path.key_bits is not None
    assert path.buffer is not None
    if not found.buffered or not found.breach:
        return _settled(found, 0)
    at, capacity, cut = profile.threshold(path.key_bits), path.buffer.slots(profile.k), profile.cut(path.key_bits)
    dropped, spare = at.population - capacity, cut.equal - cut.equal_need
    better_dropped = min(dropped, cut.better)
    most = better_dropped + max(0, min(dropped - better_dropped, cut.equal) - spare)
    if not most:
        return _settled(found, 0)
    least = max(0, at.need - capacity)
    p_clean = 0.0
    if not least:
        stored, mass = survivors(at.population - cut.better, cut.equal, capacity - cut.better)
        p_clean = all_survive(at.population, cut.better, capacity) * float(mass[stored >= cut.equal_need].sum())
    stored, mass = survivors(at.population, cut.equal, capacity)
    ties_lost = float((mass * (cut.equal_need - stored).clamp(min=0)).sum())
    return replace(
        found,
        level="certain" if least else "at risk",
        p_clean=p_clean,
        expected_missing=cut.better * dropped / at.population + ties_lost,
        least_missing=least,
        most_missing=most,
        order_correlation=cut.order_correlation,
    )


def _signed_nan_missing(profile: RowProfile) -> int:
    """Winners that an exact-key path loses since it ranks NaN with the sign set below everything."""
    total = profile.nan
    if not total:
        return 0
    signed = int((torch.isnan(profile.scores) & torch.signbit(profile.scores)).sum())
    taken = min(profile.k, total - signed) + max(0, profile.k - (profile.length - signed))
    return min(profile.k, total) - taken
