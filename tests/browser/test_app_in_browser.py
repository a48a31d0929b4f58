"""The app in Chromium: what is seen, what is sent, and what a click does."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import BAD, MEGABYTE, click_row, clipped, open_app, sentence, settle


def test_nothing_is_wider_than_the_window(page: Page, served: str) -> None:
    for view in ("bins", "capacity", "diff"):
        open_app(page, f"{served}/?{BAD}&view={view}")
        wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth")
        assert wide <= 0
        assert clipped(page) == []


def test_switching_rows_of_a_million_scores_sends_less_than_a_megabyte(page: Page, served: str) -> None:
    received = [0]

    def count(payload: str | bytes) -> None:
        received[0] += len(payload)

    page.on("websocket", lambda socket: socket.on("framereceived", count))
    for view in ("bins", "diff"):
        open_app(page, f"{served}/?capture=dumps/wide.safetensors&row=0&view={view}")
        received[0] = 0
        click_row(page, 1, row=1)
        assert 0 < received[0] < MEGABYTE


def test_a_click_on_a_row_turns_to_it(page: Page, served: str) -> None:
    open_app(page, f"{served}/?{BAD}")
    before = sentence(page)
    click_row(page, 2, row=2)
    assert sentence(page) != before
    assert "No arrival order of vllm.histogram_256 (stock) loses a value" in sentence(page)
    click_row(page, 0, row=1)
    assert sentence(page) == before


@pytest.mark.parametrize("text", ["none", "-5"])
def test_a_k_that_is_none_is_a_message(page: Page, served: str, text: str) -> None:
    open_app(page, f"{served}/?{BAD}")
    box = page.get_by_role("combobox", name=re.compile(r"k$|k\b")).last
    box.fill(text)
    box.press("Enter")
    settle(page)
    expect(page.locator('[data-testid="stAlert"]').first).to_contain_text("k:")
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)
