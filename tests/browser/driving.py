"""How tests drive the app in Chromium: what is waited for, read off a page, and clicked."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from playwright.sync_api import Locator, Page, expect

MEGABYTE = 1_000_000
SLOW_MS = 40_000
Place = tuple[float, float]  # from the upper left corner of the window, in pixels
HEADER, LINE = 31, 31  # pixels of the row list's header and lines
BAD = "capture=dumps/bad-row.safetensors"

expect.set_options(timeout=SLOW_MS)  # of whatever is waited for: the machine may do much else


# True once the page's script has not run, and nothing has been waited for to be drawn, for a while.
STILL = """() => {
    const state = document.querySelector('[data-testid=stApp]')?.dataset.testScriptState;
    if (state !== 'notRunning' || document.querySelector('[data-testid=stSkeleton]')) window.stillSince = undefined;
    else window.stillSince ??= performance.now();
    return performance.now() - window.stillSince > 400;
}"""


def open_app(page: Page, url: str, slow_ms: int = SLOW_MS) -> None:
    page.goto(url)
    expect(page.locator(".st-key-pages")).to_be_visible(timeout=slow_ms)  # before the script runs, it does not either
    settle(page, slow_ms)


def settle(page: Page, slow_ms: int = SLOW_MS) -> None:
    """Wait until the script has run and what it sent is drawn."""
    page.wait_for_timeout(300)
    page.evaluate("window.stillSince = undefined")
    page.wait_for_function(STILL, timeout=slow_ms)


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


def turn_to(page: Page, title: str) -> None:
    """Turn to a page of the app by the link that navigation has to it."""
    page.get_by_role("link", name=title, exact=True).first.click()
    settle(page)


def bars(page: Page, trace: int = 0) -> list[dict[str, float]]:
    """The visible boxes of the bars, left to right; ``trace`` 1 is what does not fit the buffer."""
    plot = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    assert plot is not None
    boxes = page.locator(".js-plotly-plot .barlayer .trace").nth(trace).locator("path")
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
    expect(table.locator("canvas").first).to_be_visible()
    box = table.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] - 30, box["y"] + HEADER + LINE * line + LINE / 2)
    expect(page).to_have_url(re.compile(rf"[?&]row={row}(&|$)"))
    settle(page)


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


def click_mark(page: Page, state: str, at: int = 0) -> None:
    """Click a mark of a state, the first one unless said otherwise."""
    names = page.locator(".js-plotly-plot .legendtext").all_text_contents()
    assert state in names
    marks = page.locator(".js-plotly-plot .scatterlayer .trace").nth(names.index(state)).locator("path.point")

    def place() -> Place:
        box = marks.nth(at).bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    click_in_plot(page, place)


def click_in_plot(page: Page, place: Callable[[], Place]) -> None:
    """Click what a picture has at a place once it says that the pointer is on it: a picture may still move while a page
    settles, and does not hear of a click on what it does not know to be there."""
    said = page.locator(".js-plotly-plot .hoverlayer .hovertext")
    for _ in range(SLOW_MS // 300):
        x, y = place()
        page.mouse.move(x - 3, y)
        page.mouse.move(x, y)
        page.wait_for_timeout(300)
        if said.count() and place() == (x, y):
            break
    page.mouse.click(x, y)


def press(page: Page, name: str) -> None:
    """Press a button of that name, and wait for what it does."""
    page.get_by_role("button", name=name, exact=True).click()
    settle(page)


def download(page: Page, name: str, to: Path) -> Path:
    """The file that a button gives, under its own name in a folder."""
    with page.expect_download(timeout=SLOW_MS) as waiting:
        page.get_by_role("button", name=name, exact=True).click()
    target = to / waiting.value.suggested_filename
    waiting.value.save_as(target)
    return target


def wider_than_the_window(page: Page) -> float:
    """Pixels by which the page is wider than what is seen of it; none, or less, where nothing is cut off."""
    return float(page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth"))
