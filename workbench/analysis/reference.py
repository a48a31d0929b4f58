"""The exact reference that every selection is held against."""

from __future__ import annotations

from numbers import Integral

import torch

from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.errors import CaptureError
from workbench.numeric.histogram import HalfHistogram
from workbench.numeric.select import exact_topk
from workbench.paths.selection import Selection


def winners_wanted(row: Row, k: int | None = None) -> int:
    """k for a row: the one given, else the call's.

    Raises:
        CaptureError: neither is known, or k is no integer from 1 to the row's padded width.
    """
    wanted = row.k if k is None else k

    def bad(reason: str) -> CaptureError:
        return CaptureError(reason, file=row.capture or None, row=row.index)

    if wanted is None:
        raise bad("the capture does not say k; give it (k=…, --k on the command line)")
    if not isinstance(wanted, Integral) or isinstance(wanted, bool):
        raise bad(f"k is {wanted!r}; an integer is needed")
    width = row.call.width or row.scores.numel()
    if wanted < 1:
        raise bad(f"k is {wanted}; it must be at least 1")
    if wanted > width:
        cure = "choose a smaller k, or give the call's padded width if the row was trimmed"
        raise bad(f"k is {wanted}, above the row width {width}; {cure}")
    return int(wanted)


@checked
def reference(row: Row, k: int | None = None, half: HalfHistogram | None = None) -> Selection:
    """The exact selection: k best, best first, ties to the smaller index, -1 past the row's length.

    NaN ranks above +inf whatever its sign, as in ``torch.topk``; -0.0 equals +0.0.

    Args:
        row: any dtype, on any device; the answer is on the same device.
        k: winners wanted; the call's by default. half: of the valid scores, as ``exact_topk`` takes it.
    """
    wanted = winners_wanted(row, k)
    return selection_of(exact_topk(row.valid, wanted, half), wanted)


def selection_of(best: torch.Tensor, wanted: int) -> Selection:
    """The exact selection of so many winners, from as many of them as there are."""
    out = torch.full((wanted,), -1, dtype=torch.int32, device=best.device)
    out[: best.numel()] = best.to(torch.int32)
    return Selection(out)
