"""Keys against NumPy's own fp16 and against the landmark values of the selectors' documentation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.numeric.keys import (
    bin_values,
    coarse_keys,
    half_key_value,
    half_keys,
    key_width,
    ordered_keys,
    value_keys,
)

ANY_FLOAT32 = st.floats(width=32, allow_nan=True, allow_infinity=True)


def float32(*bits: int) -> torch.Tensor:
    return torch.from_numpy(np.array(bits, dtype=np.uint32).view(np.float32))


@pytest.mark.parametrize(
    ("score", "half", "eight", "ten", "twelve"),
    [
        (-math.inf, 0x03FF, 3, 15, 63),
        (-65520.0, 0x03FF, 3, 15, 63),
        (-1.0, 0x43FF, 67, 271, 1087),
        (-0.0, 0x7FFF, 127, 511, 2047),
        (-(2.0**-25), 0x7FFF, 127, 511, 2047),
        (0.0, 0x8000, 128, 512, 2048),
        (2.0**-25, 0x8000, 128, 512, 2048),
        (1.0, 0xBC00, 188, 752, 3008),
        (65504.0, 0xFBFF, 251, 1007, 4031),
        (65519.0, 0xFBFF, 251, 1007, 4031),
        (65520.0, 0xFC00, 252, 1008, 4032),
        (math.inf, 0xFC00, 252, 1008, 4032),
        (math.nan, 0xFFFF, 255, 1023, 4095),
        (1.2495, 0xBCFF, 188, 755, 3023),  # still the quarter binade of 1.0 ...
        (1.2498, 0xBD00, 189, 756, 3024),  # ... and the next one: 1.25 - 2^-11 rounds up
    ],
)
def test_landmarks(score: float, half: int, eight: int, ten: int, twelve: int) -> None:
    row = torch.tensor([score], dtype=torch.float32)
    assert int(half_keys(row)) == half
    assert [int(coarse_keys(row, bits)) for bits in (8, 10, 12)] == [eight, ten, twelve]


def test_every_nan_has_the_top_coarse_key_whatever_its_sign() -> None:
    assert half_keys(float32(0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF)).tolist() == [0xFFFF] * 4


def test_rounding_is_numpy_s_over_all_binades() -> None:
    bits = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32)
    scores = bits.view(np.float32)
    scores = scores[~np.isnan(scores)]
    with np.errstate(over="ignore"):
        expected = scores.astype(np.float16).view(np.uint16).astype(np.int64)
    expected = np.where(expected >= 0x8000, 0xFFFF - expected, expected + 0x8000)
    assert np.array_equal(half_keys(torch.from_numpy(scores)).numpy(), expected)


@given(ANY_FLOAT32, ANY_FLOAT32)
def test_value_keys_order_as_the_oracle_does(a: float, b: float) -> None:
    low, high = value_keys(torch.tensor([a, b], dtype=torch.float32)).tolist()
    if math.isnan(a) or math.isnan(b):
        assert (low == high) == (math.isnan(a) and math.isnan(b))
        assert (low < high) == (math.isnan(b) and not math.isnan(a))
    else:
        assert ((low > high) - (low < high)) == ((a > b) - (a < b))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_value_keys_of_every_16_bit_pattern(dtype: torch.dtype) -> None:
    scores = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    keys = value_keys(scores)
    assert torch.equal(keys == torch.iinfo(torch.int32).max, torch.isnan(scores))
    numbers = ~torch.isnan(scores)
    wide, keys = scores[numbers].float(), keys[numbers]
    order = torch.argsort(wide)
    assert torch.equal(wide[order].diff() > 0, keys[order].diff() > 0)


def test_ordered_keys_of_the_edges() -> None:
    edges = float32(0xFFC00000, 0xFF800000, 0x80000000, 0x00000000, 0x7F800000, 0x7FC00000)
    assert [hex(key) for key in ordered_keys(edges).tolist()] == [
        "0x3fffff",  # NaN with the sign set lies below -inf
        "0x7fffff",
        "0x7fffffff",  # -0.0 lies just below +0.0
        "0x80000000",
        "0xff800000",
        "0xffc00000",
    ]


@pytest.mark.parametrize("bits", [8, 10, 11, 12])
def test_bin_values_round_trip(bits: int) -> None:
    for bin_ in range(1 << bits):
        low, high = bin_values(bin_, bits)
        ends = torch.tensor([x for x in (low, high) if not math.isnan(x)], dtype=torch.float32)
        assert (coarse_keys(ends, bits) == bin_).all()


def test_values_of_half_keys() -> None:
    assert half_key_value(0xFC00) == math.inf
    assert half_key_value(0x03FF) == -math.inf
    assert half_key_value(0xFBFF) == 65504.0
    assert half_key_value(0x8001) == 2.0**-24
    assert math.copysign(1, half_key_value(0x7FFF)) == -1
    assert math.isnan(half_key_value(0xFFFF))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_ordered_keys_of_every_16_bit_score(dtype: torch.dtype) -> None:
    scores = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(dtype)
    keys = ordered_keys(scores)
    assert key_width(scores) == 16
    assert sorted(keys.tolist()) == list(range(1 << 16))
    numbers = ~torch.isnan(scores)
    ascending = scores[numbers][keys[numbers].argsort()].float()
    assert (ascending[1:] >= ascending[:-1]).all()
    negative = torch.signbit(scores)
    assert keys[~numbers & negative].max() < keys[numbers].min()
    assert keys[~numbers & ~negative].min() > keys[numbers].max()
    assert (ordered_keys(torch.tensor([0.0, -0.0], dtype=dtype)) == torch.tensor([0x8000, 0x7FFF])).all()
