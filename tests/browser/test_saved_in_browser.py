"""What is saved of a row, in Chromium: the page that is mailed, and pictures and tables from the app."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import workbench as wb

ROOT = Path(__file__).parents[2]
PAPER_OF_PICTURES = """() => [...document.querySelectorAll(".picture .main-svg:first-child")].map(
  one => getComputedStyle(one).backgroundColor)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_row_draws_its_pictures_and_asks_for_nothing(
    browser: Browser, tmp_path: Path, theme: str
) -> None:
    row = wb.open(ROOT / "captures" / "public-vllm-v100.safetensors")[0]
    target = wb.inspect(row, release="vllm==0.23.0").to_html(tmp_path / "row.html")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda one: said.append(one.text))
    page.on("pageerror", lambda one: said.append(str(one)))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(target.as_uri())
    page.wait_for_selector("#picture-2 .main-svg")
    assert (said, asked) == ([], [target.as_uri()])
    assert page.locator(".picture .main-svg").count() >= 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[theme]
    assert page.evaluate(PAPER_OF_PICTURES) == [paper] * 3
    other = "dark" if theme == "light" else "light"
    page.emulate_media(color_scheme=other)  # type: ignore[arg-type]
    page.wait_for_timeout(500)
    assert paper not in page.evaluate(PAPER_OF_PICTURES)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(PAPER_OF_PICTURES) == ["rgb(255, 255, 255)"] * 3
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme=theme)  # type: ignore[arg-type]
    script = "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    page.evaluate(f"() => {{ {script} }}")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in text for text in said)
    context.close()


def test_pictures_and_tables_are_saved_under_what_they_show(page: Page, served: str, tmp_path: Path) -> None:
    page.goto(f"{served}/?capture=dumps/bad-row.safetensors&row=1&view=bins&path=vllm.filtered")
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
    page.hover(".js-plotly-plot")
    with page.expect_download() as picture:
        page.click(".modebar-btn")
    assert picture.value.suggested_filename == "bad-row-row1-vllm.filtered-bins.png"
    picture.value.save_as(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    page.get_by_role("button", name="Save").first.click()
    with page.expect_download() as table:
        page.get_by_test_id("stPopoverBody").get_by_role("button", name="CSV").click()
    table.value.save_as(tmp_path / "table.csv")
    assert "9000" in (tmp_path / "table.csv").read_text()
