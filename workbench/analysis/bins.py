"""What lies in a row's coarse bins, for pictures and tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.analysis.profile import RowProfile
from workbench.numeric.keys import OVERFLOW, bin_values, value_keys


def bin_label(bin_: int, bits: int, number: Callable[[float], str] = "{:.6g}".format) -> str:
    """The range of a bin in words; scores rounding to +inf or -inf are named as such, and keys that no score has.

    Args:
        number: writes the ends of the range.
    """
    low, high = bin_values(bin_, bits)
    if math.isnan(low) and math.isnan(high):
        return "NaN" if bin_ == (1 << bits) - 1 else "no number"
    if math.inf in (low, high):
        return f"+inf (≥ {number(OVERFLOW)})"
    if -math.inf in (low, high):
        return f"{number(-math.inf)} (≤ {number(-OVERFLOW)})"
    return number(low) if low == high else f"{number(low)} … {number(high)}"


@dataclass(frozen=True, eq=False)
class BinContents:
    """The scores in one bin.

    Attributes:
        population, distinct: scores and distinct values. least, greatest: of the values (NaN if the bin is NaN).
        most_common, most_common_count: the value held by most scores, and by how many.
        indices: positions in the row, best score first, smaller index first; at most the limit asked for.
        values: their scores, float32.
    """

    population: int
    distinct: int
    least: float
    greatest: float
    most_common: float
    most_common_count: int
    indices: torch.Tensor
    values: torch.Tensor


def bin_contents(profile: RowProfile, bits: int, bin_: int, limit: int = 100) -> BinContents | None:
    """What a coarse bin holds; ``None`` if it is empty."""
    members = profile.half.members(bin_, bits)
    if not members.numel():
        return None
    scores = profile.scores[members]
    keys = value_keys(scores)
    order = torch.sort(keys, descending=True, stable=True).indices
    distinct, counts = torch.unique(keys, return_counts=True)
    common = int(counts.argmax())
    return BinContents(
        population=members.numel(),
        distinct=distinct.numel(),
        least=float(scores[order[-1]]),
        greatest=float(scores[order[0]]),
        most_common=float(scores[keys == distinct[common]][0]),
        most_common_count=int(counts[common]),
        indices=members[order[:limit]],
        values=scores[order[:limit]],
    )
