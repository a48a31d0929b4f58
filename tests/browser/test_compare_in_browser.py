"""The page that compares paths in Chromium: its picture in a narrow window."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.driving import BAD, clipped, open_app, wider_than_the_window

APART = """() => {
    const names = [...document.querySelectorAll('.js-plotly-plot .xtick text')]
        .map(one => one.getBoundingClientRect().left).sort((a, b) => a - b);
    return Math.min(...names.slice(1).map((at, before) => at - names[before]));
}"""
MOVES = """() => {
    const held = document.querySelector('.st-key-compared-picture');
    return held.scrollWidth - held.clientWidth;
}"""
MEETS = """() => {
    const legend = document.querySelector('.js-plotly-plot .legend').getBoundingClientRect();
    return [...document.querySelectorAll('.js-plotly-plot .xtick text')]
        .filter(one => one.getBoundingClientRect().top < legend.bottom).map(one => one.textContent);
}"""


@pytest.mark.parametrize("axis", ["variants", "releases"])
def test_names_stay_apart_in_a_narrow_window_where_the_picture_moves(page: Page, served: str, axis: str) -> None:
    for width, moves in ((1280, False), (900, True)):
        page.set_viewport_size({"width": width, "height": 900})
        open_app(page, f"{served}/compare?{BAD}&row=1&axis={axis}")
        assert (page.evaluate(MOVES) > 0) == moves
        assert page.evaluate(APART) >= 13
        assert page.evaluate(MEETS) == []
        assert wider_than_the_window(page) <= 0
        assert clipped(page) == []
