"""Selectors of whole devices: exact prefixes of the row until what shares the last one fits a tie buffer."""

from __future__ import annotations

import torch

from workbench.paths.models import buffered
from workbench.paths.models.digits import Search, emit, parted, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Pass, Telemetry
from workbench.paths.spec import Path

COOP_DIGITS = (12, 10, 10)
ROCM_DIGITS = (12, 4)
REST = (8, 8)


def coop(path: Path, tape: Tape, k: int) -> Made:
    """All blocks of a grid on one row: 12, 10 and 10 bits, ending early; NaN counts as -inf."""
    assert path.buffer is not None
    tape.row = tape.row.without_nan
    room = max(k, path.buffer.slots(k))  # the op takes no k above its capacity
    found = search_row(tape, tape.row.ascending, k, COOP_DIGITS, stop_at=room)
    return _collect(path, tape, found, room)


def rocm_coop(path: Path, tape: Tape, k: int) -> Made:
    """12 bits and, where more members share them than fit, 4 more; past that the row is read again under the prefix."""
    assert path.buffer is not None
    room = path.buffer.slots(k)
    found = search_row(tape, tape.row.ascending, k, ROCM_DIGITS, stop_at=room)
    if found.equal <= room:
        return _collect(path, tape, found, room)
    tape.scan()
    tape.stage(room)
    tape.fall_back("rescan under the resolved prefix")
    found = search_row(tape, tape.row.ascending, k, REST, start=found)
    tape.scan()
    return Made(emit(tape, found), _telemetry(room, 0, found.passes))


def _collect(path: Path, tape: Tape, found: Search, room: int) -> Made:
    """Winners to the output, ties into the buffer, first come, and an exact cut there."""
    tape.scan()
    above, ties = (tape.order(indices) for indices in parted(tape.row, found))
    ties = ties[:room]
    tape.stage(ties.numel())
    taken, passes = buffered.cut(path, tape, ties, found.need)
    return Made(torch.cat([above, taken]), _telemetry(room, ties.numel(), (*found.passes, *passes)))


def _telemetry(room: int, stored: int, passes: tuple[Pass, ...]) -> Telemetry:
    return Telemetry(capacity=room, buffered=stored > 0, stored=stored, passes=passes)
