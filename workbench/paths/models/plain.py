"""Selectors without a coarse key: everything, or exact digits only."""

from __future__ import annotations

import torch

from workbench.paths.models.digits import emit, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Telemetry
from workbench.paths.spec import Path


def identity(path: Path, tape: Tape, k: int) -> Made:
    """Every index in order."""
    return Made(torch.arange(tape.length, device=tape.scores.device))


def radix(path: Path, tape: Tape, k: int) -> Made:
    """Exact digits of the whole row, whose keys stay on chip after one pass; equal keys first come."""
    found = search_row(tape.on_chip(), tape.row.ascending, k, path.digits)
    tape.scan()
    return Made(emit(tape, found), Telemetry(passes=found.passes))
