"""Colours that can be read, and told apart with every common colour blindness."""

from __future__ import annotations

import ast
import itertools
import re
import tomllib
from pathlib import Path

import pytest

from tests.figures.colours import apart, contrast
from workbench.figures import palette
from workbench.figures.pairs import LEAST_OF_LETTERS

STATES = {name: mark.ink for name, mark in palette.STATES.items()}
TOKENS = {name: mark.ink for name, mark in palette.TOKENS.items()}
LIGHT_KINDS = {
    "risks": palette.RISKS,
    "verdicts": palette.VERDICTS,
    "marks": palette.MARKS,
    "states": STATES,
    "tokens": TOKENS,
    "state chips": palette.STATE_TEXTS,
}
STANDINGS = {name: mark.ink for name, mark in palette.STANDINGS.items()}
LIGHT_KINDS |= {"standings": STANDINGS, "standing chips": palette.STANDING_TEXTS}
REMEDIES = {name: mark.ink for name, mark in palette.REMEDIES.items()}
LIGHT_KINDS |= {"remedies": REMEDIES}
KINDS = LIGHT_KINDS | {
    f"{kind}, dark": {name: palette.DARK[colour] for name, colour in held.items()} for kind, held in LIGHT_KINDS.items()
}


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21, abs=0.01)
    assert contrast("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01)


CHIPS = {
    colour
    for kind in LIGHT_KINDS
    if "chips" in kind or kind in ("risks", "verdicts")
    for colour in LIGHT_KINDS[kind].values()
}


@pytest.mark.parametrize("colour", sorted(CHIPS))
def test_chips_have_letters_in_the_colour_of_the_paper(colour: str) -> None:
    assert contrast(colour, palette.PAPER) >= LEAST_OF_LETTERS
    assert contrast(palette.DARK[colour], palette.DARK_PAPER) >= LEAST_OF_LETTERS


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_colours_are_told_apart_with_every_colour_blindness(kind: dict[str, str]) -> None:
    for one, other in itertools.combinations(sorted(set(kind.values())), 2):
        assert apart(one, other) >= 12, (one, other)


ROOT = Path(__file__).parents[2]
COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})(?![0-9a-zA-Z_])|\b(?:rgb|hsl)a?\(")
SOURCES = [
    *(path for room in ("figures", "ui") for path in sorted((ROOT / "workbench" / room).glob("*.py"))),
    ROOT / "app.py",
    ROOT / "workbench" / "rendering.py",
]


def literals(path: Path) -> list[str]:
    """Colours written in the code of a module; what its docstrings say is left out."""
    tree = ast.parse(path.read_text())
    said = {id(part.value) for part in ast.walk(tree) if isinstance(part, ast.Expr)}
    texts = (part for part in ast.walk(tree) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return [found[0] for part in texts if id(part) not in said for found in COLOUR.finditer(part.value)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_colour_is_written_outside_the_palette(path: Path) -> None:
    assert bool(literals(path)) == (path.name == "palette.py")


def test_captions_of_the_app_are_read_on_both_of_its_grounds() -> None:
    for text, grounds in (
        (palette.TEXT, (palette.PAPER, palette.SURFACE)),
        (palette.DARK_TEXT, (palette.DARK_PAPER, palette.DARK_SURFACE)),
    ):
        for ground in grounds:
            assert contrast(palette.tint(text, palette.FADED, ground), ground) >= LEAST_OF_LETTERS


def test_pages_show_code_in_colours_of_the_palette() -> None:
    pages = [path for path in SOURCES if path.parent.name == "ui" and path.name != "common.py"]
    assert not [path.name for path in pages if "st.code(" in path.read_text()]


def test_the_theme_of_the_app_has_colours_of_the_palette() -> None:
    theme = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())["theme"]
    for name, side in palette.APP.items():
        assert {key: colour for key, colour in theme[name].items() if str(colour).startswith("#")} == side
