"""The per-row selector: fp16 bins, then finer digits of the exact key, until what the cut falls into can be sorted.

Each step reads its candidates twice, to count and to distribute. The step on fp16 bins writes nothing if others follow,
which start over from the whole row. How the last candidates are sorted follows from the row's padded width, which a
model of one row does not know: its own length stands for it, or a variant names the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from workbench.numeric.histogram import half_histogram, locate
from workbench.numeric.keys import KEY_BITS, ordered_keys
from workbench.paths.models.digits import parted, search_row
from workbench.paths.models.tape import Made, Tape, binned
from workbench.paths.selection import Pass
from workbench.paths.spec import Path

HALF_BITS = 11
DIGITS = (11, 11, 10)
READS_A_STEP = 2
RADIX_FROM = 12288  # padded columns
SPLIT_FROM = 200000
SPLITS = 10


@dataclass(frozen=True, eq=False)
class Sorted:
    """The best of the last candidates, and how many slots got an index that is none because of padding."""

    taken: torch.Tensor
    garbage: int = 0


Sort = Callable[[torch.Tensor, torch.Tensor, int, int], Sorted]


def per_row(path: Path, tape: Tape, k: int) -> Made:
    """One row of a decode call; the row's length stands for the padded width."""
    return _decode(path, tape, k, by_keys)


def prefill(path: Path, tape: Tape, k: int) -> Made:
    """One of the first 12288 rows of a prefill call: always ranked by comparing."""
    return _whole(path, tape, k, by_comparing)


def prefill_radix(path: Path, tape: Tape, k: int) -> Made:
    """A later row of a prefill call: always sorted by radix."""
    return _whole(path, tape, k, by_keys)


def padded(path: Path, tape: Tape, k: int) -> Made:
    """As ``per_row``, with sorts that fill up with -FLT_MAX, above genuine -inf candidates."""
    return _decode(path, tape, k, among_padding)


def decode_split(path: Path, tape: Tape, k: int) -> Made:
    """Ten blocks select k each from their slice of the row, and one selects from those."""
    return _split(path, tape, k, padding=False)


def decode_split_padded(path: Path, tape: Tape, k: int) -> Made:
    """As ``decode_split``; slices shorter than k hand on -1 with -FLT_MAX, above genuine -inf candidates."""
    return _split(path, tape, k, padding=True)


def by_comparing(slots: torch.Tensor, scores: torch.Tensor, need: int, capacity: int) -> Sorted:
    """Each candidate's slot is the number of greater ones, of equal ones that arrived later.

    No comparison with NaN holds: all NaN share the first slot with the greatest number, and the last one written stays.

    Args:
        slots: positions in arrival order. scores: theirs. capacity: of the sort.
    """
    nan = torch.isnan(scores)
    later_first = slots[~nan].flip(0)
    ranked = later_first[torch.sort(scores[~nan].flip(0), descending=True, stable=True).indices][:need]
    if bool(nan.any()):
        ranked = torch.cat([slots[nan][-1:], ranked[1:]])
    return Sorted(ranked, need - ranked.numel())


def by_keys(slots: torch.Tensor, scores: torch.Tensor, need: int, capacity: int) -> Sorted:
    """A stable radix sort; arguments as for ``by_comparing``."""
    return Sorted(slots[torch.sort(ordered_keys(scores), descending=True, stable=True).indices][:need])


def among_padding(slots: torch.Tensor, scores: torch.Tensor, need: int, capacity: int) -> Sorted:
    """A stable radix sort of all slots, the empty ones filled up with -FLT_MAX, whose indices are garbage."""
    order = torch.sort(ordered_keys(scores), descending=True, stable=True).indices
    over = int((scores >= torch.finfo(torch.float32).min).sum())
    garbage = min(max(0, need - over), capacity - slots.numel())
    return Sorted(slots[order][: need - garbage], garbage)


def _decode(path: Path, tape: Tape, k: int, sort: Sort) -> Made:
    if tape.length >= SPLIT_FROM:
        return _split(path, tape, k, padding=sort is among_padding)
    return _whole(path, tape, k, sort if tape.length >= RADIX_FROM else by_comparing)


def _whole(path: Path, tape: Tape, k: int, sort: Sort) -> Made:
    made, reads = _select(path, tape, torch.arange(tape.length, device=tape.scores.device), k, sort)
    tape.scan(reads)
    return made


def _split(path: Path, tape: Tape, k: int, padding: bool) -> Made:
    """Slices that need more than the first step read their part of the row again: counted as gathers."""
    tape.scan(READS_A_STEP)
    handed = []
    size = -(-tape.length // SPLITS)
    for first in range(0, tape.length, size):
        part = torch.arange(first, min(first + size, tape.length), device=tape.scores.device)
        if part.numel() <= k:
            handed.append(part)
            continue
        made, reads = _select(path, tape, part, k, by_keys)
        tape.gather((reads - READS_A_STEP) * part.numel())
        handed.append(made.indices.sort().values)
    candidates = torch.cat(handed)
    tape.stage(candidates.numel())
    if not padding:
        return _select(path, tape, candidates, k, by_keys)[0]
    numbers = candidates[tape.scores[candidates] >= torch.finfo(torch.float32).min]
    lost = min(max(0, k - numbers.numel()), SPLITS * k - candidates.numel())
    if lost == k:
        return Made(candidates[:0])
    return _select(path, tape, candidates, k - lost, by_keys)[0]


def _select(path: Path, tape: Tape, among: torch.Tensor, k: int, sort: Sort) -> tuple[Made, int]:
    """The k best of ascending positions, and how often those were read."""
    assert path.buffer is not None
    room, scores = path.buffer.slots(k), tape.scores[among]
    half = half_histogram(scores)
    bins = half.bins(HALF_BITS)
    at = locate(bins, k)
    passes: tuple[Pass, ...] = ()
    if at.population <= room:
        above, last = among[half.above(at.bin, HALF_BITS)], among[half.members(at.bin, HALF_BITS)]
        need, sorts = at.need, True
    else:
        keys = ordered_keys(scores)
        found = search_row(Tape(scores, tape.arrival), keys, k, DIGITS, stop_at=room)
        above, last = (among[places] for places in parted(keys, found))
        need, passes, sorts = found.need, found.passes, found.searched < KEY_BITS
        tape.fall_back(f"{len(passes)} exact digits: more than {room} scores share the fp16 bin")
    arrived = tape.order(last)
    if sorts:
        tape.stage(last.numel())
        best = sort(arrived, tape.scores[arrived], need, room)
    else:
        best = Sorted(arrived[:need])  # equal in every bit: first come
    telemetry = replace(
        binned(HALF_BITS, bins, at, room),
        buffered=at.population <= room,
        stored=at.population if at.population <= room else 0,
        passes=passes,
    )
    made = Made(torch.cat([tape.order(above), best.taken]), telemetry, best.garbage)
    return made, READS_A_STEP * (1 + len(passes))
