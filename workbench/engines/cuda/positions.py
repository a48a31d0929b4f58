"""What ops returned for a batch as positions within its rows, on the device and without waiting for it.

An entry of a page table is where its page stands in the row's table, among the pages that the row's length needs; a
pool is the tokens that it stands for, side by side and in their order. What has no one answer (a page that stands twice
or nowhere, a row without a table, tokens of no whole pool) is ``NOT_TOLD``, which is in no selection, so that screening
names the row and the exact judgement looks at it.
"""

from __future__ import annotations

import torch

from workbench.engines.cuda.census import NEEDS
from workbench.engines.cuda.device import limits_of, unavailable
from workbench.engines.cuda.support import check_tensor, refuse, run_support
from workbench.engines.cuda.support_sources import SEEN_SLOTS
from workbench.errors import UsageError

MOST_ENTRIES = SEEN_SLOTS // 2  # of a row
NOT_TOLD = -2


def positions_of(
    entries: torch.Tensor,
    lengths: torch.Tensor,
    width: int,
    k: int,
    *,
    table: torch.Tensor | None = None,
    owners: torch.Tensor | None = None,
    page_size: int = 1,
    offsets: torch.Tensor | None = None,
    pool: int = 1,
) -> torch.Tensor:
    """Positions, int32 [rows, k], queued on torch's current stream; of pools, each by its number.

    Args:
        entries: int32 [rows, columns] on a CUDA device, contiguous, what an op returned: ``k * pool`` columns and any
            further ones, which are not looked at. lengths: int32 [rows] there, in scores; of at most ``width``.
        table: int32 [tables, pages] there, rows any distance apart; entries are then cache slots. owners: int32 [rows]
            there, which of the tables is a row's; row r has table r by default. page_size: tokens a page.
        offsets: int32 [rows] there, what positions were moved by where there is no table. pool: tokens a score.

    Raises:
        UsageError: a tensor or a number that is no such thing, or no device, CuPy or compiler.
    """
    refuse(unavailable())
    check_tensor("entries", entries, torch.int32, (None, None), whole=True)
    rows, columns = entries.shape
    for name, one in (("lengths", lengths), ("owners", owners), ("offsets", offsets)):
        if one is not None:
            check_tensor(name, one, torch.int32, (rows,), entries.device, whole=True)
    if table is not None:
        check_tensor("table", table, torch.int32, (None, None), entries.device)
    if min(k, pool, page_size) < 1 or not k * pool <= min(columns, MOST_ENTRIES):
        raise UsageError(
            f"k {k}, {pool} tokens a pool, pages of {page_size}: 1 or more are needed, and {columns} columns hold at "
            f"most {min(columns, MOST_ENTRIES)} tokens of pools"
        )
    device = entries.device.index
    refuse(limits_of(device).lacks(0, NEEDS))
    made = entries.new_empty((rows, k))
    if rows:
        tables, pages, apart = (0, 0, 0) if table is None else (*table.shape, table.stride(0))
        given = (entries, columns, lengths, width, table, apart, pages, tables, owners, page_size, offsets, pool, k)
        run_support("positions.cu", (rows,), (*given, made), device, longs=(5,))
    return made
