"""The ways in which ops return a selection, by the names that ops give them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """One way in which ops return a selection.

    Attributes:
        name: as ops name it in ``workbench.paths.ops``. made: the transform. column: what one
            column holds, in Markdown. seen: what the description rests on.
    """

    name: str
    made: str
    column: str
    seen: str


_DESCRIBED = "described, not observed"

MODES: tuple[Mode, ...] = (
    Mode("raw", "Raw()", "`i`", "observed"),
    Mode(
        "page table",
        "PageTable(table, page_size)",
        "`(table[i >> b] << b) | (i & (2^b - 1))`",
        f"observed with identity tables, else {_DESCRIBED}",
    ),
    Mode("page table + raw", "dual(PageTable(…), …)", "the same, and `i`", _DESCRIBED),
    Mode("offset", "Ragged(offset)", "`i + offset`", f"observed with offset 0, else {_DESCRIBED}"),
    Mode("k-pool", "KPool(pool_size, seq_len)", "`g * pool_size + s`", f"observed by its pools; the tail {_DESCRIBED}"),
    Mode("k-pool + page table", "KPool(…).then(PageTable(…))", "as for a page table, of such a token", _DESCRIBED),
    Mode("k-pool + offset", "KPool(…).then(Ragged(…))", "`g * pool_size + s + offset`", _DESCRIBED),
)
