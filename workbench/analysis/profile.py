"""One row's histogram and what was counted on it, shared by all paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import torch

from workbench.analysis.survival import NOTHING_LOST, Outlook, Part, outlook
from workbench.capture.row import Row
from workbench.numeric.histogram import HalfHistogram, RowCounts, Threshold
from workbench.numeric.keys import value_keys
from workbench.numeric.rowkeys import RowKeys
from workbench.numeric.select import exact_topk
from workbench.paths.lengths import Window
from workbench.paths.spec import Buffer

WHOLE = 1 << 21  # members whose sums of products int64 holds, so that every device gives the same number


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
        ascending, order = torch.sort(self.keys)
        _, equal = torch.unique_consecutive(ascending, return_counts=True)
        if equal.numel() < 2:
            return 0.0
        # Twice the distance from the middle, whole numbers: equal values share their mean rank.
        ends, count = equal.cumsum(0), order.numel()
        ranks = torch.repeat_interleave(2 * ends - equal - count, equal)
        places = 2 * order - (count - 1)
        if count > WHOLE:
            ranks, places = ranks.double(), places.double()
        together, of_ranks, of_places = (
            float(total) for total in ((ranks * places).sum(), (ranks * ranks).sum(), (places * places).sum())
        )
        found = together / math.sqrt(of_ranks) / math.sqrt(of_places)
        return min(max(found, -1.0), 1.0)  # of scores in order it can come out a rounding beyond


class Filling:
    """What a row's threshold bin does to one buffer.

    Args:
        cut: gives the bin's members when they are first needed. at: the threshold. buffer, k, length: of the call.

    Attributes:
        capacity: of the whole buffer, in scores. stored: members that it takes, whichever they are.
        breach: stored < population. buffered: whether the bin goes through the buffer at all.
    """

    def __init__(self, cut: Callable[[], Cut], at: Threshold, buffer: Buffer, k: int, length: int) -> None:
        self.at, self._cut, self._buffer, self._k, self._length = at, cut, buffer, k, length
        self.capacity = buffer.slots(k)
        self.buffered = buffer.whole_bin or at.need < at.population

    @cached_property
    def stored(self) -> int:
        """Members that the buffer takes."""
        ranks, population = self._buffer.ranks, self.at.population
        if ranks is not None and population > ranks.capacity:
            population = sum(part.stored for part in self._parts)
        return min(population, self.capacity)

    @property
    def breach(self) -> bool:
        """Whether the buffer takes less than the bin holds."""
        return self.stored < self.at.population

    @property
    def order_correlation(self) -> float:
        """Rank correlation of score and position within the bin."""
        return self._cut().order_correlation

    @cached_property
    def outlook(self) -> Outlook:
        """What is lost over every arrival order."""
        if not self.buffered or not self.breach:
            return NOTHING_LOST
        return outlook(self._parts, self.capacity, self._cut().equal_need)

    @cached_property
    def _parts(self) -> list[Part]:
        cut, ranks = self._cut(), self._buffer.ranks
        # Of the first to arrive anywhere, a rank with as much room has stored its own.
        if ranks is None or (not ranks.in_order and ranks.capacity >= self.capacity):
            return [Part(self.at.population, self.at.population, cut.better, cut.equal)]
        owners = ranks.owners(cut.members, self._length)
        members, better, equal = (
            torch.bincount(owners[mask], minlength=ranks.count).tolist()
            for mask in (slice(None), cut.keys > cut.cut, cut.keys == cut.cut)
        )
        shares = self._buffer.shares(members, self._k)
        return [Part(*counts) for counts in zip(members, shares, better, equal, strict=True)]


class _Bins:
    """A row's histogram, its threshold bins and their members, each made when it is first needed.

    Fillings need them later and must not hold the profile that holds them: rows in such a ring would stay in memory
    until Python looks for rings, which it does after many objects, however large they are.
    """

    def __init__(self, keys: RowKeys, k: int, counts: RowCounts | None) -> None:
        self.keys, self._k = keys, k
        self._thresholds: dict[int, Threshold] = dict(counts.thresholds) if counts is not None else {}
        self._cuts: dict[int, Cut] = {}

    def threshold(self, bits: int) -> Threshold:
        if bits not in self._thresholds:
            self._thresholds[bits] = self.keys.half.threshold(bits, self._k)
        return self._thresholds[bits]

    def cut(self, bits: int) -> Cut:
        if bits not in self._cuts:
            at = self.threshold(bits)
            self._cuts[bits] = Cut(self.keys.half.members(at.bin, bits), self.keys.scores, at.need)
        return self._cuts[bits]


class RowProfile:
    """One row's counts.

    Args:
        scores: [length], the valid scores. dtype: their name. k: winners wanted.
        window: what the row's length claims; without it, the scores as they are.
        width: padded columns of the row; its length where that is not known. start: its first valid cell.
        counts: of these scores with this k, where they were made already, as by ``engines.cuda.census`` for a whole
            batch; the row is then read only where its risk depends on which scores its bins hold.

    Attributes:
        counts: as given; ``None`` where the row is counted when that is first needed.

    Raises:
        ValueError: counts of another row.
    """

    def __init__(
        self,
        scores: torch.Tensor,
        dtype: str,
        k: int,
        window: Window | None = None,
        *,
        width: int | None = None,
        start: int = 0,
        counts: RowCounts | None = None,
    ) -> None:
        self.scores, self.dtype, self.k = scores, dtype, k
        self.window = window or Window(scores.numel(), scores.numel(), scores.numel())
        self.width, self.start = scores.numel() if width is None else width, start
        if counts is not None and (counts.length != scores.numel() or dtype != "float32"):
            raise ValueError(f"counts of {counts.length} float32 scores, for a row of {scores.numel()} of {dtype}")
        self.counts = counts
        self._bins = _Bins(RowKeys(scores, None if counts is None else counts.nan), k, counts)
        self._fillings: dict[tuple[int, Buffer], Filling] = {}

    def with_k(self, k: int) -> RowProfile:
        """The same scores with another number of winners wanted; their histogram is shared."""
        other = RowProfile(self.scores, self.dtype, k, self.window, width=self.width, start=self.start)
        other._bins.keys = self.keys
        return other

    @property
    def length(self) -> int:
        """Valid scores; of a row whose length leaves it, those that it has."""
        return self.scores.numel()

    @property
    def countable(self) -> bool:
        """Whether coarse keys and a k-th score exist: float32, and more scores than k."""
        return self.dtype == "float32" and self.length > self.k

    @property
    def nan(self) -> int:
        """How many valid scores are NaN."""
        return self.keys.nan

    @property
    def half(self) -> HalfHistogram:
        """The row's histogram over fp16 keys; float32 rows only."""
        return self._bins.keys.half

    @property
    def keys(self) -> RowKeys:
        """The row's scores by their keys, for whatever selects from them."""
        return self._bins.keys

    @cached_property
    def best(self) -> torch.Tensor:
        """Positions of the exact winners, as ``exact_topk`` has them."""
        return exact_topk(self.scores, self.k, self.half if self.countable else None)

    def threshold(self, bits: int) -> Threshold:
        """The threshold bin under a coarse key of ``bits`` bits."""
        return self._bins.threshold(bits)

    def cut(self, bits: int) -> Cut:
        """How the threshold bin's members lie around the cut-off value."""
        return self._bins.cut(bits)

    def filling(self, bits: int, buffer: Buffer) -> Filling:
        """What the threshold bin under a key of ``bits`` bits does to a buffer; one for all paths that share it."""
        key = (bits, buffer)
        if key not in self._fillings:
            at = self.threshold(bits)
            self._fillings[key] = Filling(partial(self._bins.cut, bits), at, buffer, self.k, self.length)
        return self._fillings[key]


def profile_of(row: Row, k: int, counts: RowCounts | None = None) -> RowProfile:
    """The profile of a row for a call with this k. ``counts``: of its valid scores, where they were made already."""
    width = row.call.width
    return RowProfile(row.valid, row.dtype, k, Window.of(row), width=width, start=row.start, counts=counts)
