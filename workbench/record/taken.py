"""What is taken of a call, and its rows as they are held until they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from workbench.capture.format import INT32_BOUNDS
from workbench.capture.row import Call, Row
from workbench.record.files import Kept
from workbench.record.positions import row_positions, transform_of
from workbench.record.reading import Seen

_OUT_OF_RANGE = "the indices are left out: some are outside their rows, which a capture cannot hold"
_NO_OUTPUT = "the indices are left out: the op's output is not of the shape [rows, k]"


@dataclass(frozen=True, eq=False)
class Taken:
    """What was taken of a call before it was made.

    Attributes:
        seen: the call. number: of the calls seen. here: step, layer and request, as they were then.
        rows: numbers of the rows to keep; ``None`` where what comes back decides.
        scores: those rows, on the CPU; empty where the caller's own are read afterwards.
    """

    seen: Seen
    number: int
    here: dict[str, Any]
    rows: list[int] | None
    scores: tuple[torch.Tensor, ...] = ()


def row_of(
    seen: Seen,
    call: Call,
    number: int,
    scores: torch.Tensor,
    length: int,
    start: int,
    returned: torch.Tensor | None,
) -> Kept:
    """One row of a call with what the op returned for it.

    Args:
        number: of the row within its call. returned: [k]; ``None`` where the op's output has another shape.

    Raises:
        CaptureError, UsageError: no capture can hold the row.
    """
    indices, mapped, note = None, None, _NO_OUTPUT
    if returned is not None:
        back = returned.to(scores.device, torch.int32)
        indices, mapped, note = row_positions(transform_of(seen, number), back, length)
    return Kept(Row(scores, length, start, call, indices=indices, mapped=mapped), note)


def stored(kept: Kept, *, own: bool, padding: bool) -> Kept:
    """A row as it is held: on the CPU, in memory of its own, and what a file cannot hold left out.

    Args:
        own: whether its scores were copied already. padding: whether cells past its length are kept.
    """
    row, note = kept.row, kept.note
    scores = row.scores.detach()
    if not own:
        scores = scores.to("cpu", copy=True)
    if not padding and not row.outside:
        scores = scores[: max(row.start + row.length, 1)].clone()
    indices = None if row.indices is None else row.indices.detach().to("cpu", copy=True)
    mapped = row.mapped
    if mapped is not None and mapped.table is not None:
        mapped = replace(mapped, table=mapped.table.detach().to("cpu", copy=True))
    beyond = row.length if mapped is None else INT32_BOUNDS[1]
    if indices is not None and not row.outside and bool(((indices < -1) | (indices >= beyond)).any()):
        indices, mapped, note = None, None, _OUT_OF_RANGE
    return Kept(Row(scores, row.length, row.start, row.call, indices=indices, mapped=mapped), note)
