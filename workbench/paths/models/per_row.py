"""The per-row selector: fp16 bins, then finer digits of the exact key, until what the cut falls into can be sorted.

Each step reads its candidates twice, to count and to distribute. The step on fp16 bins writes nothing if others follow,
which start over from the whole row. How the last candidates are sorted follows from the row's padded width; where the
call does not say it, the row's own length stands for it.

The radix sort fills up with -FLT_MAX, which lies above -inf and among scores of -FLT_MAX, and what it pads with has no
index: whatever stood in the registers is returned. Observed: 0 over and over, and numbers far outside the row. Slices
of a split row that are no longer than k hand on -1 with -FLT_MAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import KEY_BITS, ordered_keys, value_keys
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.models.digits import parted, search_row
from workbench.paths.models.tape import BY_INDEX, Made, Tape, binned
from workbench.paths.own_variants import RADIX_FROM, SPLIT_FROM
from workbench.paths.selection import Pass, Telemetry
from workbench.paths.spec import Path

HALF_BITS = 11
DIGITS = (11, 11, 10)
READS_A_STEP = 2
SPLITS = 10
THREADS, MERGE_THREADS = 512, 1024
LOWEST = torch.finfo(torch.float32).min
FAR_OUTSIDE = 2**31 - 1

Way = Literal["compared", "radix", "split"]
NO_INDEX, GARBAGE = -1, -2  # in place of positions: what a short slice hands on, and what a sort pads with


@dataclass(frozen=True, eq=False)
class Last:
    """What the cut falls into, int64 positions among the candidates.

    Attributes:
        above: greater ones, which all win. members: those that are cut. need: how many of them are wanted.
        sorts: whether they are sorted; else they are equal in every bit, and first come. passes: digits it took.
        telemetry: of the step on fp16 bins.
    """

    above: torch.Tensor
    members: torch.Tensor
    need: int
    sorts: bool
    passes: tuple[Pass, ...]
    telemetry: Telemetry


@dataclass(frozen=True, eq=False)
class Handed:
    """What the slices of a split row hand on, float32 scores and int64 positions, or what stands in their place."""

    scores: torch.Tensor
    origins: torch.Tensor


Sort = Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]


def way_by(width: int) -> Way:
    """How a decode call sorts rows of so many padded columns."""
    return "compared" if width < RADIX_FROM else "radix" if width < SPLIT_FROM else "split"


def per_row(path: Path, tape: Tape, k: int) -> Made:
    """One row of a decode call; the padded width says how it is sorted."""
    return WAYS[way_by(tape.width)](path, tape, k)


def compared(path: Path, tape: Tape, k: int) -> Made:
    """One block, the last candidates ranked by comparing: short decode calls, and the first 12288 rows of a prefill."""
    return _whole(path, tape, k, by_comparing)


def by_radix(path: Path, tape: Tape, k: int) -> Made:
    """One block, the last candidates sorted by radix."""
    return _whole(path, tape, k, sort_of(THREADS))


def split(path: Path, tape: Tape, k: int) -> Made:
    """Ten blocks select k each from their slice of the row, and one selects from those."""
    handed = slices(path, tape, k)
    tape.stage(int((handed.origins >= 0).sum()))
    # An explicit order of the row's own scores says nothing of what the slices hand on.
    inner = Tape(handed.scores, BY_INDEX if tape.arrival.kind == "explicit" else tape.arrival)
    found, places = _select(path, inner, inner.row, 0, k, MERGE)
    if inner.cost.fallback:
        tape.fall_back(inner.cost.fallback)
    origins = torch.where(places >= 0, handed.origins[places.clamp(min=0)], places)
    real = origins[origins >= 0]
    garbage = _garbage(tape, k, int((origins == GARBAGE).sum()), real)
    return Made(torch.cat([real, garbage]), found.telemetry)


WAYS: dict[Way, Callable[[Path, Tape, int], Made]] = {"compared": compared, "radix": by_radix, "split": split}


def by_comparing(slots: torch.Tensor, scores: torch.Tensor, need: int, capacity: int) -> torch.Tensor:
    """Each candidate's slot is the number of greater ones, of equal ones that arrived later.

    No comparison with NaN holds: all NaN share the first slot with the greatest number, the last one written stays, and
    as many slots keep what was there before.

    Args:
        slots: positions in arrival order. scores: theirs. capacity: of the sort.
    """
    nan = torch.isnan(scores)
    later_first = slots[~nan].flip(0)
    ranked = later_first[torch.sort(scores[~nan].flip(0), descending=True, stable=True).indices][:need]
    if bool(nan.any()):
        ranked = torch.cat([slots[nan][-1:], ranked[1:]])
    return torch.cat([ranked, torch.full((need - ranked.numel(),), GARBAGE, device=slots.device)])


def places_of(count: int, capacity: int, threads: int) -> torch.Tensor:
    """Where the sort holds its first ``count`` candidates: each thread has one of every ``threads``, side by side."""
    at = torch.arange(count)
    return at % threads * max(1, capacity // threads) + at // threads


def sort_of(threads: int) -> Sort:
    """A stable radix sort by so many threads of all that the buffer could hold, the rest filled up with -FLT_MAX."""

    def sort(slots: torch.Tensor, scores: torch.Tensor, need: int, capacity: int) -> torch.Tensor:
        places = places_of(slots.numel(), capacity, threads).to(slots.device)
        values = torch.full((capacity,), LOWEST, device=slots.device)
        held = torch.full((capacity,), GARBAGE, device=slots.device)
        values[places], held[places] = scores, slots
        return held[torch.sort(ordered_keys(values), descending=True, stable=True).indices][:need]

    return sort


MERGE = sort_of(MERGE_THREADS)


def last_candidates(path: Path, row: RowKeys, k: int) -> Last:
    """Where the k-th best of some scores falls."""
    assert path.buffer is not None
    room, half = path.buffer.slots(k), row.half
    bins = half.bins(HALF_BITS)
    at = locate(bins, k)
    fits = at.population <= room
    telemetry = replace(binned(HALF_BITS, bins, at, room), buffered=fits, stored=at.population if fits else 0)
    if fits:
        return Last(half.above(at.bin, HALF_BITS), half.members(at.bin, HALF_BITS), at.need, True, (), telemetry)
    found = search_row(Tape(row.scores), row.ascending, k, DIGITS, stop_at=room)
    telemetry = replace(telemetry, passes=found.passes)
    return Last(*parted(row, found), found.need, found.searched < KEY_BITS, found.passes, telemetry)


def slices(path: Path, tape: Tape, k: int) -> Handed:
    """What ten slices hand on, k each; those that need more than the first step read again, counted as gathers."""
    tape.scan(READS_A_STEP)
    size = -(-tape.length // SPLITS)
    origins = []
    for number, row in enumerate(tape.row.slices(SPLITS)):
        first = min(number * size, tape.length)
        part = torch.arange(first, first + row.scores.numel(), device=tape.scores.device)
        if part.numel() > k:
            found, part = _select(path, tape, row, first, k, sort_of(THREADS))
            tape.gather(len(found.passes) * READS_A_STEP * size)
        short = torch.full((k - part.numel(),), NO_INDEX, device=part.device)
        origins.append(torch.cat([part, short]))
    joined = torch.cat(origins)
    scores = torch.where(joined >= 0, tape.scores[joined.clamp(min=0)], LOWEST)
    return Handed(scores, joined)


def _whole(path: Path, tape: Tape, k: int, sort: Sort) -> Made:
    found, taken = _select(path, tape, tape.row, 0, k, sort)
    tape.scan(READS_A_STEP * (1 + len(found.passes)))
    real = taken[taken >= 0]
    garbage = _garbage(tape, k, k - real.numel(), real)
    garbage[::2] = FAR_OUTSIDE
    return Made(torch.cat([real, garbage]), found.telemetry)


def _garbage(tape: Tape, k: int, count: int, real: torch.Tensor) -> torch.Tensor:
    """So many slots of one index over and over: one that is there already, else a loser's."""
    if not real.numel() and count:
        keys = value_keys(tape.scores)
        real = torch.nonzero(keys < torch.topk(keys, k, sorted=False).values.min()).flatten()
    return torch.full((count,), int(real[0]) if real.numel() else FAR_OUTSIDE, device=tape.scores.device)


def _select(path: Path, tape: Tape, part: RowKeys, first: int, k: int, sort: Sort) -> tuple[Last, torch.Tensor]:
    """The k best of a part of the row that begins at ``first``: positions in the row, ``GARBAGE`` in place of some."""
    assert path.buffer is not None
    last = last_candidates(path, part, k)
    if last.passes:
        room = path.buffer.slots(k)
        tape.fall_back(f"{len(last.passes)} exact digits: more than {room} scores share the fp16 bin")
    arrived = tape.order(last.members + first if first else last.members)
    if last.sorts:
        tape.stage(arrived.numel())
        best = sort(arrived, tape.scores[arrived], last.need, path.buffer.slots(k))
    else:
        best = arrived[: last.need]
    return last, torch.cat([tape.order(last.above + first if first else last.above), best])
