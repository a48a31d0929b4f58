"""Float32 thresholds of coarse bins, for selectors that compare scores instead of binning them a second time."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import torch

from workbench.numeric.histogram import GREATEST_NUMBER, LEAST_NUMBER
from workbench.numeric.keys import coarse_keys, half_key_value, where_true

FLT_MAX = float(np.finfo(np.float32).max)
_PAST_HALF = 65536.0  # one step past the greatest fp16 number: the midpoint is then where rounding overflows

Rule = Literal["midpoint", "rounded", "stepped"]
SMALLEST = float(np.nextafter(np.float32(0), np.float32(1)))


@lru_cache(maxsize=1 << 14)
def coarse_bin_lower_bound(bin_: int, bits: int, rule: Rule = "rounded") -> float:
    """The float32 score from which on scores are taken to lie in ``bin_`` or above.

    Args:
        bin_: of a coarse key of ``bits`` bits (10 or 12 as the selectors use it), from 0 to 2^bits.
        rule: ``midpoint`` takes the midpoint of the fp16 values on both sides of the boundary, which rounding to even
            may still send to the lower bin: it is one ULP too low at most negative boundaries, and -FLT_MAX at bin 0.
            ``rounded`` moves on by one ULP there, and gives -inf at bin 0.

    A comparison with the bound parts scores as their bins do, but for two pairs that no threshold can part: ``-0.0``
    from ``+0.0`` at the bin of ``+0.0``, and +inf from the bins of NaN.
    """
    shift = 16 - bits
    key = bin_ << shift
    if rule == "midpoint" and bin_ in (0, 1 << bits):
        return FLT_MAX if bin_ else -FLT_MAX
    if bin_ == 0 or key <= LEAST_NUMBER:
        return -np.inf
    if key > GREATEST_NUMBER:
        return np.inf
    middle = 0.5 * (_edge(key) + _edge(key - 1))
    if rule == "midpoint" or int(coarse_keys(torch.tensor([middle], dtype=torch.float32), bits)) >= bin_:
        return middle
    return float(np.nextafter(np.float32(middle), np.float32(np.inf)))


def coarse_bin_bounds(bin_: int, bits: int, rule: Rule = "rounded") -> tuple[float, float]:
    """From which score on a bin is taken to begin, and from which on the next one.

    Args:
        bin_, bits, rule: as for ``coarse_bin_lower_bound``, or ``stepped`` (SGLang 0.5.23): as ``rounded``, but that an
            upper bound of zero moves on to the smallest subnormal, so that zeros of both signs lie in the bin of -0.0;
            that +inf lies above its bin; and that a bin of NaN begins right above -65520, where fp16 overflows.
    """
    if rule != "stepped":
        return coarse_bin_lower_bound(bin_, bits, rule), coarse_bin_lower_bound(bin_ + 1, bits, rule)
    infinity = GREATEST_NUMBER >> (16 - bits)
    from_, to = coarse_bin_lower_bound(bin_, bits), coarse_bin_lower_bound(bin_ + 1, bits)
    if bin_ > infinity:
        from_ = coarse_bin_lower_bound((LEAST_NUMBER >> (16 - bits)) + 1, bits)
    return from_, to or SMALLEST


def _edge(key: int) -> float:
    """The fp16 value of an ordered key, with the infinities one step past the numbers."""
    if key <= LEAST_NUMBER:
        return -_PAST_HALF
    return _PAST_HALF if key >= GREATEST_NUMBER else half_key_value(key)


def parted(scores: torch.Tensor, bin_: int, bits: int, rule: Rule = "rounded") -> tuple[torch.Tensor, torch.Tensor]:
    """What comparisons with a bin's bounds take to lie above it, and in it: two int64 tensors of ascending indices.

    NaN fails every comparison and is in neither.

    Args:
        scores: float32 [n]. bin_, bits, rule: as for ``coarse_bin_lower_bound``.
    """
    from_, to = coarse_bin_bounds(bin_, bits, rule)
    above = scores >= to
    inside = (scores >= from_) & ~above
    return where_true(above), where_true(inside)
