"""Intervals of scores that share a bin, held against the keys of the scores at their ends and beside them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from workbench.analysis.resolution import at_bin, bin_of, curve, interval, neighbours, spacing
from workbench.errors import UsageError
from workbench.numeric.keys import coarse_keys, ordered_key_value, ordered_keys
from workbench.paths.steps import Key

HALF = [Key("half", bits, 16) for bits in (8, 10, 11, 12, 13)]
EXACT = [Key("exact", 8, 32), Key("exact", 11, 32), Key("exact", 8, 16)]
SCORES = [0.0, 1e-9, 3e-5, 0.5, 1.0, 1.25, 100.0, 10000.0, 65503.0, 65519.99, 65520.0, 1e9, 3e38, math.inf]


def bin_by_keys(key: Key, score: float) -> int:
    dtype = torch.bfloat16 if key.width == 16 and key.kind == "exact" else torch.float32
    given = torch.tensor([score], dtype=dtype)
    if key.kind == "half":
        return int(coarse_keys(given, key.bits))
    return int(ordered_keys(given)) >> (key.width - key.bits)


def beside(score: float, towards: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(score), np.float32(towards)))


@pytest.mark.parametrize("key", [*HALF, *EXACT], ids=lambda key: f"{key.kind}-{key.bits}-{key.width}")
@pytest.mark.parametrize("score", [*SCORES, *(-one for one in SCORES)])
def test_the_ends_of_a_bin_are_in_it_and_what_is_beside_them_is_not(key: Key, score: float) -> None:
    found = interval(key, score)
    assert found.bin == bin_by_keys(key, score) == bin_of(key, score)
    assert bin_by_keys(key, found.low) == bin_by_keys(key, found.high) == found.bin
    if key.width == 16 and key.kind == "exact":
        return  # the next bfloat16 is not the next float32
    for end, towards in ((found.low, -math.inf), (found.high, math.inf)):
        if math.isfinite(end) and end != 0:
            assert bin_by_keys(key, beside(end, towards)) != found.bin
    assert (
        found.values == int(ordered_keys(torch.tensor([found.high]))) - int(ordered_keys(torch.tensor([found.low]))) + 1
    )


def test_widths_near_the_numbers_that_people_ask_for() -> None:
    eight, twelve = HALF[0], HALF[3]
    assert curve(eight, [1.1, 1.5, 100.0, 60000.0]) == [0.249755859375, 0.25, 16.0, 8192.0]
    assert [interval(twelve, 1.5).width, interval(twelve, 100.0).width, interval(twelve, 65504.0).width] == [
        1 / 64,
        1.0,
        512.0,
    ]
    assert interval(eight, 1.5).values == 1 << 21


def test_all_that_overflows_shares_one_bin() -> None:
    for key in HALF:
        found = interval(key, 1e30)
        assert found == interval(key, 65520.0) == interval(key, math.inf)
        assert found.overflows
        assert found.width == math.inf
        assert (found.low, found.high) == (65520.0, math.inf)
        assert not interval(key, 65519.996).overflows
    assert not interval(EXACT[0], 1e30).overflows


def test_neighbours_are_without_gaps_and_bounded() -> None:
    for key in (HALF[0], EXACT[1]):
        found = neighbours(key, 100.0, 70.0, 200)
        assert [one.bin for one in found] == list(range(found[0].bin, found[-1].bin + 1))
        assert all(after.low == beside(before.high, math.inf) for before, after in itertools.pairwise(found))
        assert found[0].low <= 30.0
        assert found[-1].high >= 170.0
    assert len(neighbours(HALF[3], 1.0, 100.0, 50)) == 50
    assert neighbours(HALF[0], math.inf, 1.0, 9)[-1] == at_bin(HALF[0], 252)


def test_float32_spacing_is_numpys() -> None:
    for score in (1e-45, 1e-40, 0.001, 1.0, 65504.0, 1e30):
        assert spacing(score) == pytest.approx(float(np.spacing(np.float32(score))))


def test_keys_turn_back_into_scores_and_nan_has_no_interval() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        given = torch.tensor([-math.inf, -1.5, -0.0, 0.0, 2.0**-14, 1.0, math.inf], dtype=dtype)
        back = [ordered_key_value(int(key), dtype) for key in ordered_keys(given)]
        assert torch.equal(torch.tensor(back, dtype=dtype), given)
        assert math.copysign(1, back[2]) == -1
    with pytest.raises(UsageError, match="NaN"):
        interval(HALF[0], math.nan)
