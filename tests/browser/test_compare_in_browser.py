"""The page that compares paths in Chromium: a click on a mark, the row behind it, and the step back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.test_app_in_browser import (
    SLOW_MS,
    click_row,
    clipped,
    open_within_a_megabyte,
    params,
    sentence,
    settle,
)
from tests.browser.test_divergence_in_browser import click_mark

BAD = "capture=dumps/bad-row.safetensors&row=1"


def test_a_clicked_mark_shows_its_cell_and_leads_to_the_row(page: Page, served: str) -> None:
    open_within_a_megabyte(page, f"{served}/compare?{BAD}&system=vllm")
    assert sentence(page).startswith("As stock, 2 of the ")
    expect(page.get_by_text("vllm.histogram_256 (stock): can lose")).to_be_visible()
    click_row(page, 1, row=0)
    settle(page)
    assert "on" not in params(page)  # no cell was chosen by turning to another row
    page.go_back()
    expect(page.get_by_text("vllm.histogram_256 (stock): can lose")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    click_mark(page, "clean", at=0)
    expect(page).to_have_url(re.compile(r"[?&]on=vllm\.histogram_256&at=\w+"), timeout=SLOW_MS)
    settle(page)
    chosen = params(page)["at"]
    expect(page.get_by_text(f"vllm.histogram_256 ({chosen}): clean")).to_be_visible(timeout=SLOW_MS)
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth") <= 0
    assert clipped(page) == []
    page.get_by_role("link", name="Inspect row 1 on vllm.histogram_256").click()
    expect(page).to_have_url(re.compile(r"/\?.*[?&]path=vllm\.histogram_256"), timeout=SLOW_MS)
    expect(page.get_by_text("dumps/bad-row.safetensors · row 1")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    page.get_by_role("link", name="Compare").click()  # by the bar at the top
    expect(page.get_by_text(f"vllm.histogram_256 ({chosen}): clean")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    assert params(page)["row"] == "1"
