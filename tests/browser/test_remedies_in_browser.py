"""The page of remedies in Chromium: a click on a mark, the link that shows it again, and what is sent."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import BAD, click_mark, clipped, open_within_a_megabyte, sentence, settle


def test_a_clicked_mark_shows_its_remedy_and_a_step_back_the_last_one(page: Page, served: str) -> None:
    open_within_a_megabyte(page, f"{served}/remedies?{BAD}&row=1&scope=capture")
    assert sentence(page).startswith("1 of 3 rows can lose winners on vllm.persistent_topk, vllm==0.26.0, h200.")
    expect(page.get_by_role("heading", name="vllm==0.33.0: keeps every winner")).to_be_visible()
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth") <= 0
    assert clipped(page) == []
    click_mark(page, "does not help", at=0)
    expect(page).to_have_url(re.compile(r"[?&]remedy="))
    settle(page)
    expect(page.get_by_role("heading", name="vllm==0.33.0: keeps every winner")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("heading", name="vllm==0.33.0: keeps every winner")).to_be_visible()
