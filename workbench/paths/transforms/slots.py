"""Transforms that map each slot by itself: nothing, a page table, an offset, -inf taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from workbench.errors import UsageError
from workbench.paths.faults import Finding
from workbench.paths.transforms.base import EMPTY, LARGEST, Transform, checked, held_in, narrow
from workbench.words import few


@dataclass(frozen=True)
class Raw(Transform):
    """Positions within the row's window as they are: every vLLM op, SGLang's unfused ones and its mode INDICES."""

    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """The selection itself."""
        return narrow(checked(selection))

    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """The selection itself."""
        return self.apply(mapped, length)


@dataclass(frozen=True, eq=False)
class PageTable(Transform):
    """Cache slots: position i becomes ``(table[i >> b] << b) | (i & (2^b - 1))`` with ``b = log2(page_size)``.

    SGLang: page_size 1 in ``fast_topk_transform_fused`` and the k-pool op (``table[i]``), any power of two in
    ``topk_transform_paged`` and ``topk_transform_paged_v2``. vLLM maps what its ops return in a kernel of its own
    (``past_table="empty"``), with the same formula.

    Attributes:
        table: int32 or int64 [pages], the physical page of each of the row's pages.
        page_size: tokens a page, a power of two.
        past_table: an index on a page past the table is an error (``"error"``; SGLang's ops read past the table), or
            becomes -1 silently (``"empty"``, vLLM's consumer).
    """

    table: torch.Tensor
    page_size: int = 1
    past_table: Literal["error", "empty"] = "error"

    def __post_init__(self) -> None:
        check_page_size(self.page_size)
        if self.table.dim() != 1 or self.table.dtype not in (torch.int32, torch.int64):
            shape = list(self.table.shape)
            raise UsageError(f"a page table is int32 or int64 [pages] of one row; this is {self.table.dtype} {shape}")
        if self.past_table not in ("error", "empty"):
            raise UsageError(f"past_table is {self.past_table!r}; it is 'error' or 'empty'")

    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """The cache slot of every selected position."""
        indices, table = checked(selection), self._table(selection)
        logical = indices // self.page_size
        past = (indices >= 0) & (logical >= table.numel())
        if self.past_table == "error" and past.any():
            raise UsageError(
                f"{held_in(past, indices)}, past the {table.numel()} pages of {self.page_size} in the page table (an "
                "op reads past it there): give the row's whole table"
            )
        held = (indices >= 0) & ~past
        pages = torch.zeros_like(indices)
        pages[held] = table[logical[held]]
        if (unused := held & (pages < 0)).any():
            entries = few(dict.fromkeys(pages[unused].tolist()))
            raise UsageError(f"{held_in(unused, indices)}, where the page table has {entries}: no page is there")
        within = indices % self.page_size
        if (over := held & (pages > (LARGEST - within) // self.page_size)).any():
            entries = few(dict.fromkeys(pages[over].tolist()))
            raise UsageError(
                f"{held_in(over, indices)}, where the page table has {entries}: a cache slot there does not fit int32"
            )
        slots = pages * self.page_size + within
        return narrow(torch.where(held, slots, torch.where(past, EMPTY, indices)))

    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """The positions of cache slots.

        Pages past the row's length are left out of account: tables are padded with pages that mean nothing there.
        """
        slots, table = checked(mapped), self._table(mapped)
        if length is not None:
            table = table[: -(-max(length, 0) // self.page_size)]
        held = slots >= 0
        pages = slots // self.page_size
        order = torch.argsort(table, stable=True)
        entries = table[order]
        first = torch.searchsorted(entries, pages)
        copies = torch.searchsorted(entries, pages, right=True) - first
        if (unknown := held & (copies == 0)).any():
            within = "" if length is None else f" of a row of length {length}"
            foreign = dict.fromkeys(pages[unknown].tolist())
            raise UsageError(
                f"{held_in(unknown, slots, 'cache slot')}, of page{'s' * (len(foreign) > 1)} {few(foreign)}, not among "
                f"the {table.numel()} pages{within}: give the table that the call had"
            )
        if (repeated := held & (copies > 1)).any():
            page = int(pages[repeated][0])
            places = few((table == page).nonzero().flatten().tolist())
            raise UsageError(
                f"{held_in(repeated, slots, 'cache slot')}: page {page} stands at places {places} of the page table, "
                "so that a slot on it has more than one position; a table with repeated pages cannot be inverted"
            )
        if table.numel():
            positions = order[first.clamp(max=table.numel() - 1)] * self.page_size + slots % self.page_size
            slots = torch.where(held, positions, slots)
        return narrow(slots)

    def length_after(self, length: int | None) -> int | None:
        """Cache slots are no positions."""
        return None

    def findings(self, selection: torch.Tensor, length: int | None) -> tuple[Finding, ...]:
        """Selected tokens that vLLM's consumer drops without a word."""
        indices = checked(selection)
        past = (indices >= 0) & (indices // self.page_size >= self.table.numel())
        if self.past_table == "error" or not past.any():
            return ()
        what = f"{held_in(past, indices)}, past the block table: each becomes -1 and its token is lost silently"
        return (Finding(f"{what} (described, not observed)", runs=True),)

    def _table(self, like: torch.Tensor) -> torch.Tensor:
        return self.table.to(like.device, torch.int64)


@dataclass(frozen=True)
class Ragged(Transform):
    """Positions moved by an offset, ``i + offset``: the row's window within keys packed one request after another.

    ``fast_topk_transform_ragged_fused``, ``topk_transform_ragged_v2``, FlashInfer's ragged op and the k-pool op.
    """

    offset: int

    def __post_init__(self) -> None:
        if isinstance(self.offset, bool) or not isinstance(self.offset, int) or not 0 <= self.offset <= LARGEST:
            raise UsageError(f"offset is {self.offset!r}; an integer from 0 to {LARGEST} is needed")

    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """Every selected position plus the offset."""
        indices = checked(selection)
        moved = torch.where(indices >= 0, indices + self.offset, indices)
        if (over := moved > LARGEST).any():
            raise UsageError(f"{held_in(over, indices)}: with the offset {self.offset} that does not fit int32")
        return narrow(moved)

    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """Every output minus the offset."""
        moved = checked(mapped)
        if (before := (moved >= 0) & (moved < self.offset)).any():
            raise UsageError(f"{held_in(before, moved)}, before the row's offset {self.offset}: another row's offset?")
        return narrow(torch.where(moved >= 0, moved - self.offset, moved))

    def length_after(self, length: int | None) -> int | None:
        """What is packed is no longer this row."""
        return None


@dataclass(frozen=True, eq=False)
class WithoutMinusInf(Transform):
    """Every selected score of -inf becomes -1, its slot stays: SGLang's unfused selection and its prefill candidates.

    Attributes:
        scores: [length], the row's valid scores.
    """

    scores: torch.Tensor

    def apply(self, selection: torch.Tensor, length: int | None) -> torch.Tensor:
        """The selection without what scores -inf."""
        indices = checked(selection)
        return narrow(torch.where(self._dropped(indices, length), EMPTY, indices))

    def invert(self, mapped: torch.Tensor, length: int | None) -> torch.Tensor:
        """The same: what was dropped cannot be told."""
        return narrow(checked(mapped))

    def findings(self, selection: torch.Tensor, length: int | None) -> tuple[Finding, ...]:
        """Winners that vanish."""
        dropped = int(self._dropped(checked(selection), length).sum())
        if not dropped:
            return ()
        words = f"{dropped} selected scores are -inf and become -1, though they belong to the row: it comes back short"
        return (Finding(f"{words} (described, not observed)", runs=True),)

    def _dropped(self, indices: torch.Tensor, length: int | None) -> torch.Tensor:
        if length is None:
            raise UsageError("-inf is looked up by position: the step before gives no positions of the row")
        if (past := indices >= self.scores.numel()).any():
            raise UsageError(f"{held_in(past, indices)}, and the row has {self.scores.numel()} scores")
        dropped = torch.zeros_like(indices, dtype=torch.bool)
        held = indices >= 0
        dropped[held] = self.scores.to(indices.device)[indices[held]] == -torch.inf
        return dropped


def dual(transform: Transform, selection: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both outputs of an op that returns mapped and raw indices of one selection, slot by slot.

    ``topk_transform_paged`` with ``raw_indices``, ``topk_transform_paged_v2`` in mode DUAL_OUTPUT. Two calls may take
    different ones of equal scores; one selection mapped twice cannot.
    """
    k = selection.numel()
    if transform.columns(k) != k:
        raise UsageError(f"the transform makes {transform.columns(k)} columns of {k}: raw indices cannot stand beside")
    return transform.apply(selection, length), Raw().apply(selection, length)


def short_row(length: int, k: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """The selection of a row no longer than k, as every op makes it: 0 to length - 1, then -1; int32 [k].

    A negative length gives -1 throughout, as where it is compared as signed; what else it does on some paths stands in
    ``workbench.paths.lengths``.
    """
    if length > k:
        raise UsageError(f"length {length} is above k, {k}: such a row is selected from")
    out = torch.full((k,), EMPTY, dtype=torch.int32, device=device)
    out[: max(length, 0)] = torch.arange(max(length, 0), dtype=torch.int32, device=device)
    return out


def table_of(
    tables: torch.Tensor,
    row: int,
    row_to_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
) -> torch.Tensor:
    """The page table of one row of a call.

    Args:
        tables: int [tables, pages]. row: number of the row within its call.
        row_to_table: int [rows], which table each row uses (``page_table_row_index`` of the k-pool op,
            ``row_to_batch`` of the packed mode); without it and ``cu_seqlens_q``, row r uses table r.
        cu_seqlens_q: int [tables + 1], ascending from 0: table t serves the rows from entry t up to entry t + 1
            (prefill in ``fast_topk_transform_fused``).

    Raises:
        UsageError: both are given, or the row has no table.
    """
    if row_to_table is not None and cu_seqlens_q is not None:
        raise UsageError("row_to_table and cu_seqlens_q both say which table a row uses; give one")
    at = row
    if row < 0 or (row_to_table is not None and row >= row_to_table.numel()):
        raise UsageError(f"row {row} is not among those of the call")
    if row_to_table is not None:
        at = int(row_to_table[row])
    if cu_seqlens_q is not None:
        bounds = cu_seqlens_q.to(torch.int64)
        if bounds.dim() != 1 or bounds.numel() != tables.shape[0] + 1 or int(bounds[0]) or (bounds.diff() < 0).any():
            raise UsageError(
                f"cu_seqlens_q must ascend from 0 and hold {tables.shape[0] + 1} entries, one past the tables"
            )
        at = int(torch.searchsorted(bounds, row, right=True)) - 1
    if not 0 <= at < tables.shape[0]:
        raise UsageError(f"row {row} uses page table {at}, and the call has {tables.shape[0]}")
    return tables[at]


def check_page_size(page_size: int, least: int = 1) -> None:
    """UsageError unless it is a power of two of at least ``least``."""
    whole = isinstance(page_size, int) and not isinstance(page_size, bool)
    if not whole or page_size < least or page_size & (page_size - 1):
        raise UsageError(f"page_size is {page_size!r}; a power of two of at least {least} is needed")
