"""The outlook of the per-row selector, whose sorts and slices are filled up with -FLT_MAX.

Padding lies above -inf and among scores of -FLT_MAX, so that it matters where fewer than k scores lie above -FLT_MAX.
Each slot that it takes is lost. What the slot then holds is garbage, which has by chance hit a winner: at most 9 times
in 412 slots on any row observed.
"""

from __future__ import annotations

import torch

from workbench.analysis.profile import RowProfile
from workbench.analysis.survival import NOTHING_LOST, Outlook
from workbench.numeric.histogram import LEAST_NUMBER
from workbench.numeric.hypergeometric import all_survive, survivors
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.models.per_row import (
    LOWEST,
    MERGE_THREADS,
    SPLITS,
    THREADS,
    Last,
    Way,
    last_candidates,
    places_of,
    slices,
)
from workbench.paths.models.tape import Tape
from workbench.paths.spec import Path

PADDED = "padding of -FLT_MAX takes slots of -inf and -FLT_MAX, which then hold garbage"


def padded(profile: RowProfile, path: Path, way: Way) -> Outlook:
    """The outlook of a row without NaN.

    Args:
        path: with the variant's own buffer. way: how the last candidates are sorted.
    """
    assert path.key_bits is not None
    # Bins above that of -inf hold no -FLT_MAX; the threshold is known already, and spares a pass over the row.
    clear = profile.countable and profile.threshold(path.key_bits).bin > LEAST_NUMBER >> (16 - path.key_bits)
    if way == "compared" or clear:
        return NOTHING_LOST
    need = profile.k - int((profile.scores > LOWEST).sum())
    if need <= 0:
        return NOTHING_LOST
    if way == "radix":
        last = last_candidates(path, profile.keys, profile.k)
        return _of_sort(path, last, profile.scores, profile.k, THREADS, 1.0)
    handed = slices(path, Tape(profile.scores, row=profile.keys), profile.k)
    last = last_candidates(path, RowKeys(handed.scores), profile.k)
    shared = int((handed.scores == LOWEST).sum())  # scores of -FLT_MAX and what padding put in their place: junk
    junk = _junk(path, profile.scores, profile.k)
    if last.sorts:
        real = max(0.0, 1.0 - junk.expected / shared) if shared else 1.0
        return _of_sort(path, last, handed.scores, profile.k, MERGE_THREADS, real)
    # First come, all of them equal: junk and scores of -FLT_MAX alike. What is -inf then is real.
    taken = min(need, shared)
    least, most = max(0, taken - (shared - junk.least)), min(taken, junk.most)
    usual = max(1, round(junk.expected)) if most else 0  # stands for junk that varies with the order within slices
    p_clean = 0.0 if least else all_survive(shared, usual, shared - taken)
    return Outlook(least, most, p_clean, taken * junk.expected / shared if shared else 0.0)


def _junk(path: Path, scores: torch.Tensor, k: int) -> Outlook:
    """How many slots that the slices of a split row hand on were taken by padding; the chance of none is not given."""
    size = -(-scores.numel() // SPLITS)
    found = []
    for number in range(SPLITS):
        part = scores[number * size : (number + 1) * size]
        if part.numel() <= k:
            short = k - part.numel()
            found.append(Outlook(short, short, 0.0, float(short)))
        else:
            found.append(_of_sort(path, last_candidates(path, RowKeys(part), k), part, k, THREADS, 1.0))
    least, most = sum(one.least for one in found), sum(one.most for one in found)
    return Outlook(least, most, 0.0, sum(one.expected for one in found))


def _of_sort(path: Path, last: Last, scores: torch.Tensor, k: int, threads: int, real: float) -> Outlook:
    """The outlook of a sort.

    Args:
        real: which part of the candidates of -FLT_MAX are scores of the row.
    """
    assert path.buffer is not None
    members = scores[last.members]
    count, equal = members.numel(), int((members == LOWEST).sum())
    need = last.need - int((members > LOWEST).sum())
    room = max(path.buffer.slots(k), count)
    if not last.sorts or need <= 0:
        return NOTHING_LOST
    places = places_of(count, room, threads).sort().values
    pads_before = places - torch.arange(count)
    most_kept, least_kept = (_kept(places, room, need, equal, first) for first in (True, False))
    mean = 0.0
    for rank, pads in enumerate(pads_before.tolist()):
        wanted = need - pads  # this one is taken if fewer equal ones than that come before it
        if wanted <= 0 or not equal:
            break
        counts, mass = survivors(count - 1, equal - 1, rank)
        mean += equal / count * float(mass[counts < wanted].sum())
    taken = min(need, equal + room - count)
    before_pads = int((pads_before == 0).sum())
    counts, mass = survivors(count, equal, before_pads)
    clean = float(mass[counts >= need].sum()) * real**need if room > count else real**need
    least, most = taken - most_kept, taken - int(least_kept * (real == 1.0))
    return Outlook(least, most, 0.0 if least else clean, taken - mean * real)


def _kept(places: torch.Tensor, room: int, need: int, equal: int, first: bool) -> int:
    """How many of the equal candidates are taken if they stand in the first, or in the last, of the places."""
    chosen = places[:equal] if first else places[places.numel() - equal :]
    at = torch.ones(room, dtype=torch.bool)
    at[places] = False  # padding
    at[chosen] = True
    taken = torch.nonzero(at).flatten()[:need]
    return int(torch.isin(taken, chosen).sum())
