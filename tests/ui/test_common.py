"""Pieces that several pages share."""

from __future__ import annotations

import re

import pytest

from workbench.figures import palette
from workbench.ui.common import code_style


@pytest.mark.parametrize("in_dark", [False, True])
def test_words_of_code_have_the_colours_of_the_palette_and_others_that_of_the_text(in_dark: bool) -> None:
    style = code_style(in_dark)
    found = dict(re.findall(r"\.token\.token\.(\w+) \{ color: (#?\w+); \}", style))
    wanted = {kind: palette.DARK[colour] if in_dark else colour for kind, colour in palette.CODE.items()}
    assert found == {"token": "inherit"} | wanted
    assert style.index(".token.token.token") < style.index(".token.token.keyword")
