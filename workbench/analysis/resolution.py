"""Which scores a selector's bins cannot tell apart: the interval of scores that share a bin, and how wide it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from workbench.errors import UsageError
from workbench.numeric.bounds import FLT_MAX, coarse_bin_lower_bound
from workbench.numeric.keys import coarse_keys, ordered_key_value, ordered_keys
from workbench.paths.steps import HALF_BITS, Key

LEAST_NORMAL_HALF = 2.0**-14


@dataclass(frozen=True)
class Interval:
    """The scores that share a bin.

    Attributes:
        bin: its number. low, high: the least and the greatest score in it, both included.
        width: from ``low`` to the least score of the next bin; infinite where an infinity is in the bin.
        values: how many different numbers of the dtype it holds: its width in ULPs. Both zeros are two.
    """

    bin: int
    low: float
    high: float
    width: float
    values: int

    @property
    def overflows(self) -> bool:
        """Whether the bin is that of an infinity, which every score beyond it shares."""
        return math.isinf(self.low) or math.isinf(self.high)


def interval(key: Key, score: float) -> Interval:
    """The interval of a score, which is taken as the nearest number of the key's dtype.

    Args:
        key: of float32 scores, or of bfloat16 where it has 16 exact bits.

    Raises:
        UsageError: the score is NaN.
    """
    if math.isnan(score):
        raise UsageError("NaN has no place on the number line")
    return at_bin(key, bin_of(key, score))


def bin_of(key: Key, score: float) -> int:
    """The bin of a score."""
    given = torch.tensor([score], dtype=_dtype(key))
    if key.kind == "half":
        return int(coarse_keys(given.float(), key.bits))
    return int(ordered_keys(given)) >> (key.width - key.bits)


def at_bin(key: Key, bin_: int) -> Interval:
    """The interval of a bin that holds a number; the infinities are numbers here."""
    dtype = _dtype(key)
    if key.kind == "half":
        first, after = (_ordered(coarse_bin_lower_bound(one, key.bits), dtype) for one in (bin_, bin_ + 1))
        last = after - 1
        if bin_ == coarse_keys(torch.tensor([math.inf]), key.bits):  # NaN lies in bins above, at no threshold
            last = _ordered(math.inf, dtype)
    else:
        shift = key.width - key.bits
        first, last = bin_ << shift, ((bin_ + 1) << shift) - 1
        first, last = max(first, _ordered(-math.inf, dtype)), min(last, _ordered(math.inf, dtype))
    low, high = ordered_key_value(first, dtype), ordered_key_value(last, dtype)
    width = math.inf if math.isinf(low) or math.isinf(high) else ordered_key_value(last + 1, dtype) - low
    return Interval(bin_, low, high, width, last - first + 1)


def _dtype(key: Key) -> torch.dtype:
    return torch.bfloat16 if key.kind == "exact" and key.width == HALF_BITS else torch.float32


def _ordered(score: float, dtype: torch.dtype) -> int:
    return int(ordered_keys(torch.tensor([score], dtype=dtype)))


def neighbours(key: Key, score: float, reach: float, most: int) -> list[Interval]:
    """Bins around that of a score, ascending, at most ``most``: those that meet what is ``reach`` or less from it."""
    middle = interval(key, score)
    found = [middle]
    least, greatest = (bin_of(key, end) for end in (-math.inf, math.inf))
    low = high = middle.bin
    while len(found) < most:
        down = low > least and found[0].low > score - reach
        up = high < greatest and found[-1].high < score + reach
        if not (down or up):
            break
        if down:
            low -= 1
            found.insert(0, at_bin(key, low))
        if up and len(found) < most:
            high += 1
            found.append(at_bin(key, high))
    return found


def curve(key: Key, magnitudes: list[float]) -> list[float]:
    """The width of the bin of each magnitude; infinite where the bin is that of an infinity."""
    return [interval(key, one).width for one in magnitudes]


def spacing(score: float) -> float:
    """How far the next greater float32 is."""
    size = min(abs(score), FLT_MAX)
    return max(math.ulp(size) * 2.0**29, 2.0**-149) if size >= 2.0**-126 else 2.0**-149
