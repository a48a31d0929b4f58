"""Selectors that promise the smaller index among equal scores and write their winners in index order.

DERIVED: -0.0 counts as equal to +0.0. The promise is by value, and compared as they come the two would differ.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.paths.models import buffered
from workbench.paths.models.digits import emit, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Telemetry
from workbench.paths.spec import Path


def _on_chip(tape: Tape) -> Tape:
    """The row where reading it again costs nothing, its zeros without a sign."""
    row = tape.row.without_negative_zero
    return Tape(row.scores, tape.arrival, row=row)


def ordered_radix(path: Path, tape: Tape, k: int) -> Made:
    """Exact digits of the whole row, then one sweep in index order; the keys stay on chip where the buffer holds them.

    DERIVED: digits of 8 bits, one pass each where the keys do not fit, and one sweep for greater and equal keys.
    """
    assert path.buffer is not None
    inside = _on_chip(tape)
    if tape.length <= path.buffer.slots(k):
        tape.scan()
        found = search_row(inside, inside.row.ascending, k, path.digits)
    else:
        found = search_row(tape, inside.row.ascending, k, path.digits)
        tape.scan()
    return Made(emit(inside, found, by_index=True).sort().values, Telemetry(passes=found.passes))


def ordered_register(path: Path, tape: Tape, k: int) -> Made:
    """The threshold bin refined to the exact key in registers, then one sweep in index order; one pass over the row.

    DERIVED: digits of 8 bits.
    """
    inside = _on_chip(tape)
    seen = buffered.coarse(path, inside, k)
    tape.scan()
    above, members = seen.row.above(seen.at.bin, seen.bits), seen.row.members(seen.at.bin, seen.bits)
    inside_bin = Tape(inside.scores[members], tape.arrival)
    found = search_row(inside_bin, inside_bin.row.ascending, seen.at.need, path.digits if seen.buffered else ())
    taken = members[emit(inside_bin, found, by_index=True)]
    # No buffer of any size stands between the bin and the output.
    telemetry = replace(seen.bypassed(found.passes), capacity=None)
    return Made(torch.cat([above, taken]).sort().values, telemetry)
