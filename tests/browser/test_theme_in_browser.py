"""Light and dark, by the viewer's system and by the app's menu: the page, the paper of plots and the letters on it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import SIZE
from tests.browser.driving import SLOW_MS, open_app, settle
from tests.figures.colours import contrast
from workbench.figures import palette

PLOT = "() => getComputedStyle(document.querySelector('.js-plotly-plot .main-svg')).backgroundColor"
PAGE = "() => getComputedStyle(document.querySelector('.stApp')).backgroundColor"
TICK = "() => getComputedStyle(document.querySelector('.js-plotly-plot .xtick text')).fill"


def _hex(colour: str) -> str:
    return "#" + "".join(f"{int(part):02X}" for part in re.findall(r"\d+", colour)[:3])


def _holds(page: Page, paper: str) -> None:
    page.wait_for_selector(".js-plotly-plot .xtick text")
    assert _hex(page.evaluate(PAGE)) == paper
    assert _hex(page.evaluate(PLOT)) == paper
    assert contrast(_hex(page.evaluate(TICK)), paper) >= 4.5


@pytest.mark.parametrize(("scheme", "paper"), [("dark", palette.DARK_PAPER), ("light", palette.PAPER)])
def test_page_and_plots_follow_the_system(browser: Browser, served: str, scheme: str, paper: str) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        open_app(page, f"{served}/?capture=dumps/bad-row.safetensors&row=1")
        _holds(page, paper)
        if scheme == "light":
            before = page.evaluate(PLOT)
            page.get_by_test_id("stMainMenu").get_by_role("button").click()
            page.get_by_role("menuitemradio", name="Dark").click()
            page.wait_for_function(f"({PLOT})() !== '{before}'", timeout=SLOW_MS)
            settle(page)
            _holds(page, palette.DARK_PAPER)
    finally:
        context.close()
