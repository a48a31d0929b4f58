"""The sampled selector: a cut-off from a sample, the row's survivors in a buffer, otherwise an exact pass over the row.

Everything follows from the buffer's capacity: the sample is half of it, and the cut-off aims at as many survivors.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.numeric.histogram import GREATEST_NUMBER, half_histogram, locate
from workbench.numeric.keys import KEY_BITS, half_key_value, ordered_keys
from workbench.paths.models import buffered
from workbench.paths.models.digits import emit, search_row
from workbench.paths.models.rescans import overflows
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Telemetry
from workbench.paths.spec import Buffer, Path

BITS = 11
FILTERED_BITS = 8
RUN = 32
CAPACITIES_FROM = {512: 12}  # the shortest row that is sampled, in capacities, by k
CAPACITIES_ELSE = 8
EXACT_READS = 5  # one for the fp16 bins, four for the bytes


def shortest(k: int, capacity: int = 8192) -> int:
    """The length from which a row is sampled; shorter ones are filtered."""
    return CAPACITIES_FROM.get(k, CAPACITIES_ELSE) * capacity


def sampled(path: Path, tape: Tape, k: int) -> Made:
    """Select from the survivors of a sampled cut-off, or exactly from the row where they are too few or too many."""
    assert path.buffer is not None
    capacity = path.buffer.slots(k)
    if tape.length < shortest(k, capacity):
        return _filtered(path, tape, k, 2 * capacity)
    survivors = tape.row.between(_cutoff(tape, max(1, capacity // 2)), (1 << KEY_BITS) - 1)
    tape.scan()
    tape.stage(min(survivors.numel(), capacity))
    if k <= survivors.numel() <= capacity:
        return _exact(path, tape, k, survivors, Telemetry(capacity=capacity, buffered=True, stored=survivors.numel()))
    why = "few" if survivors.numel() < k else "many"
    tape.fall_back(f"exact pass over the row: {survivors.numel()} survivors of the sampled cut-off are too {why}")
    return _from_row(path, tape, k, Telemetry(capacity=capacity))


def sample_places(length: int, size: int) -> torch.Tensor:
    """Positions of the sample, int64 [size]: runs of 32 at equal distances."""
    run = min(RUN, size)
    places = torch.arange(size)
    return places // run * (length // -(-size // run)) + places % run


def _cutoff(tape: Tape, size: int) -> int:
    """Ordered key of the least fp16 value of the sample's bin that half a buffer of survivors should reach."""
    sample = tape.scores[sample_places(tape.length, size).to(tape.scores.device)]
    tape.gather(size)
    rank = max(1, size * size // tape.length)
    key = locate(half_histogram(sample).bins(BITS), rank).bin << (16 - BITS)
    if key > GREATEST_NUMBER:  # the bin of NaN begins at a NaN
        return int(ordered_keys(torch.tensor([torch.nan])))
    value = half_key_value(key)
    return 0 if value != value else int(ordered_keys(torch.tensor([value])))  # the last bin has NaN below -inf


def _filtered(path: Path, tape: Tape, k: int, capacity: int) -> Made:
    """The filtered selector with a check of its buffer."""
    filtered = replace(path, key_bits=FILTERED_BITS, buffer=Buffer(capacity), row_passes=2)
    seen = buffered.coarse(filtered, tape, k)
    if not overflows(seen):
        return buffered.collect(filtered, tape, k, seen)
    tape.scan()
    tape.stage(capacity)
    tape.fall_back(f"exact pass over the row: {seen.at.population} scores in the threshold bin overflow the buffer")
    return _from_row(path, tape, k, seen.bypassed(()))


def _from_row(path: Path, tape: Tape, k: int, telemetry: Telemetry) -> Made:
    tape.scan(EXACT_READS + 1)
    return _exact(path, tape, k, None, telemetry)


def _exact(path: Path, tape: Tape, k: int, among: torch.Tensor | None, telemetry: Telemetry) -> Made:
    """The threshold bin of 11 fp16 bits among ascending positions or the whole row, then its members' exact bytes."""
    half = tape.row.half if among is None else half_histogram(tape.scores[among])
    at = locate(half.bins(BITS), k)
    members = half.members(at.bin, BITS)
    keys = tape.row.ascending_of(members if among is None else among[members])
    found = search_row(tape.on_chip(), keys, at.need, path.digits)
    # No score outside the survivors reaches the cut, so that looking for it in the row is looking among them.
    return Made(emit(tape, found), replace(telemetry, passes=found.passes))
