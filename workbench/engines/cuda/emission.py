"""What a launch returns in place of positions, as the ops of an engine do: entries of page tables, moved positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from workbench.capture.mapped import Mapped, checked_page_size
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.selection import Selection, Telemetry
from workbench.paths.transforms.base import LARGEST
from workbench.paths.transforms.recorded import positions

NO_PAGE = -2  # what stands for an index that the row's table has no page for: an op reads past the table there


@dataclass(frozen=True, eq=False)
class Emission:
    """What the rows of a launch return in place of positions; what is in the tensors is read on the device alone.

    Position i of a row becomes ``(table[i >> b] << b) | (i & (2^b - 1))`` with ``b = log2(page_size)``, or
    ``i + offset``; an empty slot stays -1. (SGLang: ``workbench.paths.transforms``.)

    Attributes:
        tables: int32 [tables, pages] on the device, tables any distance apart.
        page_size: tokens a page, a power of two.
        table_of: int32 [rows], the number of each row's table; ``None`` where row r has table r.
        offsets: int32 [rows], in place of tables.

    Raises:
        UsageError: neither tables nor offsets, or both, or what does not belong to them.
    """

    tables: torch.Tensor | None = None
    page_size: int = 1
    table_of: torch.Tensor | None = None
    offsets: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if (self.tables is None) == (self.offsets is None):
            raise UsageError("a launch returns entries of page tables or moved positions: give tables or offsets")
        if self.tables is None and (self.page_size != 1 or self.table_of is not None):
            raise UsageError("page_size and table_of belong to page tables, which are not given")
        try:
            checked_page_size(self.page_size)
        except ValueError as error:
            raise UsageError(str(error)) from None

    @property
    def page_bits(self) -> int:
        """log2 of the page size."""
        return self.page_size.bit_length() - 1

    def refusals(self, rows: int, device: torch.device) -> list[str]:
        """Why a launch of so many rows on a device cannot return this, in words."""
        found = []
        for name, tensor in (("table_of", self.table_of), ("offsets", self.offsets)):
            if tensor is None:
                continue
            if not (_is(tensor, device, 1) and tuple(tensor.shape) == (rows,) and tensor.is_contiguous()):
                found.append(f"{name} must be int32 [{rows}], contiguous, on {device}")
        if (tables := self.tables) is None:
            return found
        if not _is(tables, device, 2) or not tables.numel() or (tables.shape[1] > 1 and tables.stride(1) != 1):
            found.append(f"tables must be int32 [tables, pages] on {device}, the entries of a table side by side")
        elif self.table_of is None and tables.shape[0] < rows:
            found.append(f"{tables.shape[0]} page tables are fewer than the {rows} rows: give table_of")
        return found


def _is(tensor: torch.Tensor, device: torch.device, dims: int) -> bool:
    return tensor.dtype == torch.int32 and tensor.dim() == dims and tensor.device == device


def arguments_of(
    emission: Emission | None, at: Callable[[torch.Tensor | None], Any], int32: Callable[[int], Any]
) -> tuple[Any, ...]:
    """What a kernel is told: tables, their distance, pages, bits of a page, the table of each row, offsets.

    Args:
        at: gives the argument that stands for a tensor. int32: for an int of four bytes; others have eight.
    """
    if emission is None:
        return at(None), 0, int32(0), int32(0), at(None), at(None)
    tables = emission.tables
    apart, pages = (0, 0) if tables is None else (tables.stride(0), tables.shape[1])
    return at(tables), apart, int32(pages), int32(emission.page_bits), at(emission.table_of), at(emission.offsets)


def emission_of(mapped: Mapped | None, device: torch.device) -> Emission | None:
    """What the launch of one row returns where its capture says how the op mapped it; ``None`` for positions.

    A mapping that the capture does not hold cannot be made again: positions then.
    """
    if mapped is None:
        return None
    if mapped.table is not None and mapped.page_size is not None:
        return Emission(mapped.table.to(device)[None], mapped.page_size)
    if mapped.offset is not None:
        return Emission(offsets=torch.tensor([mapped.offset], dtype=torch.int32, device=device))
    return None


def unreturnable(mapped: Mapped | None, length: int) -> list[str]:
    """Why a row cannot be returned as its capture says and turned back into positions, in words."""
    if mapped is None:
        return []
    if mapped.table is not None and mapped.page_size is not None:
        if (why := mapped.contradiction(length)) is not None:
            return [f"its page table does not serve: {why}"]
        most = int(mapped.table[: -(-max(length, 0) // mapped.page_size)].max()) if length > 0 else 0
        if (most + 1) * mapped.page_size - 1 > LARGEST:
            return [f"its page table does not serve: slots on page {most} of {mapped.page_size} tokens pass int32"]
    if mapped.offset is not None and mapped.offset + max(length, 1) - 1 > LARGEST:
        return [f"positions up to {length - 1} moved by its offset, {mapped.offset}, pass int32"]
    return []


def selection_of(
    row: Row, returned: torch.Tensor, selected: torch.Tensor | None, telemetry: Telemetry | None
) -> Selection:
    """The selection of a launch of one row, where the row is: as positions, and as returned where that is none.

    Args:
        returned, selected: int32 [1, k], what the launch returned and the positions beside it, if it gave any.
    """
    here = returned[0].to(row.scores.device)
    if selected is None or row.mapped is None:
        return Selection(here, telemetry)
    told = turned_back(here, selected[0].to(row.scores.device), row.mapped, row.length)
    return Selection(told, telemetry, here)


def turned_back(returned: torch.Tensor, selected: torch.Tensor, mapped: Mapped, length: int) -> torch.Tensor:
    """The positions that one row's launch returned, as those of a recorded selection are told.

    Args:
        returned: int32 [k], entries or moved positions. selected: int32 [k], the positions that they stand for. What
            some paths leave in slots that nothing takes stands for no position of the row: such slots are taken
            from here.
    """
    held = (selected >= 0) & (selected < length)
    told = selected.clone()
    told[held] = positions(returned[held], mapped, length)
    return told
