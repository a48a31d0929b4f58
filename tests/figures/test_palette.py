"""Colours that can be read, and told apart with every common colour blindness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from workbench.figures import palette

# linear RGB as seen without red, green or blue cones (Machado, Oliveira and Fernandes 2009, severity 1)
SEEN = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ.sum(axis=1)
TEXTS = {*palette.RISKS.values(), *palette.VERDICTS.values(), *palette.STATE_TEXTS.values()}
STATES = {name: colour for name, (colour, _) in palette.STATES.items()}
TOKENS = {name: colour for name, (colour, _) in palette.TOKENS.items()}
LIGHT_KINDS = {
    "risks": palette.RISKS,
    "verdicts": palette.VERDICTS,
    "marks": palette.MARKS,
    "states": STATES,
    "tokens": TOKENS,
    "state chips": palette.STATE_TEXTS,
}
STANDINGS = {name: colour for name, (colour, _) in palette.STANDINGS.items()}
LIGHT_KINDS |= {"standings": STANDINGS, "standing chips": palette.STANDING_TEXTS}
KINDS = LIGHT_KINDS | {
    f"{kind}, dark": {name: palette.DARK[colour] for name, colour in held.items()} for kind, held in LIGHT_KINDS.items()
}
MARKS = {colour for held in (STATES, TOKENS, STANDINGS, palette.MARKS) for colour in held.values()}
MARKS |= {palette.BIN, palette.OVERFLOW, palette.REFUSED}
TEXTS |= {*palette.STANDING_TEXTS.values()}
TEXTS |= {palette.TEXT, palette.MUTED, palette.CAPACITY, palette.THRESHOLD}


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""
    light = sorted(float(XYZ[1] @ linear(colour)) + 0.05 for colour in (one, other))
    return light[1] / light[0]


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(XYZ @ np.clip(seen @ linear(colour), 1e-3, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21, abs=0.01)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("colour", sorted(TEXTS))
def test_texts_on_white_and_white_letters_on_chips_are_readable(colour: str) -> None:
    assert contrast(colour, palette.PAPER) >= 4.5


@pytest.mark.parametrize("colour", sorted(TEXTS))
def test_texts_are_readable_on_a_dark_page_and_under_its_dark_letters(colour: str) -> None:
    assert contrast(palette.DARK[colour], palette.DARK_PAPER) >= 4.5


@pytest.mark.parametrize("colour", sorted(MARKS))
def test_marks_stand_out_on_both_papers(colour: str) -> None:
    assert contrast(colour, palette.PAPER) >= 3
    assert contrast(palette.DARK[colour], palette.DARK_PAPER) >= 3


def test_letters_on_bright_fills_are_readable_in_both_themes() -> None:
    for fill in (palette.AT_RISK, palette.DARK[palette.AT_RISK]):
        assert contrast(palette.INK, fill) >= 4.5


@pytest.mark.parametrize("name", sorted(SEEN))
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_colours_are_told_apart(kind: dict[str, str], name: str) -> None:
    for one, other in itertools.combinations(sorted(set(kind.values())), 2):
        assert np.linalg.norm(lab(one, SEEN[name]) - lab(other, SEEN[name])) >= 12, (one, other)
