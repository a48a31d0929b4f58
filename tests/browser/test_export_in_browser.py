"""The page Export in Chromium: a million scores and a stop on the way, and a narrow window."""

from __future__ import annotations

import contextlib
import re
import time

from playwright.sync_api import Error, Page, expect

from tests.browser.driving import BAD, SLOW_MS, open_app, settle


def test_shrinking_a_million_scores_is_stopped_and_leaves_the_page_as_it_was(page: Page, served: str) -> None:
    open_app(page, f"{served}/export?capture=dumps/crowded.safetensors&path=sglang.fast_topk")
    page.get_by_role("button", name="Shrink", exact=True).click()
    stop = page.get_by_role("button", name="Stop", exact=True)
    done = page.get_by_text(re.compile(r"Row 0 shrank from 1048576 scores to 4097"))
    expect(stop.or_(done).first).to_be_visible()
    with contextlib.suppress(Error):  # it may be done by now
        stop.click(timeout=5000)
    settle(page)
    expect(stop).to_have_count(0)
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)
    going_on = page.get_by_role("button", name=re.compile("^(Shrink|Go on)$"))
    end = time.monotonic() + 3 * SLOW_MS / 1000  # a second of work, on a machine that may do much else
    while not done.count():
        assert time.monotonic() < end, "the row is not shrunk"
        with contextlib.suppress(Error):  # it works, or it is done by now
            going_on.click(timeout=2000)
        settle(page)
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)


def test_a_narrow_window_shows_op_release_device_and_k_whole(page: Page, served: str) -> None:
    """Cut off, as h200 to h20, they would read as others."""
    open_app(page, f"{served}/export?{BAD}&row=1&k=2048")
    lines = []
    for width in (1280, 900):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        found = page.locator(".st-key-circumstances input")
        shown = found.evaluate_all("them => them.map(one => [one.value, one.scrollWidth - one.clientWidth])")
        assert shown == [["vllm.persistent_topk", 0], ["vllm==0.26.0", 0], ["h200", 0], ["2048", 0]]
        lines.append(len(set(found.evaluate_all("them => them.map(one => one.getBoundingClientRect().top)"))))
    assert lines == [1, 2]
