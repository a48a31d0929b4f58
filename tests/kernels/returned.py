"""What launches return in place of positions, and what must then stand in every slot."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from workbench.capture.mapped import OFFSET, PAGE_TABLE, Mapped
from workbench.engines.cuda.emission import NO_PAGE, Emission, turned_back
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.transforms import PageTable, Ragged
from workbench.paths.transforms.recorded import positions

APART = 5  # columns of the tables that belong to none, and what stands there
POISON = -123456789


def emissions(lengths: list[int], device: str = "cpu") -> Iterator[tuple[str, Emission, list[Mapped]]]:
    """By name what a launch of such rows can return, and how that maps each row.

    Page tables of 1 and of 64 tokens a page, one a row or several rows' own, with no page more than the longest row
    takes; offsets.
    """
    generator, rows = torch.Generator().manual_seed(23), len(lengths)
    for page_size, count in ((1, rows), (64, max(1, rows // 2))):
        pages = -(-max(lengths) // page_size)
        held = torch.full((count, pages + APART), POISON, dtype=torch.int32)
        for table in held:
            table[:pages] = torch.randperm(3 * pages, generator=generator)[:pages]
        shared = count < rows
        of = torch.randint(0, count, (rows,), generator=generator).to(torch.int32) if shared else torch.arange(rows)
        emission = Emission(held.to(device)[:, :pages], page_size, of.to(device) if shared else None)
        yield f"pages of {page_size}", emission, [Mapped(PAGE_TABLE, held[at, :pages], page_size) for at in of.tolist()]
    offsets = torch.randint(0, 1 << 20, (rows,), generator=generator).to(torch.int32)
    moved = [Mapped(OFFSET, offset=offset) for offset in offsets.tolist()]
    yield "offsets", Emission(offsets=offsets.to(device)), moved


def check_returned(made: Selection, mapped: Mapped, length: int) -> None:
    """Hold what one row's launch returned against its positions, slot by slot, and turn it back."""
    indices, returned = made.indices, made.returned
    assert returned is not None
    table = mapped.table
    covered = 2**31 if table is None else table.numel() * (mapped.page_size or 1)
    garbage = ((indices < -1) & (indices != UNWRITTEN)) | (indices >= min(covered, max(length, 0)))
    kept = torch.where(garbage, -1, indices)
    if table is not None:
        expected = PageTable(table, mapped.page_size or 1).apply(kept, length)
        expected[indices >= covered], expected[(indices < -1) & garbage] = NO_PAGE, NO_PAGE
        past = garbage & (indices >= 0) & (indices < covered)  # the table covers it, and it is none of the row's
        expected[past] = PageTable(table, mapped.page_size or 1).apply(torch.where(past, indices, -1), None)[past]
    else:
        expected = Ragged(mapped.offset or 0).apply(kept, length)
        expected[garbage] = (indices + (mapped.offset or 0))[garbage]  # and past int32 from its other end on
    assert torch.equal(returned, expected)
    assert torch.equal(turned_back(returned, indices, mapped, length), indices)
    if not garbage.any():
        assert torch.equal(positions(returned, mapped, length), indices)
