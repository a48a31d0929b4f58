"""The three jobs in Chromium, each from a cold start on the samples: a bad row is inspected, a greedy divergence
diagnosed, a capture exported into a test. The server's log and the console are watched by the fixtures."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests import warm
from tests.browser.conftest import serving, watch
from tests.browser.driving import (
    MEGABYTE,
    SLOW_MS,
    bars,
    click_in_plot,
    click_mark,
    clipped,
    download,
    open_app,
    params,
    press,
    sentence,
    settle,
    turn_to,
    wider_than_the_window,
)

LOST = "The model of sglang.fast_topk (stock) lost 672 winners of 2048 in one arrival order"
BREACHED = "What threshold bin 204 holds"
SELECT = "    return torch.topk(scores, k).indices\n"  # what an exported test calls, to be replaced
STOCK = """    from itertools import count
    from workbench.paths.arrival import Arrival
    from workbench.paths.catalog import get_path
    from workbench.paths.model import run_model
    seeds = globals().setdefault("seeds", count())
    order = Arrival("random", "element", next(seeds))
    return run_model(get_path("sglang.fast_topk"), scores, k, order, "stock").indices
"""


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an app that was just started without arguments: the samples are what there is. The first session
    of it waits for all that is imported then."""
    with serving([], tmp_path_factory.mktemp("cold") / "app.log") as url:
        yield url


@pytest.fixture
def walker(page: Page) -> Iterator[Page]:
    """A viewer on whose pages nothing is cut off, and to whom no message of the server is as large as a megabyte."""
    largest = [0]
    page.on("websocket", lambda one: one.on("framereceived", lambda frame: largest.append(len(frame))))
    yield page
    assert max(largest) < MEGABYTE


def looks_right(page: Page) -> None:
    assert wider_than_the_window(page) <= 0
    assert clipped(page) == []
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_bad_row_is_found_read_compared_and_exported(walker: Page, cold: str, tmp_path: Path) -> None:
    page = walker
    open_app(page, cold, 3 * SLOW_MS)
    assert (params(page)["capture"], params(page)["row"]) == ("samples/smollm2-lm-head.safetensors", "2")
    page.keyboard.press("n")  # to the next bad row, and back to the worst
    expect(page).to_have_url(re.compile(r"[?&]row=3(&|$)"))
    settle(page)
    assert "lost 672" not in sentence(page)
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile(r"[?&]row=2(&|$)"))
    settle(page)
    assert sentence(page).startswith(LOST)
    looks_right(page)

    def over() -> tuple[float, float]:
        (bar,) = bars(page, trace=1)
        return bar["x"], bar["y"]

    click_in_plot(page, over)
    expect(page.get_by_text(BREACHED)).to_be_visible()
    settle(page)
    assert params(page)["bin"] == "204"
    follows_the_link(page)

    turn_to(page, "Compare")
    assert re.match(r"As stock, 3 of the 18 judged paths that take this row can lose winners", sentence(page))
    looks_right(page)
    stock = page.get_by_role("heading", name="sglang.fast_topk (stock): can lose")
    click_mark(page, "can lose", at=1)
    expect(stock).to_be_visible()
    settle(page)
    click_mark(page, "clean")
    expect(stock).to_have_count(0)
    settle(page)
    page.go_back()
    expect(stock).to_be_visible()
    settle(page)
    page.get_by_role("link", name="Inspect row 2 on sglang.fast_topk").click()
    expect(page.get_by_text("samples/smollm2-lm-head.safetensors · row 2")).to_be_visible()
    settle(page)
    assert params(page)["path"] == "sglang.fast_topk"

    turn_to(page, "Export")
    assert sentence(page).startswith("On sglang.fast_topk (stock) this row is at risk; a test of it makes 1 call.")
    press(page, "Shrink")
    expect(page.get_by_text("Row 2 shrank from 49152 scores to 4097")).to_be_visible()
    settle(page)
    press(page, "Export")
    expect(page.get_by_text(re.compile("fails on the model of sglang.fast_topk"))).to_be_visible()
    looks_right(page)
    fixture = download(page, "Fixture (.safetensors)", tmp_path)
    test = download(page, "Test (.py)", tmp_path)
    assert fixture.name in test.read_text()
    assert "n4097" in test.name
    assert_passes_on_exact_and_fails_on_stock(test)
    press(page, "Inspect the shrunk row")
    shrunk = "upload/smollm2-lm-head-row2-sglang.fast_topk-shrunk.safetensors · row 0"
    expect(page.get_by_text(shrunk)).to_be_visible()
    settle(page)
    assert "4097 scores share the threshold bin 188" in sentence(page)
    looks_right(page)


def follows_the_link(page: Page) -> None:
    """Another session that is given the address shows the same."""
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context()
    other, wrong = context.new_page(), list[str]()
    watch(other, wrong)
    open_app(other, page.url)
    expect(other.get_by_text(BREACHED)).to_be_visible()
    assert (sentence(other), params(other)) == (sentence(page), params(page))
    context.close()
    assert wrong == []


def assert_passes_on_exact_and_fails_on_stock(test: Path) -> None:
    text = test.read_text()
    assert text.count(SELECT) == 1
    for selects, code, said in ((SELECT, 0, "1 passed"), (STOCK, 1, "of 2048 winners lost")):
        test.write_text(text.replace(SELECT, selects))
        ran = warm.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test], cwd=test.parent)
        assert (ran.returncode, said in ran.stdout) == (code, True), ran.stdout


def test_a_greedy_divergence_is_diagnosed(walker: Page, cold: str) -> None:
    page = walker
    open_app(page, cold, 3 * SLOW_MS)
    turn_to(page, "Divergence")
    page.get_by_role("button", name=re.compile("greedy-values: exact, order-1, order-2")).click()
    first = page.get_by_text("Step 0, layer 3, row 0: values vary")
    expect(first).to_be_visible()
    settle(page)
    said = sentence(page)
    assert "order-1.safetensors parts from samples/greedy-values/exact.safetensors at step 0, layer 3, row 0" in said
    looks_right(page)
    click_mark(page, "input differs")
    expect(page.get_by_text("Step 0, layer 4, row 0: input differs")).to_be_visible()
    settle(page)
    page.go_back()
    expect(first).to_be_visible()
    settle(page)
    page.get_by_role("link", name=re.compile("Inspect b: row 3 of")).click()
    expect(page.get_by_text("· row 3")).to_be_visible()
    settle(page)
    assert sentence(page).startswith("The recorded selection lost 37 winners of 512.")
    assert (params(page)["capture"], params(page)["engine"]) == (
        "samples/greedy-values/order-1.safetensors",
        "recorded",
    )
    page.go_back()
    expect(first).to_be_visible()
    settle(page)
    assert sentence(page) == said


def test_a_broken_upload_is_one_clear_message(walker: Page, cold: str, tmp_path: Path) -> None:
    page = walker
    open_app(page, cold, 3 * SLOW_MS)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"these are no tensors")
    page.get_by_role("button", name="Open a file").click()
    page.locator('input[type="file"]').set_input_files(broken)
    alert = page.get_by_test_id("stAlert")
    expect(alert).to_contain_text("upload/broken.safetensors: not a safetensors file")
    settle(page)
    looks_right(page)
    page.keyboard.press("Escape")
    page.go_back()  # to what was open before, which is as it was
    expect(alert).to_have_count(0)
    settle(page)
    assert sentence(page).startswith(LOST)
