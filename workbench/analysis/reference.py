"""The exact reference that every selection is held against."""

from __future__ import annotations

import torch

from workbench.capture.row import Row
from workbench.errors import CaptureError
from workbench.numeric.select import exact_topk
from workbench.paths.selection import Selection


def winners_wanted(row: Row, k: int | None = None) -> int:
    """k for a row: the one given, else the call's.

    Raises:
        CaptureError: neither is known, or k is not positive.
    """
    wanted = row.k if k is None else k
    where = {"file": row.capture or None, "row": row.index}
    if wanted is None:
        raise CaptureError("the capture does not say k; give it (k=…, --k on the command line)", **where)  # type: ignore[arg-type]
    if wanted <= 0:
        raise CaptureError(f"k is {wanted}; it must be at least 1", **where)  # type: ignore[arg-type]
    return wanted


def reference(row: Row, k: int | None = None) -> Selection:
    """The exact selection: k best, best first, ties to the smaller index, -1 past the row's length.

    NaN ranks above +inf whatever its sign, as in ``torch.topk``; -0.0 equals +0.0.

    Args:
        row: any dtype, on any device; the answer is on the same device.
        k: winners wanted; the call's by default.
    """
    wanted = winners_wanted(row, k)
    best = exact_topk(row.valid, wanted)
    out = torch.full((wanted,), -1, dtype=torch.int32, device=best.device)
    out[: best.numel()] = best.to(torch.int32)
    return Selection(out)
