"""The What-if page in a browser: a click on a mark alters the row, and back undoes it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import click_in_plot

LINK = "/what-if?capture=dumps%2Fbad-row.safetensors&row=1&path=vllm.histogram_256&against=key_bits"
PLACE = """(value) => {
    const chart = document.querySelector('.js-plotly-plot'), box = chart.getBoundingClientRect();
    const marks = chart._fullData.find(one => one.name === 'p_clean');
    const {xaxis, yaxis2} = chart._fullLayout;
    const height = marks.y[Array.from(marks.x).indexOf(value)];
    return [box.x + xaxis._offset + xaxis.l2p(value), box.y + yaxis2._offset + yaxis2.l2p(height)];
}"""


def test_a_mark_is_clicked_and_undone(page: Page, served: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 1300})
    page.goto(served + LINK)
    as_it_is = page.get_by_text("On vllm.histogram_256 (stock) this row is at risk: 9000 scores share")
    expect(as_it_is).to_be_visible()
    expect(page.locator(".js-plotly-plot .point").first).to_be_visible()
    click_in_plot(page, lambda: tuple(page.evaluate(PLACE, 12)))
    expect(page.get_by_text("With a key of 12 bits this row would be safe")).to_be_visible()
    expect(page).to_have_url(re.compile("key_bits=12"))
    page.go_back()
    expect(as_it_is).to_be_visible()
    expect(page).not_to_have_url(re.compile("key_bits=12"))
