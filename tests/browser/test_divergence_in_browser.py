"""The page of compared runs in Chromium: a click on a mark, the row behind it, and the steps back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.test_app_in_browser import (
    SLOW_MS,
    clipped,
    open_app,
    open_within_a_megabyte,
    params,
    sentence,
    settle,
)

RUNS = "run=dumps/runs/a.safetensors&run=dumps/runs/b.safetensors"


def click_mark(page: Page, state: str, at: int = 0) -> None:
    """Click a mark of a state, the first one unless said otherwise."""
    names = page.locator(".js-plotly-plot .legendtext").all_text_contents()
    assert state in names
    marks = page.locator(".js-plotly-plot .scatterlayer .trace").nth(names.index(state)).locator("path.point")
    box = marks.nth(at).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_clicked_mark_shows_the_point_and_its_rows_can_be_inspected(page: Page, served: str) -> None:
    open_within_a_megabyte(page, f"{served}/divergence?{RUNS}")
    assert "parts from dumps/runs/a.safetensors at step 2, layer 1, row 0" in sentence(page)
    expect(page.get_by_text("Step 2, layer 1, row 0: values vary")).to_be_visible()
    click_mark(page, "order varies")
    expect(page).to_have_url(re.compile(r"[?&]point=9(&|$)"), timeout=SLOW_MS)
    settle(page)
    expect(page.get_by_text("Step 3, layer 0, row 0: order varies")).to_be_visible()
    click_mark(page, "same", at=4)
    expect(page.get_by_text("Step 1, layer 1, row 0: same")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    page.go_back()
    expect(page.get_by_text("Step 3, layer 0, row 0: order varies")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    page.get_by_role("link", name="Inspect b: row 9").click()
    expect(page.get_by_text("· row 9")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    shown = params(page)
    assert (shown["capture"], shown["row"], shown["engine"]) == ("dumps/runs/b.safetensors", "9", "recorded")
    page.go_back()
    expect(page.get_by_text("Step 3, layer 0, row 0: order varies")).to_be_visible(timeout=SLOW_MS)
    settle(page)
    assert params(page)["point"] == "9"
    page.get_by_role("link", name="Paths").click()
    settle(page)
    page.get_by_role("link", name="Divergence").click()
    expect(page.get_by_text("Step 3, layer 0, row 0: order varies")).to_be_visible(timeout=SLOW_MS)


def test_nothing_is_clipped_or_wider_than_the_window(page: Page, served: str) -> None:
    for width in (1280, 800):
        page.set_viewport_size({"width": width, "height": 900})
        open_app(page, f"{served}/divergence?{RUNS}")
        assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth") <= 0
        assert clipped(page) == []
