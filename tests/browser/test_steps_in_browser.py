"""Steps back and forward, long lists, and narrow windows, in Chromium."""

from __future__ import annotations

import re
from urllib.parse import urlparse

from playwright.sync_api import Page, expect

from tests.browser.driving import BAD, click_row, open_app, params, sentence, settle, turn_to


def test_back_turns_to_the_last_row_and_forward_to_the_next(page: Page, served: str) -> None:
    page.goto("about:blank")
    open_app(page, f"{served}/?{BAD}")
    first = sentence(page)
    click_row(page, 2, row=2)
    second = sentence(page)
    click_row(page, 1, row=0)
    for go, row, said in (("back", 2, second), ("back", 1, first), ("forward", 2, second)):
        page.go_back() if go == "back" else page.go_forward()
        expect(page).to_have_url(re.compile(rf"[?&]row={row}(&|$)"))
        expect(page.get_by_text(f"· row {row}")).to_be_visible()
        settle(page)
        assert sentence(page) == said
        assert params(page)["row"] == str(row)


def test_every_step_back_is_the_page_before_as_it_was(page: Page, served: str) -> None:
    open_app(page, f"{served}/paths")  # no page of a row was shown yet
    expect(page.get_by_text("How a path selects")).to_be_visible()
    entries, met = page.evaluate("history.length"), []
    turn_to(page, "Inspect")
    click_row(page, 2, row=2)
    page.get_by_text("Capacity", exact=True).first.click()  # a view, by a fragment
    expect(page).to_have_url(re.compile("view=capacity"))
    met.append(page.url)
    for name in ("Compare", "What-if"):
        turn_to(page, name)
        met.append(page.url)
    assert page.evaluate("history.length") == entries + 5  # each page, and the row and the view chosen
    for step, at in (("back", 1), ("back", 0), ("forward", 1)):
        page.go_back() if step == "back" else page.go_forward()
        settle(page)
        assert page.url == met[at]
        expect(page.get_by_text("· row 2")).to_be_visible()
    assert page.locator('[data-testid="stException"]').count() == 0
    turn_to(page, "Inspect")  # by a link that was drawn when the view was chosen already
    assert page.url == met[0]


def test_all_pages_are_named_in_one_line_and_open_in_another_tab(page: Page, served: str) -> None:
    open_app(page, f"{served}/repeat?{BAD}&row=2")
    links = page.get_by_test_id("stMain").get_by_test_id("stPageLink").get_by_role("link")
    boxes = [box for number in range(10) if (box := links.nth(number).bounding_box())]
    menu = page.get_by_test_id("stMainMenu").bounding_box()
    assert menu is not None
    assert len(boxes) == 10
    assert len({box["y"] for box in boxes}) == 1
    assert all(box["width"] > 30 and box["x"] + box["width"] < menu["x"] for box in boxes)
    page.get_by_test_id("stMain").evaluate("e => e.scrollTo(0, 600)")
    expect(links.nth(9)).to_be_in_viewport()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Inspect", exact=True).click(modifiers=["Control"])
    other = opened.value
    settle(other)
    expect(other.get_by_text("· row 2")).to_be_visible()
    assert urlparse(other.url).path == "/"
    assert params(other) == params(page)


def test_a_wide_capture_shows_its_first_row_while_the_list_is_filled(page: Page, served: str) -> None:
    # Two rows are soon done: what the server sent is looked at, since the page may draw the bar and its end at once.
    sent: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sent.append(bytes(frame))))
    page.goto(f"{served}/?capture=dumps/wide.safetensors&k=1024")
    settle(page)
    assert params(page)["row"] in ("0", "1")
    expect(page.get_by_text(re.compile("Inspecting rows"))).to_have_count(0)
    assert any(re.search(rb"Inspecting rows: \d of 2", frame) for frame in sent)


def test_every_column_of_the_paths_is_on_screen(page: Page, served: str) -> None:
    open_app(page, f"{served}/paths")
    expect(page.get_by_text("All paths")).to_be_visible()
    table = page.locator('[data-testid="stDataFrame"]').last
    table.scroll_into_view_if_needed()
    scroller = table.locator(".dvn-scroller")
    assert scroller.count() == 1
    assert scroller.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    box = table.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 1280


def test_nothing_overlaps_in_a_narrow_window(page: Page, served: str) -> None:
    page.set_viewport_size({"width": 800, "height": 900})
    open_app(page, f"{served}/?{BAD}")
    main, side = (page.locator(f'[data-testid="{name}"]').bounding_box() for name in ("stMain", "stSidebar"))
    assert main is not None
    assert side is not None
    assert side["x"] + side["width"] <= main["x"] + 1
    wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth")
    assert wide <= 0


def test_a_key_turns_to_the_next_bad_row(page: Page, served: str) -> None:
    open_app(page, f"{served}/?{BAD}&row=0")
    expect(page.get_by_role("button", name="Previous bad row")).to_be_disabled()
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile(r"[?&]row=1(&|$)"))
    settle(page)
    expect(page.get_by_role("button", name="Next bad row")).to_be_disabled()
    page.go_back()
    expect(page).to_have_url(re.compile(r"[?&]row=0(&|$)"))
