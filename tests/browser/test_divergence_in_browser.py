"""The page of compared runs in Chromium: what fits a window, and what is sent."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.browser.driving import clipped, open_within_a_megabyte, wider_than_the_window

RUNS = "run=dumps/runs/a.safetensors&run=dumps/runs/b.safetensors"


def test_nothing_is_clipped_or_wider_than_the_window(page: Page, served: str) -> None:
    for width in (1280, 800):
        page.set_viewport_size({"width": width, "height": 900})
        open_within_a_megabyte(page, f"{served}/divergence?{RUNS}")
        assert wider_than_the_window(page) <= 0
        assert clipped(page) == []
