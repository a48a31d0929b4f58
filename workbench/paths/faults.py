"""What a selector does to a row that no selection can show: it hangs, writes past its memory, or depends on other rows.

Such a case is told in words and never run. Everything here looks at one row; what a bad length does to a call stands in
``workbench.paths.lengths``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import torch

from workbench.numeric.histogram import Threshold
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.spec import Path, Variant

MINUS_INF_BIN = 63  # of 12 bits: -inf and everything that rounds to it
BITS = 12


@dataclass(frozen=True)
class Finding:
    """What happens, in words.

    Attributes:
        words: one sentence. level: what it makes the row's risk; ``None`` where the row alone does not tell.
        runs: whether the selection can be made all the same.
    """

    words: str
    level: Literal["certain"] | None = None
    runs: bool = False

    @property
    def happens(self) -> str:
        """The words, where it happens to this row for sure; empty where that depends on other rows."""
        return self.words if self.level else ""


class Counted(Protocol):
    """A row with its counts, each made when first asked for."""

    scores: torch.Tensor
    k: int

    @property
    def keys(self) -> RowKeys:
        """The scores by their keys."""

    @property
    def nan(self) -> int:
        """How many scores are NaN."""

    def threshold(self, bits: int) -> Threshold:
        """The threshold bin of so many fp16 bits; float32 rows only."""


class Counts:
    """The counts of one row, for a caller that has none.

    Args:
        scores: [length], the valid scores. k: winners wanted.
    """

    def __init__(self, scores: torch.Tensor, k: int) -> None:
        self.scores, self.k = scores, k

    @cached_property
    def keys(self) -> RowKeys:
        """The scores by their keys."""
        return RowKeys(self.scores)

    @property
    def nan(self) -> int:
        """How many scores are NaN."""
        return int(torch.isnan(self.scores).sum())

    def threshold(self, bits: int) -> Threshold:
        """The threshold bin of so many fp16 bits; float32 rows only."""
        return self.keys.half.threshold(bits, self.k)


def finding(path: Path, variant: Variant, row: Counted) -> Finding | None:
    """What a variant of a path does to a row that it takes, apart from what it selects; ``None`` if nothing."""
    look = FINDINGS.get(variant.model)
    return look(path.as_variant(variant), row) if look else None


def _past_the_buffer(path: Path, row: Counted) -> Finding | None:
    assert path.key_bits is not None
    assert path.buffer is not None
    at, capacity = row.threshold(path.key_bits), path.buffer.slots(row.k)
    if at.need == at.population or at.population <= capacity:
        return None
    return Finding(
        f"{at.population} scores share the threshold bin {at.bin} and nothing checks the buffer of {capacity}: it "
        "writes past the buffer, and nothing bounds the damage",
        "certain",
    )


def _ring_reuse(path: Path, row: Counted) -> Finding:
    return Finding(
        "depends on the rows served before in the same group: where rows of other paths came between two of this path, "
        "its first digit can be chosen on a histogram that was not cleared"
    )


def _negative_length(path: Path, row: Counted) -> Finding:
    return Finding(
        "a row of length -1 hangs where max_seq_len is at most 32768 and a row takes more than one block; this row's "
        "length is not negative"
    )


def _streaming(path: Path, row: Counted) -> Finding | None:
    if row.nan:
        return Finding("NaN is checked for: the kernel traps, or marks the first slot with 0x3F3F3F3F", "certain")
    if row.scores.dtype == torch.float32 and row.threshold(BITS).bin > MINUS_INF_BIN:
        return None
    finite = int(torch.isfinite(row.scores).sum())
    if finite >= row.k:
        return None
    return Finding(
        f"{finite} scores are finite, fewer than k: a released op was seen to return indices past the length for such "
        "rows",
        runs=True,
    )


def _past_the_groups(path: Path, row: Counted) -> Finding | None:
    assert path.buffer is not None
    if row.nan <= path.buffer.slots(row.k) or not bool((torch.isnan(row.scores) & torch.signbit(row.scores)).any()):
        return None
    return Finding(
        f"{row.nan} NaN overflow the buffer, some with the sign set: the last scan takes all keys from the cut-off on"
        ", whatever their bins, and can take more than k groups and write past its memory (described, not observed)"
    )


# By the model that a variant names.
FINDINGS: dict[str, Callable[[Path, Counted], Finding | None]] = {
    "unguarded": _past_the_buffer,
    "ring_reuse": _ring_reuse,
    "negative_length": _negative_length,
    "deep_select": _streaming,
    "kpool_0.5.23": _past_the_groups,
}
