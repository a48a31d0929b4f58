"""Altered rows keep the winners that they had."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.analysis.altered import ALTERATIONS, cut_at_zero, within_fp16
from workbench.numeric.keys import GREATEST_HALF

FLOATS = st.floats(width=32, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS, min_size=2, max_size=40), st.integers(1, 39))
def test_the_same_scores_lie_above_at_and_below_the_cut(values: list[float], k: int) -> None:
    scores = torch.tensor(values, dtype=torch.float32)
    for alter in ALTERATIONS.values():
        made = alter(scores, k)
        if made.scores is None:
            assert made.told
            continue
        assert made.possible
        cut, new = (torch.topk(one, min(k, len(one))).values.min() for one in (scores, made.scores))
        assert torch.equal(scores > cut, made.scores > new)
        assert torch.equal(scores < cut, made.scores < new)


def test_scores_beyond_fp16_are_divided_by_a_power_of_two() -> None:
    scores = torch.tensor([806736.0, 65520.0, -1.0, 3e-3, torch.inf])
    made = within_fp16(scores, 1)
    assert made.told == "scores divided by 2^4"
    assert torch.equal(made.scores, scores / 16)
    assert float(made.scores[:-1].max()) <= GREATEST_HALF
    assert within_fp16(torch.tensor([GREATEST_HALF, -GREATEST_HALF]), 1).scores is None
    assert within_fp16(torch.tensor([65504.004, 1.0]), 1).told == "scores divided by 2^1"
    assert within_fp16(torch.tensor([3.4e38, 1e-40]), 1).possible is False  # the small one would be rounded
    assert within_fp16(torch.empty(0), 1).scores is None
    assert within_fp16(torch.tensor([torch.inf, torch.nan]), 1).scores is None


def test_a_cut_that_cannot_be_moved_is_told() -> None:
    assert cut_at_zero(torch.tensor([torch.nan, 1.0, 2.0]), 1).possible is False
    assert cut_at_zero(torch.tensor([torch.inf, torch.inf, 2.0]), 2).possible is False
    assert cut_at_zero(torch.tensor([1.0, 2.0]), 2).told == "nothing is selected"
    assert torch.equal(cut_at_zero(torch.tensor([3.0, 1.0, 2.0]), 2).scores, torch.tensor([1.0, -1.0, 0.0]))
