"""The page of releases in Chromium: a click on a mark, the row behind it, and the steps back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import (
    click_mark,
    clipped,
    open_app,
    open_within_a_megabyte,
    params,
    sentence,
    settle,
)

BAD = "source=dumps/bad-row.safetensors"


def test_a_clicked_mark_shows_its_cell_and_leads_to_the_row(page: Page, served: str) -> None:
    open_within_a_megabyte(page, f"{served}/releases?{BAD}")
    assert sentence(page).startswith("1 of 3 rows loses winners in some release from vllm==0.20.2 to 0.33.0")
    expect(page.get_by_text("Row 1 in vllm==0.32.0: loses")).to_be_visible()
    click_mark(page, "loses", at=3)
    expect(page).to_have_url(re.compile(r"[?&]at=vllm%3D%3D0\.24\.0(&|$)"))
    settle(page)
    expect(page.get_by_text("Row 1 in vllm==0.24.0: loses")).to_be_visible()
    click_mark(page, "clean", at=1)
    expect(page.get_by_text("Row 0 in vllm==0.20.2: clean")).to_be_visible()
    settle(page)
    page.go_back()
    expect(page.get_by_text("Row 1 in vllm==0.24.0: loses")).to_be_visible()
    settle(page)
    page.get_by_role("link", name="Inspect row 1").click()
    expect(page.get_by_text("· row 1")).to_be_visible()
    settle(page)
    shown = params(page)
    assert (shown["capture"], shown["row"], shown["release"]) == ("dumps/bad-row.safetensors", "1", "vllm==0.24.0")


def test_nothing_is_clipped_or_wider_than_the_window(page: Page, served: str) -> None:
    for width in (1280, 800):
        page.set_viewport_size({"width": width, "height": 900})
        open_app(page, f"{served}/releases?{BAD}")
        assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth") <= 0
        assert clipped(page) == []
