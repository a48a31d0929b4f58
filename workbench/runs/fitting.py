"""The call of a row that got smaller: its numbers follow, as long as the op still sends it to the same path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from workbench.capture.row import Call, Row
from workbench.paths.routing import Route, route

ALIGNMENTS = (1, 4, 8)  # of widths and strides that ops ask for


def alone(row: Row) -> Row:
    """A row without the others of its call, as a capture of it alone gives it back: not their lengths either."""
    batch = torch.tensor([row.length], dtype=torch.int32) if row.call.rows == 1 else None
    return replace(row, batch=batch, indices=None)


def fitted(row: Row, scores: torch.Tensor, k: int, taken: tuple[str, str] | None) -> Row | None:
    """A row with these scores only, under the nearest call that reaches the path.

    Width, stride and max_seq_len come down to the row's length where the call says them, the first two rounded up where
    the op asks for it; what the path needs larger stays as the call had it. Rows in the batch, op, release, device and
    all else are kept.

    Args:
        row: with its call. scores: [length], valid ones. k: winners wanted.
        taken: path and variant that the op must send it to; ``None`` where that does not matter.

    Returns:
        The row, from start 0, without padding; ``None`` if no such call reaches the path.
    """
    for call in _calls(row.call, scores.numel(), k):
        made = Row(scores, scores.numel(), call=call, index=0, capture=row.capture)
        made = alone(made)
        if taken is None or reaches(route(made), taken):
            return made
    return None


def reaches(where: Route, taken: tuple[str, str]) -> bool:
    """Whether a route is known and leads to a path and variant."""
    return (where.path, where.variant) == taken


def _calls(call: Call, length: int, k: int) -> Iterator[Call]:
    """Calls for a row of this length, the tightest first."""
    said = [name for name in ("width", "stride", "max_seq_len") if getattr(call, name) is not None]
    cells = max(length, 1)
    for align in ALIGNMENTS if {"width", "stride"} & set(said) else (1,):
        wide = max(-(-cells // align) * align, k)
        tight = {name: length if name == "max_seq_len" else wide for name in said}
        yield replace(call, k=k, **tight)  # type: ignore[arg-type]
        if call.max_seq_len is not None and call.max_seq_len > length:
            yield replace(call, k=k, **(tight | {"max_seq_len": call.max_seq_len}))  # type: ignore[arg-type]
    yield replace(call, k=k)
