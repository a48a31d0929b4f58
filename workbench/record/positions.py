"""What an op returned as positions within its rows: offsets taken off, cache slots looked up in their page tables.

``row_positions`` decides what a capture gets.
``batch_positions`` is its quick twin for screening whole batches, and says less.
"""

from __future__ import annotations

import torch

from workbench.capture.mapped import OFFSET, PAGE_TABLE, Mapped
from workbench.errors import CaptureError, UsageError
from workbench.paths.transforms import KPool, PageTable, Ragged, Raw, Transform, table_of
from workbench.record.reading import EMPTY, Seen

_NONE = 2**62  # above every token
NOT_TOLD = -2  # of an entry that leads nowhere, or to more than one place


def transform_of(seen: Seen, row: int) -> Transform:
    """What the op makes of one row's selection.

    Raises:
        UsageError: the row has no page table, or offset and page size cannot be.
    """
    step: Transform | None = None
    if seen.table is not None:
        step = PageTable(_table(seen, row), seen.page_size)
    elif seen.offsets is not None:
        step = Ragged(int(seen.offsets[row]))
    if seen.pool == 1:
        return Raw() if step is None else step
    pools = KPool(seen.pool, None if seen.tail is None else int(seen.tail[row]))
    return pools if step is None else pools.then(step)


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
        if isinstance(transform, Ragged):
            return returned, Mapped(OFFSET, offset=transform.offset), ""
        return None, None, "the indices are left out, since the tokens that the op returned are not those of its pools"
    except CaptureError as error:
        return None, None, f"the indices are left out: {error}"


def batch_positions(seen: Seen, out: torch.Tensor, first: int, last: int) -> torch.Tensor:
    """Positions of rows ``first`` up to ``last``, int64 [rows, k]; below -1 where they cannot be told.

    Args:
        out: [rows, k] of the whole batch.
    """
    part = out[first:last].to(torch.int64)
    if seen.pool == 1:
        return _unmapped(seen, part, first, last)
    kept = seen.lengths[first:last, None].to(torch.int64).clamp(0, seen.k) * seen.pool
    column = torch.arange(seen.k * seen.pool, device=out.device)
    part = torch.where(column < kept, part[:, : column.numel()], EMPTY)  # behind stand tokens of the open pool
    return _pools(_unmapped(seen, part, first, last), seen.pool)


def _pools(tokens: torch.Tensor, size: int) -> torch.Tensor:
    """The pools that tokens are of, [rows, k]; NOT_TOLD where not all of one stand together."""
    ascending = torch.where(tokens < 0, _NONE, tokens).sort(1).values.reshape(tokens.shape[0], -1, size)
    first = ascending[:, :, 0]
    whole = (ascending == first[:, :, None] + torch.arange(size, device=tokens.device)).all(2) & (first % size == 0)
    empty = (ascending == _NONE).all(2)
    return torch.where(empty, EMPTY, torch.where(whole, first // size, NOT_TOLD))


def _unmapped(seen: Seen, part: torch.Tensor, first: int, last: int) -> torch.Tensor:
    """Positions, or tokens of pools, without offset and page table; of the latter in no order."""
    device, slots_a_row = part.device, part.shape[1]
    if seen.table is None:
        return part if seen.offsets is None else torch.where(part >= 0, part - seen.offsets[first:last, None], part)
    every = seen.table.to(torch.int64)
    if every.dim() != 2 or not every.numel() or seen.page_size < 1:
        return torch.where(part >= 0, NOT_TOLD, part)
    owners = owners_of(seen)
    owner = (torch.arange(seen.rows, device=device) if owners is None else owners.to(torch.int64))[first:last]
    owned = (owner >= 0) & (owner < every.shape[0])
    tables = every[torch.where(owned, owner, 0)]
    pages = min(tables.shape[1], -(-seen.width * seen.pool // seen.page_size))
    within = torch.arange(seen.page_size, device=device)
    slots = (tables[:, :pages, None] * seen.page_size + within).reshape(last - first, -1)
    length = seen.lengths[first:last, None].to(torch.int64) * seen.pool
    column = torch.arange(slots.shape[1], device=device)
    slots = torch.where(column < length, slots, _NONE)  # tables are padded with pages that mean nothing there
    ascending = part.sort(1).values.contiguous()
    place = torch.searchsorted(ascending, slots.contiguous()).clamp(max=slots_a_row - 1)
    hit = ascending.gather(1, place) == slots
    place = torch.where(hit & owned[:, None], place, slots_a_row)  # the last one is of no slot
    found = torch.nn.functional.pad(torch.where(ascending >= 0, NOT_TOLD, ascending), (0, 1))
    times = torch.zeros_like(found).scatter_add_(1, place, torch.ones_like(place))
    found.scatter_(1, place, column.expand_as(slots))
    return torch.where(times > 1, NOT_TOLD, found)[:, :slots_a_row]


def owners_of(seen: Seen) -> torch.Tensor | None:
    """Which page table is each row's, int [rows] on the scores' device; ``None`` where row r has table r.

    What ``table_of`` says of each row, and a number outside the tables where that raises.
    """
    if seen.table is None or seen.row_tables is not None:
        return seen.row_tables
    bounds, tables = seen.bounds, seen.table.shape[0]
    if bounds is None or tables == seen.rows:
        return None
    bounds = bounds.to(seen.scores.device, torch.int64)
    rows = torch.arange(seen.rows, device=bounds.device)
    if bounds.dim() != 1 or bounds.numel() != tables + 1:
        return torch.full_like(rows, -1)
    ascend = (bounds[0] == 0) & (bounds.diff() >= 0).all()
    return torch.where(ascend, torch.searchsorted(bounds, rows, right=True) - 1, -1)


def _table(seen: Seen, row: int) -> torch.Tensor:
    assert seen.table is not None
    tables = seen.table
    if seen.row_tables is not None:
        return table_of(tables, row, row_to_table=seen.row_tables)
    # the op's own rule: with a table for every row, each row uses its own, whatever the bounds say
    bounds = None if tables.shape[0] == seen.rows else seen.bounds
    return table_of(tables, row, cu_seqlens_q=bounds)
