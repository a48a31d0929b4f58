"""Repairs of vLLM's buffered paths that scan the row again where the buffer would overflow."""

from __future__ import annotations

from workbench.numeric.keys import ordered_keys
from workbench.paths.models import buffered
from workbench.paths.models.digits import emit, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.spec import Path


def detect_rescan(path: Path, tape: Tape, k: int) -> Made:
    """Detect the overflow while the threshold is located; skip the collection and select exactly from the row.

    Four passes of 8 bits over the whole row, then one that emits the greater keys and one the equal, first come.
    """
    assert path.buffer is not None
    seen = buffered.coarse(path, tape, k)
    if not seen.buffered or seen.at.population <= seen.capacity:
        return buffered.collect(path, tape, k, seen)
    tape.fall_back("exact rescan of the row")
    keys = ordered_keys(tape.scores)
    found = search_row(tape, keys, k, (8, 8, 8, 8))
    tape.scan(2)
    nothing = seen.row.members(0, 1)[:0]
    return Made(emit(tape, keys, found), seen.telemetry(0, nothing, found.passes))
