"""Exact selection by digits of the ordered key: over buffered candidates, or over the row pass by pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import KEY_BITS, key_width, ordered_keys
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
    keys: torch.Tensor,
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
        keys: int64 ordered keys of the candidates (the whole row, or what a filter of it lets through).
        digits: bits of each digit, from the top, or from where ``start`` ended.
        start: an earlier search to go on from. stop_at: stop once so few candidates share the prefix.
        until_whole: stop once all that share the prefix are winners.
        width: bits of a key.
    """
    pivot, searched, above, passes = 0, 0, 0, list[Pass]()
    if start is not None:
        pivot, searched, above, need = start.pivot, start.searched, start.above, start.need
        passes += start.passes
        shift = width - searched
        keys = keys[(keys >> shift) == (pivot >> shift)]
    for bits in digits:
        tape.scan()
        shift = width - searched - bits
        digit = (keys >> shift) & ((1 << bits) - 1)
        at = locate(torch.bincount(digit, minlength=1 << bits), need)
        passes.append(Pass(shift, bits, keys.numel(), need, at.bin, at.above, at.population))
        keys = keys[digit == at.bin]
        pivot |= at.bin << shift
        searched, above, need = searched + bits, above + at.above, at.need
        if keys.numel() <= stop_at or (until_whole and need == keys.numel()):
            break
    return Search(pivot, searched, above, need, keys.numel(), tuple(passes), width)


def parted(keys: torch.Tensor, found: Search) -> tuple[torch.Tensor, torch.Tensor]:
    """Ascending positions of the keys with a greater prefix than the pivot's, and of those with the same."""
    shift = found.width - found.searched
    prefixes, pivot = keys >> shift, found.pivot >> shift
    return torch.nonzero(prefixes > pivot).flatten(), torch.nonzero(prefixes == pivot).flatten()


def emit(tape: Tape, keys: torch.Tensor, found: Search, *, by_index: bool = False) -> torch.Tensor:
    """Winners of a finished search over the whole row: the greater keys, then as many of the equal as are wanted.

    Args:
        keys: int64 ordered keys of the whole row. by_index: equal keys to the smaller index, else first come.
    """
    greater, equal = parted(keys, found)
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
    keys = ordered_keys(tape.scores[stored])
    taken, passes, shift = [], [], key_width(tape.scores)
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
