"""What the rows of one file must have in common of how their recorded indices were mapped."""

from __future__ import annotations

from workbench.capture.capture import Capture
from workbench.capture.mapped import RAW, Mapped
from workbench.capture.row import same_bits
from workbench.errors import CaptureError


def common_mapping(capture: Capture) -> tuple[Mapped | None, bool, list[int]]:
    """How the recorded indices of all rows were mapped: that of row 0, whether its table is all rows', the offsets.

    Raises:
        CaptureError: they are of several kinds, or their page tables are not all alike in pages and page size.
    """
    if not capture.info.recorded:
        return None, False, []
    first, shared = capture.mapped_of(0), True
    moved: list[int] = []
    for row in range(len(capture)):
        mapped = capture.mapped_of(row)
        if mapping_kind(mapped) != mapping_kind(first):
            differ = f"{mapping_kind(mapped)} against {mapping_kind(first)} of row 0"
            raise CaptureError(
                f"recorded indices are of another kind, {differ}; write a file for each kind",
                file=capture.name,
                row=row,
            )
        if mapped is not None and mapped.offset is not None:
            moved.append(mapped.offset)
        shared = shared and same_mapping(mapped, first)
    return first, shared, moved


def mapping_kind(mapped: Mapped | None) -> str:
    """What all rows of a file have in common of how their recorded indices were mapped, in words."""
    if mapped is None:
        return RAW
    if mapped.table is not None:
        return f"{mapped.returned} of {mapped.table.numel()} pages of {mapped.page_size}"
    known = mapped.offset is not None or (mapped.page_size is not None and f"pages of {mapped.page_size}")
    return f"{mapped.returned} ({'known' if known is True else known or 'unknown'})"


def same_mapping(one: Mapped | None, other: Mapped | None) -> bool:
    """Whether two rows were mapped alike."""
    if one is None or other is None:
        return one is other
    said = [(mapped.returned, mapped.page_size, mapped.offset) for mapped in (one, other)]
    return said[0] == said[1] and same_bits(one.table, other.table)
