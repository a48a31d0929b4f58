"""Repairs of vLLM's register and cluster paths: an overflowing threshold bin is cut by digits within the bin."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import bin_values, half_keys, ordered_keys
from workbench.numeric.rowkeys import Ascending
from workbench.paths.models import buffered
from workbench.paths.models.buffered import Coarse
from workbench.paths.models.digits import search_row
from workbench.paths.models.rescans import WIDE, last_digit, overflows, wide_select
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Pass
from workbench.paths.spec import Path

DIGITS = (11, 11)
OFFSET_BITS = sum(DIGITS)
BELOW_BIN = 8192  # keys of one fp16 step: scores that round up into the bin lie that far below it at most
RANKED_TIES = 64
SNIFF = 32
STAGED_SLICE = 16384
SHORT = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def bin_offsets(seen: Coarse, keys: torch.Tensor) -> torch.Tensor | None:
    """Exact keys of the threshold bin's members as 22-bit offsets from its lower end.

    ``None`` for a bin that holds an infinity, and where one key is out of range, as in the bins next to zero.
    """
    low, high = bin_values(seen.at.bin, seen.bits)
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    offsets = keys - max(0, int(ordered_keys(torch.tensor([low]))) - BELOW_BIN)
    return None if bool(((offsets < 0) | (offsets >= 1 << OFFSET_BITS)).any()) else offsets


def register_recovery(path: Path, tape: Tape, k: int) -> Made:
    """More ties than k are told apart by two digits of their offsets, without leaving the registers.

    Where the offsets do not serve, the row is rescanned. DERIVED: by the wide rescan, from its first digit since an
    fp16 bin is no prefix of the exact key, and with nothing staged since the histogram fills the shared memory.
    """
    seen = buffered.coarse(path, tape, k)
    if not overflows(seen):
        return buffered.collect(replace(path, ranked_ties=RANKED_TIES), tape, k, seen)
    members = seen.row.members(seen.at.bin, seen.bits)
    offsets = bin_offsets(seen, tape.row.keys_of(members))
    if offsets is None:
        indices, found = wide_select(tape, k, room=0)
        return Made(indices, seen.bypassed(found.passes))
    tape.fall_back("two digits in registers")
    found = search_row(tape.on_chip(), Ascending(offsets), seen.at.need, DIGITS, width=OFFSET_BITS)
    above = seen.row.above(seen.at.bin, seen.bits)
    greater, equal = members[offsets > found.pivot], members[offsets == found.pivot]
    parts = (tape.order(above), tape.order(greater), tape.order(equal)[: found.need])
    return Made(torch.cat(parts), seen.bypassed(found.passes))


def cluster_recovery(path: Path, tape: Tape, k: int) -> Made:
    """More ties than the cluster stores are told apart before anything is written.

    A probe looks for scores that are all equal, all bfloat16 or all fp16, which gives the pivot at once; for others it
    has counted the first digit. Two digits of the offsets serve a finite bin, three of the exact key the bin of +inf.

    DERIVED: every round reads the row again; bins next to zero, out of the offsets' range, take three digits as well;
    the first scores of the row, looked at beforehand, decide whether the probe looks for bfloat16 and fp16 at all; the
    candidates that are staged are those of the last digit, as many as the buffer holds.
    """
    assert path.buffer is not None
    assert path.buffer.ranks is not None
    seen = buffered.coarse(path, tape, k)
    members = seen.row.members(seen.at.bin, seen.bits)
    if not seen.buffered or buffered.stored_members(path.buffer, members, tape.length, k).numel() == members.numel():
        return buffered.collect(path, tape, k, seen)
    scores = tape.scores[members]
    keys = tape.row.keys_of(members)
    offsets = bin_offsets(seen, keys)
    tape.gather(min(SNIFF, tape.length))
    what, values = _probe(seen, scores, keys, offsets, _is_short(tape.scores[:SNIFF]))
    passes: tuple[Pass, ...] = ()
    if values is not None:
        tape.scan(2)  # the probe, and the pass that writes the winners
        at = locate(torch.bincount(values), seen.at.need)
        pivot, need = at.bin, at.need
    else:
        values, digits = (keys, WIDE) if offsets is None else (offsets, DIGITS)
        ascending = Ascending(values)
        before = search_row(tape, ascending, seen.at.need, digits[:-1], width=sum(digits))
        slice_ = path.buffer.ranks.slice_of(tape.length)
        room = path.buffer.slots(k) if slice_ >= STAGED_SLICE else 0
        found = last_digit(tape, ascending, before, digits[-1], room)
        pivot, need, passes = found.pivot, found.need, found.passes
    tape.fall_back(f"recovery: {what}")
    above = seen.row.above(seen.at.bin, seen.bits)
    owners = path.buffer.ranks.owners
    parts = (above, members[values > pivot], members[values == pivot])
    written = [_by_rank(tape, part, owners(tape.order(part), tape.length)) for part in parts]
    shares = buffered.shares_of(path.buffer, members, members[:0], members[:0], tape.length)
    return Made(torch.cat([*written[:2], written[2][:need]]), seen.bypassed(passes, shares))


def _is_short(scores: torch.Tensor) -> dict[str, bool]:
    """Whether all of some scores are bfloat16 numbers, and whether all are fp16 numbers."""
    return {name: bool((scores.to(dtype).to(torch.float32) == scores).all()) for name, dtype in SHORT.items()}


def _probe(
    seen: Coarse, scores: torch.Tensor, keys: torch.Tensor, offsets: torch.Tensor | None, start: dict[str, bool]
) -> tuple[str, torch.Tensor | None]:
    """What one pass finds out about the threshold bin, and small ordered codes of its members that end the search."""
    if bool((keys == keys[0]).all()):
        return "all equal", torch.zeros_like(keys)
    short = _is_short(scores) if any(start.values()) else start
    if offsets is not None and short["bfloat16"]:
        return "all bfloat16", (keys >> 16) - int(keys.min() >> 16)
    if short["float16"]:
        return "all fp16", half_keys(scores).to(torch.int64) - (seen.at.bin << (16 - seen.bits))
    return ("three digits" if offsets is None else "two digits"), None


def _by_rank(tape: Tape, indices: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
    """Ascending positions as the ranks write them in turn, each in its own order of arrival."""
    return tape.order(indices)[torch.sort(owners, stable=True).indices]
