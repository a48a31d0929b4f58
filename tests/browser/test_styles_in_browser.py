"""Every style that the app adds finds what it is for: a Streamlit that names its elements otherwise fails here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ROOT, SIZE, serving
from tests.browser.driving import SLOW_MS, open_app, settle

# The texts of the styles that the page adds, and each selector with whether something is found by it. Streamlit's own
# styles stand in the head.
STYLES = """() => {
    const added = [...document.styleSheets].filter(one => one.ownerNode.closest?.('body'));
    const found = {};
    const look = rules => {
        for (const rule of rules) {
            if (rule.selectorText) for (const one of rule.selectorText.split(/,(?![^(]*\\))/))
                found[one.trim()] = document.querySelector(one) !== null;
            else if (rule.cssRules) look(rule.cssRules);
        }
    };
    for (const one of added) look(one.cssRules);
    return [added.map(one => one.ownerNode.textContent).join(''), found];
}"""


def test_every_selector_of_the_styles_finds_an_element(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme="dark")  # type: ignore[arg-type]
    script = str(Path(__file__).with_name("styled_page.py"))
    try:
        with serving([], tmp_path / "app.log", script) as url:
            page = context.new_page()
            open_app(page, url)
            texts, found = page.evaluate(STYLES)
            page.get_by_test_id("stSidebarCollapseButton").locator("button").dispatch_event("click")
            settle(page)
            _, closed = page.evaluate(STYLES)
    finally:
        context.close()
    for file in sorted((ROOT / "workbench" / "ui").glob("*.css")):
        assert file.read_text(encoding="utf-8").strip() in texts, f"{file.name} is not on the page of this test"
    assert len(found) >= 12
    lost = [selector for selector in found if not (found[selector] or closed.get(selector))]
    assert not lost, (
        f"Streamlit {st.__version__} has no element for {lost}: the styles in workbench/ui/*.css and ui/common.py "
        "name elements as another release did"
    )


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[str]:
    """The address of an app that was just started: its first session waits for all that is imported then."""
    with serving([], tmp_path / "app.log") as url:
        yield url


def test_a_page_that_is_being_drawn_has_no_button_that_leaves_it_half_drawn(cold: str, page: Page) -> None:
    page.goto(f"{cold}/export")
    expect(page.get_by_test_id("stStatusWidgetRunningIcon")).to_be_visible()
    expect(page.get_by_test_id("stStatusWidget").locator("button")).to_have_count(1)  # Streamlit's own
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    settle(page, 3 * SLOW_MS)
