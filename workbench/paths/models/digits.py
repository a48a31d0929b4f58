"""Exact selection by digits of the ordered key: over buffered candidates, or over the row pass by pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import KEY_BITS, where_true
from workbench.numeric.rowkeys import Ascending, RowKeys
from workbench.paths.models.tape import Tape
from workbench.paths.selection import Pass


@dataclass(frozen=True, eq=False)
class Search:
    """Where an exact search over the row ended.

    Attributes:
        pivot: ordered key of the last winner, as far as its digits were searched: lower bits are 0.
        searched: how many of its bits. above: candidates with a greater prefix, which all win.
        need: how many of those with the pivot's prefix are wanted still. equal: how many of those there are.
        passes: one a digit. width: bits of a key.
    """

    pivot: int
    searched: int
    above: int
    need: int
    equal: int
    passes: tuple[Pass, ...]
    width: int = KEY_BITS


def search_row(
    tape: Tape,
    keys: Ascending,
    need: int,
    digits: tuple[int, ...],
    *,
    start: Search | None = None,
    stop_at: int = 0,
    until_whole: bool = False,
    width: int = KEY_BITS,
) -> Search:
    """Find the ``need``-th best key digit by digit, one pass over the row for each digit.

    Args:
        keys: of the candidates (the whole row, or what a filter of it lets through).
        digits: bits of each digit, from the top, or from where ``start`` ended.
        start: an earlier search to go on from. stop_at: stop once so few candidates share the prefix.
        until_whole: stop once all that share the prefix are winners.
        width: bits of a key.
    """
    pivot, searched, above, passes = 0, 0, 0, list[Pass]()
    first, after = 0, len(keys)  # ranks of the candidates that share the prefix searched so far
    if start is not None:
        pivot, searched, above, need = start.pivot, start.searched, start.above, start.need
        passes += start.passes
        first, after = keys.below(pivot), keys.below(pivot + (1 << (width - searched)))
    for bits in digits:
        tape.scan()
        searched += bits
        shift = width - searched
        # A digit's bins are runs of the ascending keys: the one of the last winner is the threshold's.
        pivot = keys.at(after - need) >> shift << shift
        low, high = keys.below(pivot), keys.below(pivot + (1 << shift))
        digit = (pivot >> shift) & ((1 << bits) - 1)
        passes.append(Pass(shift, bits, after - first, need, digit, after - high, high - low))
        above, need = above + after - high, need - (after - high)
        first, after = low, high
        if after - first <= stop_at or (until_whole and need == after - first):
            break
    return Search(pivot, searched, above, need, after - first, tuple(passes), width)


def parted(row: RowKeys, found: Search) -> tuple[torch.Tensor, torch.Tensor]:
    """Ascending positions of a row's keys with a greater prefix than the pivot's, and of those with the same."""
    after = found.pivot + (1 << (found.width - found.searched))
    return row.between(after, (1 << found.width) - 1), row.between(found.pivot, after - 1)


def of_members(keys: torch.Tensor, found: Search) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``parted``, of int64 keys of some candidates: their places among them."""
    shift = found.width - found.searched
    prefixes, pivot = keys >> shift, found.pivot >> shift
    return where_true(prefixes > pivot), where_true(prefixes == pivot)


def emit(tape: Tape, found: Search, *, by_index: bool = False) -> torch.Tensor:
    """Winners of a finished search over the whole row: the greater keys, then as many of the equal as are wanted.

    Args:
        by_index: equal keys to the smaller index, else first come.
    """
    greater, equal = parted(tape.row, found)
    if not by_index:
        greater, equal = tape.order(greater), tape.order(equal)
    return torch.cat([greater, equal[: found.need]])


def refine(
    tape: Tape, stored: torch.Tensor, need: int, digits: tuple[int, ...]
) -> tuple[torch.Tensor, tuple[Pass, ...]]:
    """The ``need`` best of buffered candidates by exact digits; those equal in all digits are taken first come.

    Args:
        stored: candidate indices in arrival order, more than ``need``.
    """
    keys = tape.row.keys_of(stored)
    taken, passes, shift = [], [], tape.row.width
    for bits in digits:
        tape.gather(stored.numel())
        shift -= bits
        digit = (keys >> shift) & ((1 << bits) - 1)
        at = locate(torch.bincount(digit, minlength=1 << bits), need)
        higher, equal = digit > at.bin, digit == at.bin
        taken.append(stored[higher])
        passes.append(Pass(shift, bits, stored.numel(), need, at.bin, at.above, at.population))
        stored, keys, need = stored[equal], keys[equal], at.need
        if need == stored.numel():
            break  # the digit's members are all winners: nothing left to tell apart
    taken.append(stored[:need])
    return torch.cat(taken), tuple(passes)
