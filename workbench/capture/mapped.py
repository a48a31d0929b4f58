"""What a recorded selection holds where it holds no positions: cache slots of a page table, or moved positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.capture.checks import first_true
from workbench.capture.format import INT32_BOUNDS, MAX_WIDTH, RETURNED
from workbench.capture.values import described, kind_of, shape_text, whole
from workbench.errors import CaptureError

RAW, PAGE_TABLE, OFFSET = RETURNED
MOST_PAGE_SIZE = 2**30


@dataclass(frozen=True, eq=False)
class Mapped:
    """What the indices that were recorded for a row are, where they are not positions.

    Attributes:
        returned: ``page table`` or ``offset``, as the op returned them.
        table: int32 [pages], of a page table the physical page of each of the row's pages; ``None`` if not recorded.
            What stands past the row's length means nothing.
        page_size: tokens a page, a power of two. offset: what was added to every index; ``None`` if not recorded.

    Raises:
        CaptureError: another kind, or what does not belong to it or cannot be.
    """

    returned: str
    table: torch.Tensor | None = None
    page_size: int | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.returned, str) or self.returned not in (PAGE_TABLE, OFFSET):
            raise CaptureError(f"returned is {described(self.returned)}; {PAGE_TABLE!r} or {OFFSET!r} is needed")
        if self.returned == PAGE_TABLE and self.offset is not None:
            raise CaptureError("an offset does not belong to entries of a page table")
        if self.returned == OFFSET and (self.table is not None or self.page_size is not None):
            raise CaptureError("a page table does not belong to positions moved by an offset")
        try:
            if self.page_size is not None:
                vars(self)["page_size"] = checked_page_size(self.page_size)
            if self.offset is not None:
                vars(self)["offset"] = whole(self.offset, "offset", 0, INT32_BOUNDS[1])
        except ValueError as error:
            raise CaptureError(str(error)) from None
        if self.table is None:
            return
        if not isinstance(self.table, torch.Tensor):
            raise CaptureError(f"the page table is {kind_of(self.table)}; a torch tensor, int32 [pages], is needed")
        if self.table.dtype is not torch.int32 or self.table.dim() != 1 or not 0 < self.table.numel() <= MAX_WIDTH:
            kind = f"{str(self.table.dtype).removeprefix('torch.')} {shape_text(self.table.shape)}"
            raise CaptureError(f"the page table is {kind}; int32 [pages] is needed")
        if self.page_size is None:
            raise CaptureError("a page table says nothing without page_size; give it too")

    def contradiction(self, length: int) -> str | None:
        """What a row of a length contradicts in the mapping, in words; ``None`` if nothing."""
        if self.table is None or self.page_size is None:
            return None
        pages = -(-max(length, 0) // self.page_size)
        if pages > self.table.numel():
            return (
                f"{self.table.numel()} pages of {self.page_size} are fewer than the {pages} that its length, {length}, "
                "takes"
            )
        held = self.table[:pages]
        if (at := first_true(held < 0)) is not None:
            return f"page {at} of the row has entry {int(held[at])}; no page is there"
        if torch.unique(held).numel() < pages:
            return "a page stands twice in the table, so that a slot on it has more than one position"
        return None


def checked_page_size(value: object) -> int:
    """A page size as an int.

    Raises:
        ValueError: it is no power of two.
    """
    size = whole(value, "page_size", 1, MOST_PAGE_SIZE)
    if size & (size - 1):
        raise ValueError(f"page_size is {size}; a power of two is needed")
    return size
