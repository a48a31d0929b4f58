"""The overview in Chromium from a cold start: a folder is scanned, its worst row leads to the inspector, and the
repeated calls of that row are drawn."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import MEGABYTE, SLOW_MS, clipped, open_app, params, sentence, settle


def test_a_folder_is_scanned_from_a_cold_start(page: Page, served: str) -> None:
    received = [0]
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
    page.goto(f"{served}/overview?scan=dumps")
    expect(page.get_by_role("button", name="Look again")).to_be_visible(timeout=3 * SLOW_MS)
    settle(page)
    assert re.match(r"\d+ of \d+ rows lose winners or can: ", sentence(page))
    assert max(received) < MEGABYTE
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth") <= 0
    assert clipped(page) == []
    link = page.get_by_role("link", name=re.compile("^Inspect row"))
    link.click()
    expect(page.get_by_text("Route: why the row takes this path")).to_be_visible()
    settle(page)
    assert params(page)["capture"].startswith("dumps/")
    page.go_back()
    expect(page.get_by_role("button", name="Look again")).to_be_visible()


def test_repeated_calls_are_drawn(page: Page, served: str) -> None:
    open_app(page, f"{served}/repeat?capture=dumps/bad-row.safetensors&row=1&calls=6&engine=model")
    expect(page.get_by_text("Values missing, call by call")).to_be_visible()
    assert sentence(page).startswith("6 calls of vllm.histogram_256 (stock): values vary")
    expect(page.get_by_text("the cut, k = 512")).to_be_visible()
    assert clipped(page) == []
    assert params(page)["calls"] == "6"
