"""What an op returned as positions within its rows: offsets taken off, cache slots looked up in their page tables.

``row_positions`` decides what a capture gets.
``batch_positions`` is its quick twin for screening whole batches, and says less.
"""

from __future__ import annotations

import torch

from workbench.capture.mapped import OFFSET, PAGE_TABLE, Mapped
from workbench.errors import CaptureError, UsageError
from workbench.paths.transforms import PageTable, Ragged, Raw, Transform, table_of
from workbench.record.reading import Seen

EMPTY = -1


def transform_of(seen: Seen, row: int) -> Transform:
    """What the op makes of one row's selection.

    Raises:
        UsageError: the row has no page table, or offset and page size cannot be.
    """
    if seen.table is not None:
        return PageTable(_table(seen, row), seen.page_size)
    if seen.offsets is not None:
        return Ragged(int(seen.offsets[row]))
    return Raw()


def row_positions(
    transform: Transform, returned: torch.Tensor, length: int
) -> tuple[torch.Tensor | None, Mapped | None, str]:
    """What a capture holds of a row's output, int32 [k], and what that is: ``None`` for positions.

    Positions where these can be told and lie within the row. Else what the op returned, with the row's page table or
    offset, which readers judge as far as it goes. What no capture can hold is left out: ``None`` and why.

    Args:
        returned: [k], what the op wrote for the row. length: of the row.
    """
    try:
        positions = transform.invert(returned, length)
        if isinstance(transform, Raw) or not bool((positions >= max(length, 0)).any()):
            return positions, None, ""
    except UsageError as error:
        why = f"the indices are left out, since what the op returned cannot be mapped back: {error}"
        if isinstance(transform, Raw) or bool((returned < EMPTY).any()):
            return None, None, why
    try:
        if isinstance(transform, PageTable):
            return returned, Mapped(PAGE_TABLE, transform.table.to(torch.int32), transform.page_size), ""
        assert isinstance(transform, Ragged)
        return returned, Mapped(OFFSET, offset=transform.offset), ""
    except CaptureError as error:
        return None, None, f"the indices are left out: {error}"


def batch_positions(seen: Seen, out: torch.Tensor, first: int, last: int) -> torch.Tensor:
    """Positions of rows ``first`` up to ``last``, int64 [rows, k]; -1 also where they cannot be told.

    Args:
        out: [rows, k] of the whole batch.
    """
    part = out[first:last].to(torch.int64)
    if seen.offsets is not None:
        return torch.where(part >= 0, part - seen.offsets[first:last, None], part)
    if seen.table is None:
        return part
    tables = torch.stack([_table(seen, row) for row in range(first, last)]).to(torch.int64)
    pages = min(tables.shape[1], -(-seen.width // seen.page_size))
    within = torch.arange(seen.page_size, device=out.device)
    slots = (tables[:, :pages, None] * seen.page_size + within).reshape(last - first, -1)
    length = seen.lengths[first:last, None].to(torch.int64)
    column = torch.arange(slots.shape[1], device=out.device)
    slots = torch.where(column < length, slots, -2)  # tables are padded with pages that mean nothing there
    ascending = part.sort(1).values.contiguous()
    place = torch.searchsorted(ascending, slots.contiguous()).clamp(max=seen.k - 1)
    hit = ascending.gather(1, place) == slots
    found = torch.full((last - first, seen.k + 1), EMPTY, dtype=torch.int64, device=out.device)
    found.scatter_(1, torch.where(hit, place, seen.k), column.expand_as(slots))
    return found[:, : seen.k]


def _table(seen: Seen, row: int) -> torch.Tensor:
    assert seen.table is not None
    tables = seen.table
    # the op's own rule: with a table for every row, each row uses its own, whatever the bounds say
    bounds = None if tables.shape[0] == seen.rows else seen.bounds
    return table_of(tables, row, cu_seqlens_q=bounds)
