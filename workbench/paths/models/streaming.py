"""DeepSelect: the k-th best so far is the threshold for the blocks of the row that follow, in any order."""

from __future__ import annotations

import torch

from workbench.numeric.keys import ordered_keys
from workbench.numeric.rowkeys import Ascending, RowKeys
from workbench.paths.models.digits import of_members, search_row
from workbench.paths.models.tape import Made, Tape
from workbench.paths.selection import Pass, Telemetry
from workbench.paths.spec import Path

BLOCK = SLACK = 1024  # scores: the sizes that its description calls reasonable for k = 512
TOGETHER = 64  # blocks


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
    row, device = tape.row, tape.scores.device
    keys = row.made_of(tape.scores, ("blocks", block), lambda: _in_blocks(row, block))
    blocks = tape.order(torch.arange(0, tape.length, block, device=device)) // block
    held, least, most = torch.empty(0, dtype=torch.int64, device=device), -1, 0
    passes: tuple[Pass, ...] = ()
    done = 0
    while done < blocks.numel():
        # The threshold stays until the buffer is cut: blocks are looked at together, up to the one that fills it.
        ahead = blocks[done : done + TOGETHER]
        exceed = keys[ahead] > least
        totals = exceed.sum(1).cumsum(0)
        room = k + slack - held.numel()
        taken = min(int(torch.searchsorted(totals, room)) + 1, ahead.numel())
        places = torch.nonzero(exceed[:taken])
        tape.stage(int(totals[taken - 1]))
        held = torch.cat([held, ahead[places[:, 0]] * block + places[:, 1]])
        most, done = max(most, held.numel()), done + taken
        if held.numel() >= k + slack:
            held, least, passes = _cut(tape, held, k)
    if held.numel() > k:
        held, least, passes = _cut(tape, held, k)
    return Made(held, Telemetry(capacity=k + block + slack, buffered=True, stored=most, passes=passes))


def _in_blocks(row: RowKeys, block: int) -> torch.Tensor:
    """The exact keys of a row, int64 [blocks, block]; cells past its end have the key -1, which exceeds nothing."""
    keys = ordered_keys(row.scores)
    return torch.nn.functional.pad(keys, (0, -keys.numel() % block), value=-1).view(-1, block)


def _cut(tape: Tape, held: torch.Tensor, k: int) -> tuple[torch.Tensor, int, tuple[Pass, ...]]:
    """The k best of the buffer by exact bytes, the least of their keys, and the passes over the buffer."""
    width, keys = tape.row.width, ordered_keys(tape.scores[held])
    found = search_row(tape.on_chip(), Ascending(keys), k, (8,) * (width // 8), width=width)
    greater, equal = of_members(keys, found)
    return held[torch.cat([greater, equal[: found.need]])], found.pivot, found.passes
