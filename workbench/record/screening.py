"""Which rows of a call may be bad, for a whole batch at once on the scores' own device.

The test may name a good row, and then ``workbench.record.judging`` clears it; it misses no row whose selection is
invalid or lacks a winner, and no row that overflows a buffer of a path that its op takes in a way that loses winners.

With the k best selected, the least selected score is the k-th best. So a selection is lossless exactly where no score
outside it is greater than its least; and the threshold bin's population is what lies from the bin's lower edge on, less
what lies above the bin, all of which is selected. That takes a few elementwise passes over the scores and no top-k.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from workbench.capture.format import MAX_WIDTH
from workbench.numeric.keys import half_keys
from workbench.paths.catalog import PATHS
from workbench.paths.ops import OPS
from workbench.record.interfaces import TOPK
from workbench.record.positions import batch_positions
from workbench.record.reading import Seen

CELLS = 2**24  # of scores looked at together, so that what is worked out beside them stays below 100 MB
_LEAST_KEY = 0x03FF  # of -inf; below it are no numbers


class Gate(NamedTuple):
    """A buffer that a row can overflow.

    Attributes:
        bits: of the coarse key. capacity: the least population that can overflow, less one.
        ranked: whether several blocks share the bin, any of which can run out of room.
        longer_than, up_to: a row's length must be above the one and not above the other to be sent there.
    """

    bits: int
    capacity: int
    ranked: bool
    longer_than: int
    up_to: int


@functools.cache
def gates(op: str, k: int) -> tuple[Gate, ...]:
    """The tightest buffer of each coarse key and lengths, of the paths that an op reaches; of every path if unknown."""
    if op == TOPK:
        return ()
    reached = next((one.reaches for one in OPS if one.name == op), None)
    found: dict[tuple[int, bool, int, int], int] = {}
    for path in PATHS:
        if path.key_bits is None or (reached is not None and path.name not in reached):
            continue
        for variant in path.variants:
            buffer = variant.buffer or path.buffer
            own = path.as_variant(variant)
            if buffer is None or variant.lossless or own.unmet(k=k, length=None, dtype="float32"):
                continue
            room = min(buffer.slots(k), buffer.ranks.capacity if buffer.ranks else buffer.slots(k))
            low, high = (k if one == "k" else one for one in (own.longer_than, own.up_to))
            key = (path.key_bits, buffer.ranks is not None, low or 0, MAX_WIDTH if high is None else high)
            found[key] = min(room, found.get(key, room))
    return tuple(
        Gate(bits, capacity, ranked, low, high) for (bits, ranked, low, high), capacity in sorted(found.items())
    )


def suspects(seen: Seen, out: torch.Tensor | None) -> torch.Tensor:
    """Rows that may be bad, bool [rows] on the scores' device.

    Args:
        out: [rows, k], what the op returned; without it every row is suspect.
    """
    if out is None:
        return torch.ones(seen.rows, dtype=torch.bool, device=seen.scores.device)
    step = max(1, CELLS // seen.width)
    parts = [_part(seen, out, first, min(first + step, seen.rows)) for first in range(0, seen.rows, step)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _part(seen: Seen, out: torch.Tensor, first: int, last: int) -> torch.Tensor:
    scores, k, width = seen.scores[first:last], seen.k, seen.width
    device = scores.device
    starts = None if seen.starts is None else seen.starts[first:last, None].to(torch.int64)
    given = seen.lengths[first:last, None].to(torch.int64)
    length = given.clamp(0, width) if starts is None else given.clamp(min=0).minimum(width - starts)
    column = torch.arange(width, device=device)
    valid = column < length if starts is None else (column >= starts) & (column < starts + length)

    picked = batch_positions(seen, out, first, last)
    slot = torch.arange(k, device=device)
    inside = (picked >= 0) & (picked < length)
    cells = picked if starts is None else picked + starts
    chosen = torch.zeros(last - first, width + 1, dtype=torch.bool, device=device)
    chosen.scatter_(1, torch.where(inside, cells, width), True)
    chosen = chosen[:, :width]
    wanted = length.clamp(max=k)
    bad = (given != length)[:, 0]
    bad |= (inside & (slot < wanted)).sum(1) != wanted[:, 0]
    bad |= chosen.sum(1) != wanted[:, 0]
    bad |= ((picked >= length) | (picked < -1)).any(1)

    values = scores.gather(1, torch.where(inside, cells, 0))
    counted = inside & ~torch.isnan(values)
    least = torch.where(counted, values, torch.inf).amin(1, keepdim=True)
    lost = ~(scores <= least)
    lost &= valid
    lost &= ~chosen
    bad |= lost.any(1)
    bad |= (inside & ~torch.isfinite(values)).any(1)  # the paths' own rules for these are for the exact judgement
    buffers = gates(seen.interface.op, k) if scores.dtype == torch.float32 else ()
    if buffers:
        bad |= _overflows(buffers, scores, valid, values, counted, least, length[:, 0]) & (length > k)[:, 0]
    return bad


def _overflows(
    buffers: tuple[Gate, ...],
    scores: torch.Tensor,
    valid: torch.Tensor,
    values: torch.Tensor,
    counted: torch.Tensor,
    least: torch.Tensor,
    length: torch.Tensor,
) -> torch.Tensor:
    """Rows whose threshold bin overflows a buffer and holds winners above the least one, or ranks that may run out.

    All buffers at once, [rows, buffers], but for the passes over the scores.
    """
    shifts = torch.tensor([16 - one.bits for one in buffers], dtype=torch.int32).to(scores.device, non_blocking=True)
    bins = half_keys(least) >> shifts
    above = (counted[:, :, None] & (half_keys(values)[:, :, None] >> shifts > bins[:, None])).sum(1)
    edges, rounded = _edge(bins << shifts), scores.half()
    # -0.0 also counts as at least +0.0 here, though it lies a bin below: a row is named too often then, never missed
    reached = torch.stack([((rounded >= edges[:, at, None]) & valid).sum(1) for at in range(len(buffers))], 1)
    better = (counted & (values > least)).sum(1, keepdim=True) - above
    bad = torch.zeros(scores.shape[0], dtype=torch.bool, device=scores.device)
    for at, one in enumerate(buffers):
        full = (reached[:, at] - above[:, at] > one.capacity) & (length > one.longer_than) & (length <= one.up_to)
        bad |= full if one.ranked else full & (better[:, at] > 0)
    return bad


def _edge(keys: torch.Tensor) -> torch.Tensor:
    """The fp16 values of ordered keys, -inf for keys below its own, which no number has."""
    keys = keys.clamp(min=_LEAST_KEY)
    bits = torch.where(keys >= 0x8000, keys - 0x8000, 0xFFFF - keys)
    return torch.where(bits >= 0x8000, bits - 0x10000, bits).to(torch.int16).view(torch.float16)
