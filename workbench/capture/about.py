"""What is known of a capture without reading a score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from workbench.capture.checks import outside_rows
from workbench.capture.header import TensorInfo
from workbench.capture.mapped import RAW
from workbench.capture.store import FileStore, Store
from workbench.rendering import Rendered


@dataclass(frozen=True)
class CaptureInfo(Rendered):
    """What a capture is, known without reading a score.

    Attributes:
        path: as given. format: ``workbench 1``, ``memory`` or a reader's, as ``foreign``. size_bytes: of all its
            files.
        rows, calls: how many. dtype: of the scores. layout: ``padded``, ``ragged`` or ``many tensors``.
        width: of the widest row. length_min, length_max: over all rows. outside: how many rows have a length that
            leaves them, negative or past their last cell. recorded: whether it holds selections.
        returned: what these are, as in ``raw`` (positions) or ``page table``.
        strings: op, release, device, model, request; ``None`` where unknown. source: how it was made, free text.
        notes: what a reader should know, in words.
        tokens: how many tokens it holds. vocab, logits: entries and dtype of their LM-head rows, ``None`` without.
        tensors: (name, dtype, shape) of all tensors of the file or set. used: of a dump of another tool, the names of
            the tensors that its rows are made of. left: what else it holds, a line each.
    """

    path: str
    format: str
    size_bytes: int
    rows: int
    calls: int
    dtype: str
    layout: str
    width: int
    length_min: int
    length_max: int
    outside: int
    recorded: bool
    strings: dict[str, str | None]
    source: str | None = None
    notes: tuple[str, ...] = ()
    tokens: int = 0
    vocab: int | None = None
    logits: str | None = None
    tensors: tuple[tuple[str, str, tuple[int, ...]], ...] = field(default=(), repr=False)
    used: tuple[str, ...] = field(default=(), repr=False)
    left: tuple[str, ...] = field(default=(), repr=False)
    returned: str = RAW


def file_info(store: FileStore, tensors: Iterable[TensorInfo], **known: Any) -> CaptureInfo:
    """What is known of the rows in files; ``known`` gives the remaining fields."""
    blocks = store.blocks
    widths = [int(b.width if b.offsets is None else (b.offsets[1:] - b.offsets[:-1]).max()) for b in blocks]  # type: ignore[arg-type]
    return CaptureInfo(
        size_bytes=sum(source.size for source in store.sources),
        rows=store.rows,
        calls=store.calls,
        dtype=", ".join(sorted({block.scores.dtype for block in blocks})),
        layout="many tensors" if len(blocks) > 1 else "padded" if blocks[0].offsets is None else "ragged",
        width=max(widths),
        length_min=int(store.lengths.min()),
        length_max=int(store.lengths.max()),
        outside=outside(store),
        recorded=any(block.indices is not None for block in blocks),
        returned=store.returned,
        tensors=tuple((info.name, info.dtype, info.shape) for info in tensors),
        **known,
    )


def outside(store: Store) -> int:
    """How many rows have a length that leaves them."""
    return int(outside_rows(store.lengths, store.starts(), store.widths()).sum())
