"""Screening of a batch's selections on their device, each score read once, without waiting for the device.

What makes a row suspect is ``workbench.record.screening``'s to say; these are two kernels that find it out.
"""

from __future__ import annotations

from collections import defaultdict
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
# Page-locked int32, at least as many as rows, and the event after which flags are there; torch gives it no type.
Told = tuple[torch.Tensor, Any]
# Those of screenings that were read, by device and size, for others: making them takes longer than launching.
_spare: defaultdict[tuple[int, int], list[Told]] = defaultdict(list)


@dataclass(eq=False)
class Screened:
    """A screening that was queued; one thread at a time asks what it found.

    Attributes:
        kept: float32 [rows, width] on the device, of which suspect rows hold what they held then; ``None`` where the
            caller keeps them.
    """

    kept: torch.Tensor | None
    _device: int
    _rows: int
    _told: Told
    _found: list[int] | None = None

    def is_done(self) -> bool:
        """Whether ``rows`` need not wait."""
        return self._found is not None or bool(self._told[1].query())

    def rows(self) -> list[int]:
        """The suspect rows; waits for the device to have been there, and for nothing that was queued later."""
        if self._found is None:
            flags, event = self._told
            event.synchronize()
            self._found = flags.numpy()[: self._rows].nonzero()[0].tolist()
            _spare[self._device, flags.numel()].append(self._told)
        return self._found


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
    gates = tuple(gates)
    if k > MOST_K or not _are_known(gates):
        raise UsageError(f"k is {k}, at most {MOST_K} is screened; coarse keys have {', '.join(map(str, WIDTHS))} bits")
    parts = parts_of(rows, width, limits_of(device).sms)
    new: Callable[..., torch.Tensor] = scores.new_empty
    cells = new((rows, CENSUS_CELLS), dtype=torch.int32) if parts > 1 else None
    picked, flags = new((rows, PICKED_INTS), dtype=torch.int32), new(rows, dtype=torch.int32)
    kept = new((rows, width)) if keep else None
    batch = (scores, scores.stride(0), width, lengths, starts)
    if rows:
        clear = CENSUS_CELLS if parts > 1 else 0
        run_support("picked.cu", (rows,), (*batch, selected, offsets, k, clear, cells, picked), device, longs=(1,))
        given = (*batch, k, parts, cells, picked, _on_device(gates, device), len(gates), flags, kept)
        run_support("screen.cu", (rows * parts,), given, device, longs=(1,))
    return Screened(kept, device, rows, _on_its_way(flags))


def _on_its_way(flags: torch.Tensor) -> Told:
    """The flags copied to the host, on torch's current stream of their device, whichever device is current."""
    rows = flags.numel()
    size = 1 << rows.bit_length()  # few sizes, so that spare ones are few
    try:
        told, event = _spare[flags.device.index, size].pop()
    except IndexError:
        told = torch.empty(size, dtype=flags.dtype, device="cpu", pin_memory=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    told[:rows].copy_(flags, non_blocking=True)
    event.record(torch.cuda.current_stream(flags.device))
    return told, event


@cache
def _are_known(gates: tuple[Gate, ...]) -> bool:
    return all(one[0] in WIDTHS for one in gates)


@cache
def _on_device(gates: tuple[Gate, ...], device: int) -> torch.Tensor | None:
    return torch.tensor(gates, dtype=torch.int32, device="cpu").to(torch.device("cuda", device)) if gates else None
