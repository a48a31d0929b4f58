"""Screening of a batch's selections on their device, each score read once, without waiting for the device.

What makes a row suspect is ``workbench.record.screening``'s to say; these are two kernels that find it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from workbench.engines.cuda.census import NEEDS, check_rows, parts_of
from workbench.engines.cuda.device import limits_of, unavailable
from workbench.engines.cuda.support import check_tensor, refuse, run_support
from workbench.engines.cuda.support_sources import CENSUS_CELLS, PICKED_INTS, SEEN_SLOTS, WIDTHS
from workbench.errors import UsageError

MOST_K = SEEN_SLOTS // 2
# Bits of a buffer's coarse key, population that fits, whether ranks share it, and lengths of its rows: above, up to.
Gate = tuple[int, int, bool, int, int]


@dataclass(frozen=True, eq=False)
class Screened:
    """A screening that was queued.

    Attributes:
        kept: float32 [rows, width] on the device, of which suspect rows hold what they held then; ``None`` where the
            caller keeps them.
    """

    kept: torch.Tensor | None
    _flags: torch.Tensor  # int32 [rows] in page-locked memory
    _event: Any  # torch gives events no types

    def is_done(self) -> bool:
        """Whether ``rows`` need not wait."""
        return bool(self._event.query())

    def rows(self) -> list[int]:
        """The suspect rows; waits for the device to have been there, and for nothing that was queued later."""
        self._event.synchronize()
        return self._flags.nonzero().flatten().tolist()


@cache
def lacks(device: int) -> tuple[str, ...]:
    """Why a CUDA device cannot screen, in words; found out once."""
    return tuple(unavailable() or limits_of(device).lacks(0, NEEDS))


def screen_rows(
    scores: torch.Tensor,
    lengths: torch.Tensor,
    selected: torch.Tensor,
    gates: Sequence[Gate],
    *,
    starts: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    keep: bool = True,
) -> Screened:
    """Queue the screening of a batch on torch's current stream of its device.

    Args:
        scores: float32 [rows, width] on a CUDA device, rows any distance apart. lengths, starts: int32 [rows] there.
        selected: int32 [rows, k] there, contiguous, positions within the valid scores, k up to ``MOST_K``.
        gates: of each buffer that rows are held against.
        offsets: int32 [rows] there, what positions were moved by.
        keep: whether suspect rows are copied, so that the scores may be written over by what is queued afterwards.

    Raises:
        UsageError: a tensor that is no such thing, or no device, CuPy or compiler.
    """
    check_tensor("selected", selected, torch.int32, (scores.shape[0], None), scores.device, whole=True)
    device, (rows, width), k = scores.device.index, scores.shape, selected.shape[1]
    check_rows(scores, lengths, starts, k)
    if offsets is not None:
        check_tensor("offsets", offsets, torch.int32, (rows,), scores.device, whole=True)
    refuse(list(lacks(device)))
    if k > MOST_K or any(one[0] not in WIDTHS for one in gates):
        raise UsageError(f"k is {k}, at most {MOST_K} is screened; coarse keys have {', '.join(map(str, WIDTHS))} bits")
    parts = parts_of(rows, width, limits_of(device).sms)
    new: Callable[..., torch.Tensor] = scores.new_empty
    cells = new((rows if parts > 1 else 0, CENSUS_CELLS), dtype=torch.int32)
    picked, flags = new((rows, PICKED_INTS), dtype=torch.int32), new(rows, dtype=torch.int32)
    kept = new((rows, width)) if keep else None
    batch = (scores, scores.stride(0), width, lengths, starts)
    if rows:
        clear = CENSUS_CELLS if parts > 1 else 0
        run_support("picked.cu", (rows,), (*batch, selected, offsets, k, clear, cells, picked), device, longs=(1,))
        given = (*batch, k, parts, cells, picked, _on_device(tuple(gates), device), len(gates), flags, kept)
        run_support("screen.cu", (rows * parts,), given, device, longs=(1,))
    return Screened(kept, *_on_its_way(flags))


def _on_its_way(flags: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """Memory of the host that the flags are copied to, and the event after which they are there."""
    told = torch.empty(flags.shape, dtype=flags.dtype, device="cpu", pin_memory=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    with torch.cuda.device(flags.device):
        told.copy_(flags, non_blocking=True)
        event.record()
    return told, event


@cache
def _on_device(gates: tuple[Gate, ...], device: int) -> torch.Tensor | None:
    return torch.tensor(gates, dtype=torch.int32, device="cpu").to(torch.device("cuda", device)) if gates else None
