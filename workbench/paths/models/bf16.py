"""Short rows of bfloat16 scores, held in registers."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.numeric.histogram import locate
from workbench.numeric.keys import where_true
from workbench.paths.models.digits import search_row
from workbench.paths.models.tape import Made, Tape, binned
from workbench.paths.selection import Telemetry
from workbench.paths.spec import Path

LOSSY_BITS = 13


def exact(path: Path, tape: Tape, k: int) -> Made:
    """Two bytes give the k-th value; then scores are compared with it as numbers.

    A NaN is counted by its bits and no comparison takes it, which leaves slots at -1. Zeros of both signs are equal as
    numbers, so that at a pivot of -0.0 the equal ones are counted anew.
    """
    tape.scan()
    found = search_row(tape.on_chip(), tape.row.ascending, k, path.digits, width=tape.row.width)
    pivot = tape.scores[tape.row.between(found.pivot, found.pivot)[0]]
    greater = tape.order(where_true(tape.scores > pivot))
    equal = tape.order(where_true(tape.scores == pivot))
    negative_zero = bool(pivot == 0) and bool(torch.signbit(pivot))
    need = k - greater.numel() if negative_zero else found.need
    return Made(torch.cat([greater, equal[:need]]), Telemetry(passes=found.passes))


def approximate(path: Path, tape: Tape, k: int) -> Made:
    """One histogram of 13 fp16 bits; what shares the threshold bin is taken first come, without a closer look."""
    tape.scan()
    half = tape.row.half
    bins = half.bins(LOSSY_BITS)
    at = locate(bins, k)
    members = tape.order(half.members(at.bin, LOSSY_BITS))
    telemetry = replace(
        binned(LOSSY_BITS, bins, at, at.need),
        buffered=at.need < at.population,
        stored=at.need,
        dropped=members[at.need :],
    )
    return Made(torch.cat([tape.order(half.above(at.bin, LOSSY_BITS)), members[: at.need]]), telemetry)
