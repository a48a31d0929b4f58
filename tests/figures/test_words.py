"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from workbench.figures.words import count, fill_text, probability, ratio, signed, value


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.5, "−0.5"),
        (65504.0, "65504"),
        (1.2345678, "1.235"),
        (5.96e-08, "5.96e−8"),
        (math.inf, "+inf"),
        (-math.inf, "−inf"),
        (math.nan, "NaN"),
        (3e38, "3e38"),
    ],
)
def test_scores(number: float, text: str) -> None:
    assert value(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "–"), (0.0, "0"), (1.0, "1"), (0.5, "0.5000"), (0.99999, ">0.9999"), (6.4e-70, "6e−70"), (2e-5, "2e−5")],
)
def test_probabilities(number: float | None, text: str) -> None:
    assert probability(number) == text


def test_a_probability_too_small_for_a_float_is_not_called_0() -> None:
    assert probability(0.0, possible=True) == "<1e−300"


def test_decimals_keep_a_minus_sign() -> None:
    assert (signed(-0.987, 2), signed(0.5, 2)) == ("−0.99", "0.50")


def test_counts_and_ratios() -> None:
    assert (count(1048576), count(None)) == ("1,048,576", "–")
    assert (ratio(16385, 4096), ratio(1 << 20, 2048), ratio(1, 4096)) == ("4.00×", "512×", "0.0002×")


def test_a_buffer_that_is_all_but_full_says_by_how_many() -> None:
    assert [fill_text(held, 4096) for held in (4096, 4097, 4116, 4095, 4080)] == [
        "full",
        "1 too many",
        "20 too many",
        "1 to spare",
        "16 to spare",
    ]
    assert (fill_text(4117, 4096), fill_text(4000, 4096), fill_text(16385, 4096)) == ("1.01×", "0.98×", "4.00×")
