"""DeepSelect: the k-th best so far is the threshold for the blocks of the row that follow, in any order."""

from __future__ import annotations

import torch

from workbench.numeric.keys import key_width, ordered_keys
from workbench.paths.models.digits import emit, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Pass, Telemetry
from workbench.paths.spec import Path

BLOCK = SLACK = 1024  # scores: the sizes that its description calls reasonable for k = 512


def deep_select(path: Path, tape: Tape, k: int) -> Made:
    """One pass over the row in blocks of 1024."""
    return stream(tape, k, BLOCK, SLACK)


def stream(tape: Tape, k: int, block: int, slack: int) -> Made:
    """Keep what exceeds the running threshold; cut the buffer back to k once it holds ``slack`` more.

    The buffer never holds more than k + ``slack`` + ``block``: it cannot overflow.

    Args:
        block: scores that are read together. slack: candidates beyond k that are waited for.
    """
    tape.scan()
    keys = ordered_keys(tape.scores)
    width = key_width(tape.scores)
    held, least, most = keys.new_empty(0), -1, 0
    passes: tuple[Pass, ...] = ()
    firsts = torch.arange(0, tape.length, block, device=keys.device)
    for first in tape.order(firsts).tolist():
        arrived = torch.arange(first, min(first + block, tape.length), device=keys.device)
        arrived = arrived[keys[arrived] > least]
        tape.stage(arrived.numel())
        held = torch.cat([held, arrived])
        most = max(most, held.numel())
        if held.numel() >= k + slack:
            held, least, passes = _cut(tape, keys, held, k, width)
    if held.numel() > k:
        held, least, passes = _cut(tape, keys, held, k, width)
    return Made(held, Telemetry(capacity=k + block + slack, buffered=True, stored=most, passes=passes))


def _cut(
    tape: Tape, keys: torch.Tensor, held: torch.Tensor, k: int, width: int
) -> tuple[torch.Tensor, int, tuple[Pass, ...]]:
    """The k best of the buffer by exact bytes, the least of their keys, and the passes over the buffer."""
    found = search_row(Tape(tape.scores, tape.arrival), keys[held], k, (8,) * (width // 8), width=width)
    return held[emit(tape, keys[held], found, by_index=True)], found.pivot, found.passes
