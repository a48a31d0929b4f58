"""Repairs of vLLM's buffered paths that scan the row again where the buffer would overflow."""

from __future__ import annotations

import torch

from workbench.numeric.keys import KEY_BITS
from workbench.numeric.rowkeys import Ascending
from workbench.paths.models import buffered
from workbench.paths.models.buffered import Coarse
from workbench.paths.models.digits import Search, emit, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.shared import BYTES
from workbench.paths.spec import Path

WIDE = (11, 11, 10)

SAMPLE = 2048
SAMPLED_FROM = 196608  # row length
SAMPLED_ROOM = 16384
MOST_TARGETED = 8192
LARGE_K = 2048  # from which on the sample targets twice as many as are wanted, else four times


def overflows(seen: Coarse) -> bool:
    """Whether the threshold bin, counted before anything is collected, has more members than the buffer slots."""
    return seen.buffered and seen.at.population > seen.capacity


def detect_rescan(path: Path, tape: Tape, k: int) -> Made:
    """Detect the overflow while the threshold is located; skip the collection and select exactly from the row.

    The buffer's counter is checked in later passes too, but what fits once only shrinks: those checks never fire.
    """
    seen = buffered.coarse(path, tape, k)
    if not overflows(seen):
        return buffered.collect(path, tape, k, seen)
    indices, found = _rescan(tape, k)
    return Made(indices, seen.bypassed(found.passes))


def collect_then_rescan(path: Path, tape: Tape, k: int) -> Made:
    """Detect the overflow by the buffer's counter, after the pass that filled it; then select exactly from the row."""
    seen = buffered.coarse(path, tape, k)
    if not overflows(seen):
        return buffered.collect(path, tape, k, seen)
    tape.scan(path.row_passes - 1)
    tape.stage(seen.capacity)
    indices, found = _rescan(tape, k)
    # What was collected is thrown away with the rest of the buffer, so that nothing is lost by being dropped.
    return Made(indices, seen.telemetry(seen.capacity, indices[:0], found.passes))


def wide_rescan(path: Path, tape: Tape, k: int) -> Made:
    """Bins of the exact key's top 11 bits, so that a rescan begins with the threshold bin's prefix known."""
    seen = buffered.coarse(path, tape, k, exact_bits=WIDE[0])
    if not overflows(seen):  # DERIVED: seen on the histogram; the text says only what the recovery is handed
        return buffered.collect(path, tape, k, seen)
    return _wide_from(seen, tape, k)


def wide_rescan_sampled(path: Path, tape: Tape, k: int) -> Made:
    """As ``wide_rescan``, but a long row first tries a pivot from a sample, which the caller takes to be in use.

    DERIVED: the trial belongs to the recovery, after the histogram; the sample is evenly spaced; its pivot is the value
    at the rank that the targeted candidates have in proportion; of equal keys the pivot's are all collected.
    """
    seen = buffered.coarse(path, tape, k, exact_bits=WIDE[0])
    if not overflows(seen):
        return buffered.collect(path, tape, k, seen)
    if tape.length < SAMPLED_FROM:
        return _wide_from(seen, tape, k)
    tape.gather(SAMPLE)
    places = torch.arange(SAMPLE, device=tape.scores.device) * tape.length // SAMPLE
    target = min(MOST_TARGETED, 4 * k) if k < LARGE_K else 2 * k
    pivot = int(tape.row.keys_of(places).sort(descending=True).values[max(1, target * SAMPLE // tape.length) - 1])
    tape.scan()
    candidates = tape.row.between(pivot, (1 << KEY_BITS) - 1)
    tape.stage(min(candidates.numel(), SAMPLED_ROOM))
    if not k <= candidates.numel() <= SAMPLED_ROOM:
        return _wide_from(seen, tape, k, "sampled pivot, then ")
    tape.fall_back("sampled pivot")
    taken, passes = buffered.cut(path, tape, tape.order(candidates), k)
    return Made(taken, seen.bypassed(passes))


def wide_select(
    tape: Tape, k: int, room: int, start: Search | None = None, tried: str = ""
) -> tuple[torch.Tensor, Search]:
    """Select exactly from the row by digits of 11, 11 and 10 bits.

    Args:
        room: final candidates that can be staged. start: the first digit, where it is known. tried: what was given up.
    """
    keys = tape.row.ascending
    before = search_row(tape, keys, k, WIDE[:-1] if start is None else WIDE[1:-1], start=start)
    found = last_digit(tape, keys, before, WIDE[-1], room)
    again = ", candidates scanned again" if 0 < room < before.equal else ""
    tape.fall_back(f"{tried}wide rescan of the row{again}")
    return emit(tape, found), found


def last_digit(tape: Tape, keys: Ascending, before: Search, bits: int, room: int) -> Search:
    """The last histogram pass also writes the certain winners and stages the candidates for the rest.

    Staged candidates are read again by their indices (DERIVED: pairs with the score would not fit the shared memory);
    where they are more than ``room``, the row is scanned once more.
    """
    found = search_row(tape, keys, before.need, (bits,), start=before, width=before.width)
    tape.stage(min(before.equal, room))
    if before.equal <= room:
        tape.gather(before.equal)
    else:
        tape.scan()
    return found


def _wide_from(seen: Coarse, tape: Tape, k: int, tried: str = "") -> Made:
    at = seen.at
    start = Search(at.bin << sum(WIDE[1:]), WIDE[0], at.above, at.need, at.population, ())
    indices, found = wide_select(tape, k, seen.capacity, start, tried)
    return Made(indices, seen.bypassed(found.passes))


def _rescan(tape: Tape, k: int) -> tuple[torch.Tensor, Search]:
    """Four passes of 8 bits over the whole row, then one that writes the greater keys and one the equal, first come."""
    tape.fall_back("exact rescan of the row")
    found = search_row(tape, tape.row.ascending, k, BYTES)
    tape.scan(2)
    return emit(tape, found), found
