"""Selectors that buffer the threshold bin: stashes of indices, ties of rows in registers, and clusters of both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from workbench.numeric.histogram import HalfHistogram, Threshold, locate
from workbench.numeric.keys import ordered_keys, where_true
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.models.digits import refine
from workbench.paths.models.tape import Made, Tape, binned
from workbench.paths.selection import Pass, Share, Telemetry
from workbench.paths.spec import Buffer, Path


@dataclass(frozen=True, eq=False)
class ExactBins:
    """Bins of a row's scores by the top bits of their exact keys."""

    row: RowKeys

    def bins(self, bits: int) -> torch.Tensor:
        """Populations of the 2^bits bins, int64, ascending by score."""
        return self.row.bins(bits)

    def members(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in one bin, int64, ascending."""
        shift = self.row.width - bits
        return self.row.between(bin_ << shift, ((bin_ + 1) << shift) - 1)

    def above(self, bin_: int, bits: int) -> torch.Tensor:
        """Indices of the scores in bins above ``bin_``, int64, ascending."""
        shift = self.row.width - bits
        return self.row.between((bin_ + 1) << shift, (1 << self.row.width) - 1)


@dataclass(frozen=True, eq=False)
class Coarse:
    """The coarse pass over a row: its bins, and what lies above and in the threshold bin, in arrival order."""

    row: HalfHistogram | ExactBins
    bins: torch.Tensor
    at: Threshold
    bits: int
    capacity: int
    buffered: bool

    def telemetry(
        self, stored: int, dropped: torch.Tensor, passes: tuple[Pass, ...], shares: tuple[Share, ...] = ()
    ) -> Telemetry:
        """The inside of a selection that began with this pass."""
        begun = binned(self.bits, self.bins, self.at, self.capacity)
        return replace(begun, buffered=self.buffered, stored=stored, dropped=dropped, passes=passes, shares=shares)

    def bypassed(self, passes: tuple[Pass, ...], shares: tuple[Share, ...] = ()) -> Telemetry:
        """The inside of a selection that left the buffer alone: nothing stored, so nothing dropped."""
        return replace(self, buffered=False).telemetry(0, self.row.members(0, self.bits)[:0], passes, shares)


def coarse(path: Path, tape: Tape, k: int, exact_bits: int | None = None) -> Coarse:
    """Count the coarse bins of the row and find the threshold bin; one pass.

    Args:
        exact_bits: bins are so many top bits of the exact key; by default the path's own of the fp16 key.
    """
    assert path.key_bits is not None
    assert path.buffer is not None
    tape.scan()
    row = ExactBins(tape.row) if exact_bits else tape.row.half
    bits = exact_bits or path.key_bits
    bins = row.bins(bits)
    at = locate(bins, k)
    buffered = path.buffer.whole_bin or at.need < at.population
    return Coarse(row, bins, at, bits, path.buffer.slots(k), buffered)


def stock(path: Path, tape: Tape, k: int) -> Made:
    """As released: higher bins to the output, the threshold bin into the buffer, first come, then an exact cut."""
    return collect(path, tape, k, coarse(path, tape, k))


def collect(path: Path, tape: Tape, k: int, seen: Coarse) -> Made:
    """What follows the coarse pass as released; the remaining passes over the row are counted."""
    assert path.buffer is not None
    tape.scan(path.row_passes - 1)
    above = tape.order(seen.row.above(seen.at.bin, seen.bits))
    members = tape.order(seen.row.members(seen.at.bin, seen.bits))
    stored = stored_members(path.buffer, members, tape.length, k) if seen.buffered else members
    if seen.buffered:
        tape.stage(stored.numel())
    taken, passes = cut(path, tape, stored, seen.at.need)
    dropped = members[stored.numel() :] if path.buffer.ranks is None else tape.without(members, stored)
    unwritten = max(0, seen.at.need - stored.numel()) if path.buffer.leaves_unwritten else 0
    shares = shares_of(path.buffer, members, stored, dropped, tape.length)
    return Made(torch.cat([above, taken]), seen.telemetry(stored.numel(), dropped, passes, shares), unwritten)


def cut(path: Path, tape: Tape, stored: torch.Tensor, need: int) -> tuple[torch.Tensor, tuple[Pass, ...]]:
    """The ``need`` best of the buffered members: few are ranked by (value, smaller index), more by exact digits."""
    if stored.numel() <= need:
        return stored, ()
    if stored.numel() > path.ranked_ties:
        return refine(tape, stored, need, path.digits)
    by_index = stored.sort().values
    order = torch.sort(ordered_keys(tape.scores[by_index]), descending=True, stable=True).indices
    return by_index[order][:need], ()


def stored_members(buffer: Buffer, members: torch.Tensor, length: int, k: int) -> torch.Tensor:
    """The members that the buffer takes, of those in arrival order."""
    room = buffer.slots(k)
    if buffer.ranks is None:
        return members[:room]
    owners = buffer.ranks.owners(members, length)
    places = [where_true(owners == rank) for rank in range(buffer.ranks.count)]
    shares = buffer.shares([place.numel() for place in places], k)
    stored = torch.cat([place[:share] for place, share in zip(places, shares, strict=True)])
    return members[stored if buffer.ranks.in_order else stored.sort().values[:room]]


def shares_of(
    buffer: Buffer, members: torch.Tensor, stored: torch.Tensor, dropped: torch.Tensor, length: int
) -> tuple[Share, ...]:
    """What each rank did with its members of the threshold bin; empty for one block."""
    ranks = buffer.ranks
    if ranks is None:
        return ()
    counts = [
        torch.bincount(ranks.owners(part, length), minlength=ranks.count).tolist()
        for part in (members, stored, dropped)
    ]
    return tuple(Share(*each) for each in zip(*counts, strict=True))
