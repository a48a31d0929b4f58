"""The app in Chromium: what is seen, what is sent, and what a click does."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Locator, Page, expect

MEGABYTE = 1_000_000
SLOW_MS = 40_000
HEADER, LINE = 31, 31  # pixels of the row list's header and lines
BAD = "capture=dumps/bad-row.safetensors"


def open_app(page: Page, url: str) -> None:
    page.goto(url)
    settle(page)


def settle(page: Page) -> None:
    """Wait until the script has run and what it sent is drawn."""
    page.wait_for_timeout(300)
    idle = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
    page.wait_for_function(idle, timeout=SLOW_MS)
    expect(page.locator('[data-testid="stSkeleton"]')).to_have_count(0, timeout=SLOW_MS)
    page.wait_for_timeout(400)


def open_within_a_megabyte(page: Page, url: str) -> None:
    """Open the app and hold what it sends until it is drawn against a megabyte."""
    received = [0]
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(len(frame))))
    open_app(page, url)
    assert 0 < sum(received) < MEGABYTE


def sentence(page: Page) -> str:
    return page.locator('[data-testid="stMain"] div[style*="border-left"]').inner_text()


def params(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).query).items()}


def bars(page: Page) -> list[dict[str, float]]:
    """The visible boxes of the bars, left to right."""
    plot = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    assert plot is not None
    boxes = page.locator(".js-plotly-plot .barlayer .trace").first.locator("path")
    found = []
    for at in range(boxes.count()):
        box = boxes.nth(at).bounding_box()
        if box is not None and box["height"] > 1:
            bottom = min(box["y"] + box["height"], plot["y"] + plot["height"])
            found.append({"x": box["x"] + box["width"] / 2, "y": (box["y"] + bottom) / 2})
    return found


def click_row(page: Page, line: int, row: int) -> None:
    """Click into the length column of a line of the row list, from 0, that holds ``row``."""
    table: Locator = page.locator('[data-testid="stSidebar"] [data-testid="stDataFrame"]')
    box = table.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 30, box["y"] + HEADER + LINE * line + LINE / 2)
    expect(page).to_have_url(re.compile(rf"[?&]row={row}(&|$)"), timeout=SLOW_MS)
    settle(page)


def test_opens_on_the_worst_row_and_says_what_happened(page: Page, served: str, tmp_path: Path) -> None:
    errors: list[str] = []
    elsewhere: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: elsewhere.append(request.url) if not local(request.url, served) else None)
    open_app(page, served)
    assert re.search(r"vllm\.histogram_256 \(stock\) is at risk: 9000 scores share the threshold bin", sentence(page))
    assert params(page)["row"] == "1"
    expect(page.get_by_text("breach: 2.20× the capacity")).to_be_visible()
    expect(page.get_by_text("capacity 4,096")).to_be_visible()
    shot = tmp_path / "opened.png"
    page.screenshot(path=shot)
    assert shot.stat().st_size > 30_000
    assert not errors
    assert not elsewhere  # nothing is fetched from other machines


def local(url: str, served: str) -> bool:
    return url.startswith((served, served.replace("http", "ws"), "data:", "blob:"))


def clipped(page: Page) -> list[str]:
    """Texts of plots that leave their plot."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => {
            const frame = plot.getBoundingClientRect();
            return [...plot.querySelectorAll('text')].filter(text => {
                const box = text.getBoundingClientRect();
                return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1
                    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
            }).map(text => text.textContent);
        })"""
    )


def test_nothing_is_wider_than_the_window(page: Page, served: str) -> None:
    for view in ("bins", "capacity", "diff"):
        open_app(page, f"{served}/?{BAD}&view={view}")
        wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth")
        assert wide <= 0
        assert clipped(page) == []


def test_a_clicked_bar_shows_what_it_holds_and_the_link_shows_the_same(page: Page, served: str) -> None:
    open_app(page, f"{served}/?{BAD}&row=0&path=vllm.histogram_256")
    boxes = bars(page)
    page.mouse.click(boxes[3]["x"], boxes[3]["y"])
    expect(page).to_have_url(re.compile(r"[?&]bin=\d+"), timeout=SLOW_MS)
    settle(page)
    number = params(page)["bin"]
    title = page.get_by_text(re.compile(f"What (threshold )?bin {number} holds"))
    expect(title).to_be_visible()
    said, link = (title.inner_text(), sentence(page)), page.url
    other = page.context.browser.new_context().new_page()  # type: ignore[union-attr]
    open_app(other, link)
    expect(other.get_by_text(re.compile(f"What (threshold )?bin {number} holds"))).to_be_visible()
    assert (other.get_by_text(re.compile("What .* holds")).inner_text(), sentence(other)) == said
    assert params(other) == params(page)
    other.context.close()


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
