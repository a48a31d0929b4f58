"""Inputs that differ in one bit, in NaN, in length, start, dtype and k."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.analysis.divergence.inputs import describe, input_difference, score_difference
from workbench.capture.row import Call, Row

BASE = [1.0, -2.0, 3.0, 0.0]


def row(values: list[float], dtype: torch.dtype = torch.float32, k: int | None = 2, **window: int) -> Row:
    scores = torch.tensor(values, dtype=dtype)
    return Row(scores, window.get("length", len(values)), window.get("start", 0), call=Call(k=k))


def bits(pattern: int) -> float:
    return float(torch.tensor([pattern], dtype=torch.int32).view(torch.float32))


def test_the_same_bits_are_the_same_whatever_pads_them() -> None:
    assert input_difference(row(BASE), row(BASE)) is None
    assert input_difference(row(BASE, length=3), row([*BASE[:3], 9.0], length=3)) is None
    nan = row([math.nan, *BASE])
    assert input_difference(nan, row([math.nan, *BASE])) is None  # a NaN is itself


def test_one_ulp_in_one_score() -> None:
    found = input_difference(row(BASE), row([1.0, -2.0, bits(0x40400001), 0.0]))
    assert found is not None
    assert (found.what, found.also) == ("scores", ())
    scores = found.scores
    assert scores is not None
    assert (scores.compared, scores.cells, scores.first, scores.first_ulps, scores.max_ulps) == (4, 1, 2, 1, 1)
    assert scores.max_abs == pytest.approx(2.384185791015625e-07, rel=0)
    text = "1 of 4 scores differs by 1 ULP of float32 (2.384e−7), first at index 2 (3 against 3.00000024)"
    assert describe(found) == text


def test_ulps_are_counted_across_zero_and_in_the_dtype() -> None:
    least = bits(1)
    across = score_difference(torch.tensor([-least, 1.0]), torch.tensor([least, 1.5]))
    assert across is not None
    assert (across.cells, across.first_ulps, across.max_ulps, across.max_abs) == (2, 2, 0x400000, 0.5)
    half = score_difference(torch.tensor([1.0]).bfloat16(), torch.tensor([1.0078125]).bfloat16())
    assert half is not None
    assert (half.max_ulps, half.dtype) == (1, "bfloat16")
    ends = score_difference(torch.tensor([-math.inf]), torch.tensor([math.inf]))
    assert ends is not None
    assert (ends.max_ulps, ends.max_abs) == (2 * 0x7F800000, math.inf)


def test_the_sign_of_zero_is_a_difference_of_no_ulp() -> None:
    found = input_difference(row(BASE), row([1.0, -2.0, 3.0, -0.0]))
    assert found is not None
    assert found.scores is not None
    assert (found.scores.cells, found.scores.signed_zeros, found.scores.max_ulps) == (1, 1, 0)
    assert "1 of 4 scores differs in the sign of zero alone" in describe(found)


def test_nan_on_one_side_or_with_other_bits_is_counted_apart() -> None:
    one, other = torch.tensor([math.nan, bits(0x7FC00001), 2.0]), torch.tensor([1.0, math.nan, 2.5])
    found = score_difference(one, other)
    assert found is not None
    assert (found.cells, found.nan, found.first_ulps) == (3, 2, None)
    assert (found.max_ulps, found.max_abs) == (0x200000, 0.5)  # over the cell without NaN
    only = score_difference(one[:2], other[:2])
    assert only is not None
    assert (only.max_ulps, only.max_abs, only.nan) == (None, None, 2)
    different = input_difference(row([math.nan, 1.0]), row([2.0, 1.0]))
    assert different is not None
    assert describe(different) == "1 of 2 scores differs, 1 with a NaN, first at index 0 (NaN against 2)"


def test_a_changed_length_says_whether_the_shared_scores_are_the_same() -> None:
    found = input_difference(row(BASE), row([*BASE, 7.0]))
    assert found is not None
    assert (found.what, found.a, found.b, found.scores) == ("length", 4, 5, None)
    assert describe(found) == "length is 4 against 5; the scores that both rows have are the same bit for bit"
    both = input_difference(row(BASE), row([2.0, *BASE[1:], 7.0]))
    assert both is not None
    assert both.also == ("scores",)
    assert both.scores is not None
    assert (both.scores.compared, both.scores.cells) == (4, 1)


def test_dtypes_are_compared_as_the_float32_that_both_widen_to() -> None:
    same = input_difference(row(BASE), row(BASE, torch.bfloat16))
    assert same is not None
    assert (same.what, same.a, same.b, same.scores) == ("dtype", "float32", "bfloat16", None)
    rounded = input_difference(row([1.001, 2.0]), row([1.001, 2.0], torch.float16))
    assert rounded is not None
    assert rounded.scores is not None
    assert (rounded.scores.cells, rounded.scores.dtype) == (1, "float32")


def test_start_and_k() -> None:
    moved = input_difference(row([9.0, *BASE], start=1, length=4), row(BASE))
    assert moved is not None
    assert (moved.what, moved.a, moved.b, moved.scores) == ("start", 1, 0, None)
    other_k = input_difference(row(BASE), row(BASE, k=3))
    assert other_k is not None
    assert (other_k.what, describe(other_k)) == ("k", "k is 2 against 3")
    assert input_difference(row(BASE), row(BASE, k=None)) is None  # what is not known does not differ
    every = input_difference(row(BASE, k=1), row([9.0, 8.0, 7.0], torch.float16, k=2, start=1, length=2))
    assert every is not None
    assert (every.what, every.also) == ("k", ("dtype", "length", "start", "scores"))
    assert describe(every).startswith("k is 1 against 2; dtype and length and start differ too; 2 of 2 scores differ")


def test_recorded_slots_stand_for_an_unknown_k() -> None:
    a = Row(torch.tensor(BASE), 4, indices=torch.tensor([2, 0], dtype=torch.int32))
    b = Row(torch.tensor(BASE), 4, indices=torch.tensor([2, 0, 3], dtype=torch.int32))
    found = input_difference(a, b)
    assert found is not None
    assert (found.what, found.a, found.b) == ("k", 2, 3)


def test_empty_rows() -> None:
    assert input_difference(row([]), row([])) is None
    found = input_difference(row([]), row([1.0]))
    assert found is not None
    assert (found.what, found.scores) == ("length", None)
