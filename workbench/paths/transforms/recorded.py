"""Recorded outputs turned back into positions, as far as the capture holds how they were mapped."""

from __future__ import annotations

import torch

from workbench.capture.mapped import PAGE_TABLE, Mapped
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.transforms.base import Transform
from workbench.paths.transforms.slots import PageTable, Ragged


def positions(indices: torch.Tensor, mapped: Mapped | None, length: int | None) -> torch.Tensor:
    """The positions that were recorded.

    Args:
        indices: int32 [k], as recorded. mapped: what they are; ``None`` for positions, which come back as they are.
        length: of the row; ``None`` where it leaves the row.

    Raises:
        UsageError: they cannot be told, and why.
    """
    if mapped is None:
        return indices
    transform: Transform
    if mapped.table is not None and mapped.page_size is not None:
        transform = PageTable(mapped.table, mapped.page_size)
    elif mapped.offset is not None:
        transform = Ragged(mapped.offset)
    else:
        what = "entries of a page table" if mapped.returned == PAGE_TABLE else "positions moved by an offset"
        raise UsageError(f"its indices are {what} that the capture does not hold, so their positions are not known")
    return transform.invert(indices, length)


def recorded_positions(row: Row) -> torch.Tensor:
    """The positions that were recorded for a row, int32 [k].

    Raises:
        UsageError: they cannot be told, and why.
    """
    assert row.indices is not None
    return positions(row.indices, row.mapped, None if row.outside else row.length)
