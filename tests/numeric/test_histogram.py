"""Histograms and thresholds against plain counting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.numeric.histogram import (
    GREATEST_NUMBER,
    HALF_BINS,
    LEAST_NUMBER,
    half_histogram,
    locate,
    with_numbers,
)
from workbench.numeric.keys import coarse_keys, half_keys

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 65519.0, 65520.0, -65520.0, 1.0, 1.2498, -1.0, 2e-8]
ROWS = st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(width=32)), min_size=1, max_size=40)


@pytest.mark.parametrize("bits", [8, 10, 11, 12])
@given(values=ROWS)
def test_bins_members_and_above_are_those_of_the_keys(bits: int, values: list[float]) -> None:
    scores = torch.tensor(values, dtype=torch.float32)
    scores[scores.isnan()] = torch.copysign(scores[scores.isnan()], torch.tensor(values[0] if values[0] else 1.0))
    row, keys = half_histogram(scores), coarse_keys(scores, bits)
    assert torch.equal(row.bins(bits), torch.bincount(keys, minlength=1 << bits))
    assert row.nan == int(scores.isnan().sum())
    for bin_ in keys.unique().tolist():
        assert torch.equal(row.members(bin_, bits), torch.nonzero(keys == bin_).flatten())
        assert torch.equal(row.above(bin_, bits), torch.nonzero(keys > bin_).flatten())


@pytest.mark.parametrize("bits", [8, 11, 12, 16])
@given(values=ROWS, data=st.data())
def test_one_sum_tells_the_threshold_under_every_key(bits: int, values: list[float], data: st.DataObject) -> None:
    half = half_histogram(torch.tensor(values, dtype=torch.float32))
    k = data.draw(st.integers(1, len(values)))
    assert half.threshold(bits, k) == locate(half.bins(bits), k)


@given(values=ROWS, data=st.data())
def test_at_or_above_is_a_bin_and_all_higher_ones(values: list[float], data: st.DataObject) -> None:
    scores = torch.tensor(values, dtype=torch.float32)
    half, keys = half_histogram(scores), coarse_keys(scores, 12)
    bin_ = data.draw(st.sampled_from([*keys.unique().tolist(), 0, 4095]))
    assert torch.equal(half.at_or_above(bin_, 12), torch.nonzero(keys >= bin_).flatten())


@given(values=ROWS, data=st.data())
def test_the_threshold_bin_holds_the_kth_largest(values: list[float], data: st.DataObject) -> None:
    scores = torch.tensor(values, dtype=torch.float32)
    k = data.draw(st.integers(1, len(values)))
    keys = coarse_keys(scores, 8)
    at = locate(half_histogram(scores).bins(8), k)
    assert at.bin == int(keys.sort(descending=True).values[k - 1])
    assert at.above == int((keys > at.bin).sum()) < k
    assert at.population == int((keys == at.bin).sum())
    assert 1 <= at.need == k - at.above <= at.population


@pytest.mark.parametrize("of", [torch.as_tensor, torch.Tensor.numpy], ids=["torch", "numpy"])
@pytest.mark.parametrize("bits", [8, 13])
def test_patterns_are_compared_within_their_bounds(bits: int, of: Callable[[torch.Tensor], Any]) -> None:
    """Every pattern against every bin and what is above it, by either library; above the last bin there is nothing."""
    patterns = torch.arange(-0x8000, 0x8000, dtype=torch.int32).to(torch.int16)
    keys = half_keys(patterns.view(torch.float16).float())
    width = 1 << (16 - bits)
    for first in (*range(0, HALF_BINS, width), HALF_BINS):
        for last in (first + width - 1, HALF_BINS - 1):
            numbers = range(max(first, LEAST_NUMBER), min(last, GREATEST_NUMBER) + 1)
            wanted = (keys >= first) & (keys <= last) & (keys != HALF_BINS - 1)
            assert torch.equal(torch.as_tensor(with_numbers(of(patterns), numbers)), wanted), (first, last)
