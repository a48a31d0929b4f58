"""Thresholds of coarse bins against a search over all float32 numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from workbench.numeric.bounds import FLT_MAX, coarse_bin_bounds, coarse_bin_lower_bound, parted
from workbench.numeric.keys import coarse_keys

LOWEST, HIGHEST = 0x007FFFFF, 0xFF800000  # ordered keys of -inf and +inf


def numbers(keys: np.ndarray) -> torch.Tensor:
    """The float32 numbers of ordered keys."""
    bits = np.where(keys >= 0x80000000, keys - 0x80000000, ~keys & 0xFFFFFFFF).astype(np.uint32)
    return torch.from_numpy(bits.view(np.float32))


def least_numbers(bits: int) -> np.ndarray:
    """By bisection, the least number of every bin or above, from -inf to +inf; +inf where there is none."""
    bins = np.arange(1 << bits)
    low, high = np.full(bins.size, LOWEST, np.int64), np.full(bins.size, HIGHEST, np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        reached = coarse_keys(numbers(middle), bits).numpy() >= bins
        low, high = np.where(reached, low, np.minimum(middle + 1, HIGHEST)), np.where(reached, middle, high)
    return numbers(low).numpy()


@pytest.mark.parametrize(("bits", "wrong"), [(10, 497), (12, 1985)])
def test_bounds_against_all_numbers(bits: int, wrong: int) -> None:
    exact = least_numbers(bits)
    rounded = np.array([coarse_bin_lower_bound(bin_, bits) for bin_ in range(1 << bits)], np.float32)
    assert np.array_equal(rounded, exact)
    old = np.array([coarse_bin_lower_bound(bin_, bits, "midpoint") for bin_ in range(1 << bits)], np.float32)
    differ = np.flatnonzero(old != exact)
    assert differ.size == wrong
    assert differ[0] == 0
    assert old[0] == np.float32(-FLT_MAX)
    assert (exact[differ[1:]] < 0).all()
    # One ULP too low: the midpoint itself, which rounding to even sends to the lower bin.
    assert np.array_equal(np.nextafter(old[differ[1:]], np.float32(np.inf)), exact[differ[1:]])


def test_the_ends() -> None:
    for bits in (10, 12):
        assert coarse_bin_lower_bound(0, bits) == -math.inf
        assert coarse_bin_lower_bound(1 << bits, bits) == math.inf
        assert coarse_bin_lower_bound(1 << bits, bits, "midpoint") == FLT_MAX
    assert coarse_bin_lower_bound(64, 12, "midpoint") == -65520.0
    assert coarse_bin_lower_bound(64, 12) == pytest.approx(-65519.996, abs=1e-3)
    assert coarse_bin_lower_bound(4032, 12) == 65520.0


def test_two_pairs_that_no_threshold_parts() -> None:
    row = torch.tensor([-0.0, 0.0, -1e-9, 2.0, math.inf, 65520.0, math.nan])
    assert [part.tolist() for part in parted(row, 2047, 12)] == [[0, 1, 3, 4, 5], [2]]  # -0.0 counts in bin 2047
    assert [part.tolist() for part in parted(row, 2048, 12)] == [[3, 4, 5], [0, 1]]
    assert [part.tolist() for part in parted(row, 4032, 12)] == [[4], [5]]  # +inf counts in bin 4032


@pytest.mark.parametrize("bits", [10, 12])
def test_parts_are_bins_for_ordinary_scores(bits: int) -> None:
    row = torch.randn(20000, generator=torch.Generator().manual_seed(3)) * 3
    bins = coarse_keys(row, bits)
    for bin_ in bins[:50].tolist():
        above, inside = parted(row, bin_, bits)
        assert above.tolist() == torch.nonzero(bins > bin_).flatten().tolist()
        assert inside.tolist() == torch.nonzero(bins == bin_).flatten().tolist()


def test_stepped_bounds_take_both_zeros_for_ties_and_infinity_for_higher() -> None:
    row = torch.tensor([1e-45, 0.0, -0.0, -1e-45])
    assert [part.tolist() for part in parted(row, 2047, 12, "stepped")] == [[0], [1, 2, 3]]  # the bin of -0.0
    assert [part.tolist() for part in parted(row, 2047, 12)] == [[0, 1, 2], [3]]
    assert [part.tolist() for part in parted(row, 2048, 12, "stepped")] == [[], [0, 1, 2]]  # the bin of +0.0
    great = torch.tensor([math.inf, 65520.0, 65519.0, -65519.0, -65520.0, math.nan])
    assert [part.tolist() for part in parted(great, 4032, 12, "stepped")] == [[0], [1]]
    assert [part.tolist() for part in parted(great, 4095, 12, "stepped")] == [[0], [1, 2, 3]]  # a bin of NaN


@pytest.mark.parametrize("bits", [10, 12])
def test_stepped_bounds_are_the_rounded_ones_but_at_zero_and_among_nan(bits: int) -> None:
    zero, infinity = 0x8000 >> (16 - bits), 0xFC00 >> (16 - bits)
    for bin_ in range(infinity + 1):
        same = coarse_bin_bounds(bin_, bits) == coarse_bin_bounds(bin_, bits, "stepped")
        assert same == (bin_ != zero - 1)
