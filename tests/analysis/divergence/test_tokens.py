"""Token steps: ties, near-ties and clear flips, in every dtype, with and without logits."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.analysis.divergence.tokens import NEAR_ULPS, margin_of, token_step
from workbench.capture import Token


def logits(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def up(value: float, ulps: int, dtype: torch.dtype = torch.float32) -> float:
    whole = torch.int32 if dtype == torch.float32 else torch.int16
    pattern = torch.tensor([value], dtype=dtype).view(whole) + ulps
    return float(pattern.view(dtype))


def test_margins() -> None:
    found = margin_of(logits(1.0, 5.0, 4.0))
    assert found is not None
    assert (found.best, found.second, found.margin, found.tied) == (1, 2, 1.0, 1)
    assert found.ulps == 0x200000  # 4.0 to 5.0
    tied = margin_of(logits(2.0, 2.0, 1.0, 2.0))
    assert tied is not None
    assert (tied.best, tied.second, tied.margin, tied.ulps, tied.tied) == (0, 1, 0.0, 0, 3)
    zeros = margin_of(logits(-0.0, 0.0))
    assert zeros is not None
    assert (zeros.ulps, zeros.tied) == (0, 2)
    nan = margin_of(logits(math.nan, 1.0))
    assert nan is not None
    assert (nan.best, nan.ulps) == (0, None)
    assert math.isnan(nan.margin)
    infinite = margin_of(logits(-math.inf, 3.0))
    assert infinite is not None
    assert (infinite.best, infinite.margin) == (1, math.inf)
    assert margin_of(logits(1.0)) is None


def test_the_same_token_from_the_same_bits() -> None:
    found = token_step(Token(3, 1, logits(0.0, 2.0)), Token(3, 1, logits(0.0, 2.0)))
    assert (found.state, found.identical, found.cause, found.parts) == ("same", True, None, False)
    assert token_step(Token(3, 1), Token(3, 1)).state == "same"
    assert token_step(Token(3, 1), Token(3, 1)).identical is None


def test_the_same_token_from_other_bits() -> None:
    found = token_step(Token(3, 1, logits(0.0, 2.0)), Token(3, 1, logits(-0.0, 2.0)))
    assert (found.state, found.identical, found.parts) == ("logits differ", False, True)


def test_a_tie_explains_a_flip() -> None:
    tied = logits(1.0, 7.0, 7.0)
    found = token_step(Token(0, 1, tied), Token(0, 2, tied.clone()))
    assert (found.state, found.identical, found.cause, found.flip_ulps) == ("token differs", True, "tie", 0)
    assert found.not_greedy == ()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_near_tie_is_counted_in_ulps_of_the_dtype(dtype: torch.dtype) -> None:
    near, far = up(7.0, NEAR_ULPS, dtype), up(7.0, NEAR_ULPS + 1, dtype)
    for top, cause in ((near, "near-tie"), (far, "clear")):
        a, b = logits(1.0, top, 7.0, dtype=dtype), logits(1.0, 7.0, up(7.0, 1, dtype), dtype=dtype)
        found = token_step(Token(0, 1, a), Token(0, 2, b))
        assert (found.cause, found.identical) == (cause, False)
        assert found.flip_ulps == (NEAR_ULPS if cause == "near-tie" else NEAR_ULPS + 1)  # the farther side
        assert found.moved == pytest.approx(top - 7.0, rel=0)


def test_a_clear_flip() -> None:
    found = token_step(Token(0, 1, logits(1.0, 9.0, 7.0)), Token(0, 2, logits(1.0, 6.0, 7.0)))
    assert (found.cause, found.moved, found.state) == ("clear", 3.0, "token differs")
    wide = token_step(Token(0, 1, logits(1.0, 9.0, 7.0)), Token(0, 2, logits(1.0, 6.0, 7.0)), near_ulps=2**23)
    assert (wide.cause, wide.flip_ulps) == ("near-tie", 0x300000)


def test_a_token_that_is_not_the_best_logit_is_no_greedy_choice() -> None:
    row = logits(1.0, 9.0, 7.0)
    found = token_step(Token(0, 1, row), Token(0, 2, row))
    assert (found.not_greedy, found.identical, found.cause) == (("b",), True, "clear")


def test_without_logits_or_tokens() -> None:
    bare = token_step(Token(0, 1), Token(0, 2))
    assert (bare.state, bare.cause, bare.identical) == ("token differs", None, None)
    one = token_step(Token(0, 1, logits(0.0, 5.0, 4.0)), Token(0, 2))
    assert (one.cause, one.moved) == ("clear", None)
    inferred = token_step(Token(0, None, logits(0.0, 5.0)), Token(0, None, logits(6.0, 5.0)))
    assert (inferred.state, inferred.token_a, inferred.token_b) == ("token differs", 1, 0)
    ambiguous = token_step(Token(0, None, logits(5.0, 5.0)), Token(0, None, logits(5.0, 5.0)))
    assert (ambiguous.state, ambiguous.token_a) == ("same", None)
    assert token_step(Token(0), Token(0, 2)).state == "not comparable"


def test_a_token_that_one_run_lacks() -> None:
    assert token_step(Token(4, 1), None).state == "missing"
    extra = token_step(None, Token(4, 1, logits(0.0, 1.0)), place=2, request="r")
    assert (extra.state, extra.step, extra.place, extra.request, extra.token_b) == ("extra", 4, 2, "r", 1)


def test_vocabularies_of_other_sizes_and_nan() -> None:
    found = token_step(Token(0, 1, logits(0.0, 5.0)), Token(0, 2, logits(0.0, 1.0, 5.0)))
    assert (found.identical, found.moved, found.state) == (False, None, "token differs")
    nan = token_step(Token(0, 1, logits(0.0, math.nan)), Token(0, 0, logits(1.0, math.nan)))
    assert (nan.cause, nan.flip_ulps, nan.not_greedy) == (None, None, ("b",))
