"""Batches for the kernels that read each score once, selections of theirs, and what the rule of screening says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from workbench.numeric.select import exact_topk
from workbench.record.interfaces import INTERFACES
from workbench.record.reading import Seen
from workbench.record.screening import Gate, gates, suspects

OPS = ("vllm.persistent_topk", "sglang.topk_transform_paged_v2")  # buffers of 8, 11 and 12 bits; of 10 on ranks


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of a launch."""

    scores: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor | None
    k: int

    def window(self, at: int) -> tuple[int, int]:
        """First valid cell and length, within the row."""
        width = self.scores.shape[1]
        start = 0 if self.starts is None else int(self.starts[at])
        return start, min(max(int(self.lengths[at]), 0), width - start)

    def valid(self, at: int) -> torch.Tensor:
        """The valid scores of a row."""
        start, length = self.window(at)
        return self.scores[at, start : start + length]


def _of(rows: list[torch.Tensor], k: int, lengths: list[int] | None = None, starts: list[int] | None = None) -> Batch:
    # Cells between the rows would win, and rows begin at every alignment.
    width = max(one.numel() for one in rows)
    scores = torch.full((len(rows), width + 3), 9e9)[:, :width]
    for at, one in enumerate(rows):
        scores[at, : one.numel()] = one
    given = lengths or [one.numel() for one in rows]
    return Batch(
        scores,
        torch.tensor(given, dtype=torch.int32),
        None if starts is None else torch.tensor(starts, dtype=torch.int32),
        k,
    )


def batches(length: int = 8209) -> dict[str, Batch]:
    """Every kind of row, by a name."""
    generator = torch.Generator().manual_seed(31)
    normal = torch.randn(length, generator=generator)
    near = 1 + 0.2 * torch.rand(length, generator=generator)
    infinite = torch.where(normal > 1.5, normal, -math.inf)
    odd = normal.clone()
    odd[::3], odd[1::3] = 0.0, -0.0
    odd[2], odd[5], odd[8], odd[11], odd[14] = math.inf, -math.inf, math.nan, -math.nan, 65519.9
    nan = normal.view(torch.int32).clone()
    nan[::2] = 0x7F800001  # a payload that fp16 cannot hold
    nan[1::4] = -0x7FFFFF  # 0xFF800001
    past = torch.arange(70000, 70000 - length, -1, dtype=torch.float32)
    tiny = torch.rand(length, generator=generator) * 1e-7
    bins = (torch.randint(0, 3, (length,), generator=generator) + 1).float()
    return {
        "usual rows": _of([normal, near, -near, torch.relu(normal - 1), torch.full((length,), 0.75), bins], 512),
        "odd numbers": _of([odd, infinite, past, -past, tiny, -tiny], 100),
        "nan": _of([nan.view(torch.float32), torch.full((length,), math.nan), torch.full((length,), -math.inf)], 60),
        "short rows": _of([normal[:70]] * 12, 20, [0, 1, -1, 19, 20, 21, 22, 23, 24, 70, 71, 1 << 30]),
        "starts": _of(
            [normal] * 8,
            128,
            [length - 7, 900, 901, 902, 1000, 129, 128, length],
            [7, 1, 2, 3, 4, 5, 6, length - 50],
        ),
        "one wanted": _of([normal, near, torch.zeros(length), bins], 1),
    }


def spoiled(batch: Batch) -> Iterator[tuple[str, torch.Tensor, torch.Tensor | None]]:
    """Selections of a batch, int32 [rows, k], with what was done to them; offsets where they were moved by any."""
    rows, k = batch.scores.shape[0], batch.k
    exact = torch.full((rows, k), -1, dtype=torch.int32)
    for at in range(rows):
        best = exact_topk(batch.valid(at), k)
        exact[at, : best.numel()] = best
    yield "exact", exact, None
    offsets = torch.arange(rows, dtype=torch.int32) * 1000
    yield "moved", torch.where(exact >= 0, exact + offsets[:, None], exact), offsets
    generator = torch.Generator().manual_seed(7)
    for what in ("another score", "twice", "past the row", "unwritten", "short"):
        other = exact.clone()
        for at in range(0, rows, 2):
            start, length = batch.window(at)
            slot = int(torch.randint(0, k, (1,), generator=generator))
            other[at, slot] = {
                "another score": int(torch.randint(0, max(length, 1), (1,), generator=generator)),
                "twice": int(exact[at, slot - 1]),
                "past the row": length + start,
                "unwritten": -777,
                "short": -1,
            }[what]
        yield what, other, None


def suspected(
    batch: Batch, selected: torch.Tensor, offsets: torch.Tensor | None, op: str = OPS[0]
) -> tuple[list[bool], tuple[Gate, ...]]:
    """What the rule names, and the op's buffers."""
    interface = next(one for one in INTERFACES if one.op == op)
    stride = batch.scores.stride(0)
    seen = Seen(interface, batch.scores, stride, batch.lengths, batch.starts, batch.k, offsets=offsets)
    found = suspects(seen, selected)
    return found.tolist(), gates(op, batch.k)
