"""The overview in Chromium: an audit's pictures, its worst rows, and the way to one of them and back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import (
    HEADER,
    LINE,
    MEGABYTE,
    clipped,
    open_app,
    params,
    sentence,
    settle,
)


def test_a_clicked_row_is_shown_and_leads_to_the_inspector(page: Page, served: str) -> None:
    received = [0]
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
    open_app(page, f"{served}/overview?audit=dumps/audited")
    assert sum(received) < MEGABYTE
    assert re.match(r"\d+ of \d+ rows lose winners or can: ", sentence(page))
    expect(page.get_by_text("Bad rows by path")).to_be_visible()
    expect(page.get_by_text("Bad rows by layer and step")).to_be_visible()
    expect(page.get_by_text("decoding step")).to_be_visible()
    table = page.locator('[data-testid="stDataFrame"]').first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 40, box["y"] + HEADER + LINE * 1 + LINE / 2)
    expect(page).to_have_url(re.compile(r"[?&]row=\d+"))
    settle(page)
    shown = params(page)
    expect(page.get_by_role("heading", name=f"Row {shown['row']} of {shown['file']}")).to_be_visible()
    page.get_by_role("link", name=f"Inspect row {shown['row']} of dumps/{shown['file']}").click()
    expect(page.get_by_text(f"· row {shown['row']}")).to_be_visible()
    settle(page)
    assert params(page)["capture"] == f"dumps/{shown['file']}"
    page.go_back()
    expect(page.get_by_role("heading", name=f"Row {shown['row']} of {shown['file']}")).to_be_visible()


def test_nothing_is_clipped_or_wider_than_the_window(page: Page, served: str) -> None:
    for width in (1280, 1920, 800):
        page.set_viewport_size({"width": width, "height": 900})
        open_app(page, f"{served}/overview?audit=dumps/audited")
        assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth") <= 0
        assert clipped(page) == []
