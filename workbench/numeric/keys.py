"""Integer keys whose order is the order of the scores.

Two orders matter and differ only at the edges. The *value key* is the oracle's: ``-0.0`` equals ``+0.0`` and
every NaN is the same, greatest value, as ``torch.topk`` has it. The *ordered key* is what the CUDA selectors
compare: the bit pattern with the sign folded in, so that ``-0.0 < +0.0`` and a NaN with its sign set lies below
``-inf``.

The *coarse key* of the fast selectors is the ordered key of the score rounded to fp16 (to nearest, ties to
even), of which they keep the top 8 to 12 bits. CUDA's conversion gives the canonical NaN 0x7FFF, so that every
NaN has the coarse key 0xFFFF.
"""

from __future__ import annotations

import math

import numpy as np
import torch

_BITS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
_HALF_INF = 0x7C00
KEY_BITS = 32  # of the exact ordered key
GREATEST_HALF = 65504.0  # the greatest finite fp16 number
OVERFLOW = 65520.0  # from here on, in magnitude, rounding to fp16 gives an infinity


def signed_keys(scores: torch.Tensor) -> torch.Tensor:
    """Bit patterns as signed integers in ascending order of the ordered key, int32 or int16."""
    bits = scores.contiguous().view(_BITS[scores.dtype])
    folded = (bits >> (torch.iinfo(bits.dtype).bits - 1)).bitwise_and_(torch.iinfo(bits.dtype).max)
    return folded.bitwise_xor_(bits)


def value_keys(scores: torch.Tensor) -> torch.Tensor:
    """Keys of the values the oracle compares, int32, ascending; equal keys mean equal values.

    Args:
        scores: float32, float16 or bfloat16, any shape.
    """
    keys = signed_keys(scores).to(torch.int32)
    keys.masked_fill_(keys == -1, 0)  # -0.0
    return keys.masked_fill_(torch.isnan(scores), torch.iinfo(torch.int32).max)


def key_width(scores: torch.Tensor) -> int:
    """Bits of an exact ordered key of these scores: 32 for float32, 16 for bfloat16 and float16."""
    return torch.iinfo(_BITS[scores.dtype]).bits


def ordered_keys(scores: torch.Tensor) -> torch.Tensor:
    """Exact ordered keys as the CUDA selectors compare them, int64 in [0, 2^``key_width``)."""
    return signed_keys(scores).to(torch.int64).add_(1 << (key_width(scores) - 1))


def ordered_key_value(key: int, dtype: torch.dtype) -> float:
    """The score of a dtype whose exact ordered key is ``key``: what ``ordered_keys`` made it of."""
    width = torch.iinfo(_BITS[dtype]).bits
    pattern = key - (1 << (width - 1)) if key >> (width - 1) else ~key & ((1 << width) - 1)
    signed = pattern - (1 << width) if pattern >> (width - 1) else pattern
    return float(torch.tensor([signed], dtype=_BITS[dtype]).view(dtype))


def ulp_keys(scores: torch.Tensor) -> torch.Tensor:
    """Keys, int64, whose differences are ULPs: how many values of the dtype lie from one score to another.

    -0.0 and +0.0 are one value; the infinities follow the greatest numbers. Keys of NaN mean nothing.
    """
    bits = bit_patterns(scores).to(torch.int64)
    return torch.where(bits < 0, -(bits & torch.iinfo(_BITS[scores.dtype]).max), bits)


def bit_patterns(scores: torch.Tensor) -> torch.Tensor:
    """The bits of each score as an integer, int32 or int16: equal only where the scores are the same bit for bit."""
    return scores.contiguous().view(_BITS[scores.dtype])


def half_patterns(scores: torch.Tensor) -> torch.Tensor:
    """Bit patterns of float32 scores rounded to fp16, int16 as signed integers; NaN patterns are left as they come."""
    return scores.to(torch.float16).view(torch.int16)


def half_keys(scores: torch.Tensor) -> torch.Tensor:
    """Ordered 16-bit fp16 keys of float32 scores, int32 in [0, 65536); every NaN is 0xFFFF."""
    bits = half_patterns(scores).to(torch.int32)
    keys = torch.where(bits < 0, ~bits & 0xFFFF, bits + 0x8000)
    return torch.where(torch.isnan(scores), 0xFFFF, keys)


def coarse_keys(scores: torch.Tensor, bits: int) -> torch.Tensor:
    """The bin of each float32 score under a coarse key of ``bits`` bits, int32 in [0, 2^bits)."""
    return half_keys(scores) >> (16 - bits)


def half_key_value(key: int) -> float:
    """The fp16 value whose ordered key is ``key`` (0 to 65535); NaN for keys no number has."""
    pattern = key - 0x8000 if key >= 0x8000 else ~key & 0xFFFF
    sign, magnitude = (-1.0 if pattern & 0x8000 else 1.0), pattern & 0x7FFF
    if magnitude > _HALF_INF:
        return math.nan
    if magnitude == _HALF_INF:
        return sign * math.inf
    exponent, fraction = magnitude >> 10, magnitude & 0x3FF
    return sign * (math.ldexp(fraction, -24) if exponent == 0 else math.ldexp(1024 + fraction, exponent - 25))


def bin_values(bin_: int, bits: int) -> tuple[float, float]:
    """The least and the greatest fp16 value that fall into a bin; NaN where the bin holds no number at that end.

    A float32 score lies in the bin when it *rounds* to a value in this closed range.
    """
    shift = 16 - bits
    return half_key_value(bin_ << shift), half_key_value((bin_ << shift) + (1 << shift) - 1)


def where_true(mask: torch.Tensor) -> torch.Tensor:
    """Positions at which a mask, bool [n], is true, int64, ascending."""
    if mask.device.type == "cpu":  # NumPy is several times faster at this
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return torch.nonzero(mask).flatten()
