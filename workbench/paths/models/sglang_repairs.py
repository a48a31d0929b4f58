"""Repairs of SGLang's 8-bit selectors: what they do once the threshold bin does not fit the buffer."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import KEY_BITS, ordered_keys
from workbench.numeric.rowkeys import Ascending
from workbench.paths.models import buffered
from workbench.paths.models.digits import Search, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Pass
from workbench.paths.shared import BYTES
from workbench.paths.spec import Path

LANES = 1024  # threads of the block; each visits every 1024th score
INDEX_MASK = 0xFFFFFFFF


def cutoff_first(path: Path, tape: Tape, k: int) -> Made:
    """A bin that fills the buffer is never buffered: its cut-off key is found first, winners are written last.

    One pass writes the higher bins, four only count a byte of the bin's keys under the prefix so far, and one writes
    the greater keys and as many of the equal as are wanted. A bin of exactly the capacity takes this way too.
    """
    seen = buffered.coarse(path, tape, k)
    if not seen.buffered or seen.at.population < seen.capacity:
        return buffered.collect(path, tape, k, seen)
    tape.fall_back("cut-off searched over the row")
    tape.scan()
    members = seen.row.members(seen.at.bin, seen.bits)
    keys = tape.row.keys_of(members)
    found = search_row(tape, tape.row.ascending_of(members), seen.at.need, BYTES)
    tape.scan()
    greater, equal = _split(tape, members, keys, found)
    taken = torch.cat([_above(tape, seen), greater, equal[: found.need]])
    return Made(taken, seen.bypassed(found.passes))


def filtered_rescan(path: Path, tape: Tape, k: int) -> Made:
    """The overflow shows once the bin was buffered; the buffer is then given up and every round reads the row.

    One pass counts the first byte anew, since the buffered part of the bin does not stand for all of it. Each round
    then writes the greater keys and counts the next byte in one pass, filtered by bin and prefix.
    """
    seen = buffered.coarse(path, tape, k)
    if not seen.buffered or seen.at.population <= seen.capacity:
        return buffered.collect(path, tape, k, seen)
    tape.scan(path.row_passes - 1)
    tape.stage(seen.capacity)
    tape.fall_back("row filtered by bin and prefix")
    members = seen.row.members(seen.at.bin, seen.bits)
    keys = tape.row.keys_of(members)
    found = search_row(tape, tape.row.ascending_of(members), seen.at.need, BYTES, until_whole=True)
    tape.scan()  # the search counted one pass a byte; the last byte's winners are written by one more
    greater, equal = _split(tape, members, keys, found)
    taken = torch.cat([_above(tape, seen), greater, equal[: found.need]])
    return Made(taken, seen.bypassed(found.passes))


def unique_key(path: Path, tape: Tape, k: int) -> Made:
    """Keys of a bin that overflows are made unique by their position, so that the cut-off leaves no choice.

    The 64-bit key is the exact key over the inverted index: up to eight passes of a byte, until all that share the
    prefix are winners, then one pass that takes every key from the cut-off on. Equal scores go to the smaller index.
    """
    seen = buffered.coarse(path, tape, k)
    if not seen.buffered or seen.at.population <= seen.capacity:
        return buffered.collect(path, tape, k, seen)
    tape.fall_back("cut-off searched by value and index")
    members = seen.row.members(seen.at.bin, seen.bits)
    keys = tape.row.keys_of(members)
    found = search_row(tape, tape.row.ascending_of(members), seen.at.need, BYTES, until_whole=True)
    passes = tuple(replace(one, shift=one.shift + KEY_BITS) for one in found.passes)
    greater, equal = _split(tape, members, keys, found)
    if found.need < found.equal:
        inverted = INDEX_MASK - equal
        last = search_row(tape, Ascending(inverted), found.need, BYTES, until_whole=True)
        equal, passes = equal[inverted >= last.pivot], passes + last.passes
    tape.scan()
    taken = torch.cat([_above(tape, seen), greater, equal])
    return Made(taken, seen.bypassed(passes))


def resume_index(path: Path, tape: Tape, k: int) -> Made:
    """The buffer stays, as a cache: members that do not fit are counted, and read again from the row where needed.

    Every thread remembers the first member of its lane that did not fit. Each round refines the buffered members and
    then reads the lanes on from there, filtered by bin and prefix; what survives is buffered where there is room.
    """
    seen = buffered.coarse(path, tape, k)
    if not seen.buffered or seen.at.population <= seen.capacity:
        return buffered.collect(path, tape, k, seen)
    tape.fall_back("lanes read on from the first score that did not fit")
    tape.scan(path.row_passes - 1)
    members = tape.order(seen.row.members(seen.at.bin, seen.bits))
    keys, lanes = ordered_keys(tape.scores), _Lanes(tape)
    stash, rest, need = members[: seen.capacity], members[seen.capacity :], seen.at.need
    tape.stage(stash.numel())
    taken, passes, shift = [_above(tape, seen)], list[Pass](), KEY_BITS
    for bits in path.digits:
        tape.gather(stash.numel() + lanes.left_from(rest))
        shift -= bits
        candidates = torch.cat([stash, rest])
        digit = (keys[candidates] >> shift) & ((1 << bits) - 1)
        at = locate(torch.bincount(digit, minlength=1 << bits), need)
        passes.append(Pass(shift, bits, candidates.numel(), need, at.bin, at.above, at.population))
        taken.append(candidates[digit > at.bin])
        cached = digit[: stash.numel()] == at.bin
        survivors = rest[digit[stash.numel() :] == at.bin]
        stash, need = stash[cached], at.need
        if need == at.population or shift == 0:
            stash, rest = torch.cat([stash, survivors]), survivors[:0]
            break
        room = seen.capacity - stash.numel()
        tape.stage(min(room, survivors.numel()))
        stash, rest = torch.cat([stash, survivors[:room]]), survivors[room:]
    taken.append(stash[:need])
    return Made(torch.cat(taken), seen.telemetry(seen.capacity, members[:0], tuple(passes)))


def _above(tape: Tape, seen: buffered.Coarse) -> torch.Tensor:
    """Indices in the higher bins, first come."""
    return tape.order(seen.row.above(seen.at.bin, seen.bits))


def _split(tape: Tape, members: torch.Tensor, keys: torch.Tensor, found: Search) -> tuple[torch.Tensor, torch.Tensor]:
    """Members whose keys lie above the cut-off, and those at it as far as it was searched; both first come.

    Args:
        members: indices, ascending. keys: their ordered keys.
    """
    prefixes, pivot = keys >> (KEY_BITS - found.searched), found.pivot >> (KEY_BITS - found.searched)
    return tape.order(members[prefixes > pivot]), tape.order(members[prefixes == pivot])


class _Lanes:
    """The threads' lanes over the row: which scores each visits, and in which sequence they arrive.

    Args:
        tape: of the row.
    """

    def __init__(self, tape: Tape) -> None:
        order = tape.order(torch.arange(tape.length, device=tape.scores.device))
        lane = order % LANES
        self.lengths = torch.bincount(lane, minlength=LANES)
        by_lane = torch.argsort(lane, stable=True)
        starts = self.lengths.cumsum(0) - self.lengths
        self.places = torch.empty_like(order)
        self.places[order[by_lane]] = torch.arange(tape.length, device=order.device) - starts[lane[by_lane]]

    def left_from(self, rest: torch.Tensor) -> int:
        """Scores that the threads read when each goes on from the first of ``rest`` in its lane."""
        resume = self.lengths.clone()
        resume.scatter_reduce_(0, rest % LANES, self.places[rest], "amin")
        return int((self.lengths - resume).sum())
