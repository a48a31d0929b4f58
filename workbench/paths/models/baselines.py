"""Selectors of other projects: torch, TileLang and FlashInfer."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.errors import UsageError
from workbench.numeric.histogram import locate
from workbench.numeric.keys import KEY_BITS
from workbench.paths.models import buffered
from workbench.paths.models.digits import Search, emit, of_members, search_row
from workbench.paths.models.rescans import overflows
from workbench.paths.models.tape import Made, Tape, binned
from workbench.paths.selection import Telemetry
from workbench.paths.spec import Path

BYTE = 8


def torch_topk(path: Path, tape: Tape, k: int) -> Made:
    """Exact bytes of the whole row, a pass each, and one that gathers; every NaN has the greatest key."""
    width, row = tape.row.width, tape.row.greatest_nan
    found = search_row(tape, row.ascending, k, _bytes(width), width=width)
    tape.scan()
    return Made(emit(Tape(row.scores, tape.arrival, row=row), found), Telemetry(passes=found.passes))


def unguarded(path: Path, tape: Tape, k: int) -> Made:
    """A stash that never checks its capacity.

    Raises:
        UsageError: the threshold bin does not fit; ``workbench.paths.faults`` says what happens then.
    """
    seen = buffered.coarse(path, tape, k)
    if overflows(seen):
        raise UsageError(f"{path.name} writes past its buffer of {seen.capacity}: nothing tells what it returns")
    return buffered.collect(path, tape, k, seen)


def radix(path: Path, tape: Tape, k: int) -> Made:
    """FlashInfer's exact bytes of keys that stay on chip after one pass; equal keys first come."""
    return _radix(tape, k, by_index=False)


def radix_by_index(path: Path, tape: Tape, k: int) -> Made:
    """As ``radix``; equal keys to the smaller index."""
    return _radix(tape, k, by_index=True)


def filtered(path: Path, tape: Tape, k: int) -> Made:
    """FlashInfer's 8-bit bins and a buffer that raises a flag when it overflows; equal keys first come."""
    return _filtered(path, tape, k, by_index=False)


def filtered_by_index(path: Path, tape: Tape, k: int) -> Made:
    """As ``filtered``; equal keys to the smaller index."""
    return _filtered(path, tape, k, by_index=True)


def _bytes(bits: int) -> tuple[int, ...]:
    return (BYTE,) * (bits // BYTE)


def _radix(tape: Tape, k: int, by_index: bool) -> Made:
    width = tape.row.width
    found = search_row(tape.on_chip(), tape.row.ascending, k, _bytes(width), width=width)
    tape.scan()
    return Made(emit(tape, found, by_index=by_index), Telemetry(passes=found.passes))


def _filtered(path: Path, tape: Tape, k: int, by_index: bool) -> Made:
    """Bins are of the fp16 key for float32 scores and the exact key's high byte for others, whose low byte is left.

    Where the flag is raised, the digits are counted over the whole row, a pass each, and one more collects.
    """
    assert path.buffer is not None
    room, width = path.buffer.slots(k), tape.row.width
    row = tape.row.half if width == KEY_BITS else buffered.ExactBins(tape.row)
    counts = row.bins(BYTE)
    at = locate(counts, k)
    tape.scan(2)
    above = tape.order(row.above(at.bin, BYTE))
    members = row.members(at.bin, BYTE)
    arrived = members if by_index else tape.order(members)
    fits, cut = members.numel() <= room, at.need < at.population
    found = Search(0, 0, 0, at.need, at.population, (), width)
    if width < KEY_BITS:
        found = Search(at.bin << (width - BYTE), BYTE, at.above, at.need, at.population, (), width)
    if cut:
        tape.stage(min(members.numel(), room))
        digits = _bytes(width - found.searched)
        reader = tape.on_chip() if fits else tape
        found = search_row(reader, tape.row.ascending_of(members), at.need, digits, start=found, width=width)
        if fits:
            tape.gather(sum(one.seen for one in found.passes))
        else:
            tape.scan()
            tape.fall_back("full scan of the row, digit by digit")
    taken = arrived
    if cut:
        greater, equal = of_members(tape.row.keys_of(arrived), found)
        taken = arrived[torch.cat([greater, equal[: found.need]])]
    telemetry = replace(
        binned(BYTE, counts, at, room), buffered=cut, stored=min(at.population, room), passes=found.passes
    )
    return Made(torch.cat([above, taken]), telemetry)
