"""Shrink, export and download in Chromium."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import zipfile
from pathlib import Path

from playwright.sync_api import Download, Error, Page, expect

from tests import warm
from tests.browser.test_app_in_browser import BAD, SLOW_MS, open_app, params, settle


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    settle(page)


def download(page: Page, name: str, to: Path) -> tuple[str, bytes]:
    with page.expect_download(timeout=SLOW_MS) as waiting:
        page.get_by_role("button", name=name, exact=True).click()
    got: Download = waiting.value
    got.save_as(to / got.suggested_filename)
    return got.suggested_filename, (to / got.suggested_filename).read_bytes()


def written(folder: Path, *args: object) -> dict[str, bytes]:
    """What a command writes to a folder."""
    folder.mkdir()
    ran = warm.run([sys.executable, "-m", "workbench", *args])
    assert ran.returncode in (0, 1), ran.stderr
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_row_is_shrunk_and_its_test_downloaded(page: Page, served: str, dumps: Path, tmp_path: Path) -> None:
    open_app(page, f"{served}/?{BAD}&row=1")
    page.get_by_role("radio", name="Shrink and export").click()
    settle(page)
    assert params(page)["view"] == "export"
    press(page, "Shrink")
    expect(page.get_by_text(re.compile(r"Row 1 shrank from 9000 scores to 8193"))).to_be_visible(timeout=SLOW_MS)
    press(page, "Export")
    expect(page.get_by_text(re.compile("fails on the model of vllm.histogram_256"))).to_be_visible(timeout=SLOW_MS)
    wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth")
    assert wide <= 0
    taken = dict(download(page, name, tmp_path) for name in ("Fixture (.safetensors)", "Test (.py)"))
    _, packed = download(page, "Both (.zip)", tmp_path)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == taken
    _, capture = download(page, "Download as a capture", tmp_path)
    small = tmp_path / "shrunk" / "small.safetensors"
    by_hand = written(small.parent, "shrink", dumps / "bad-row.safetensors", "--row", 1, "--output", small)
    assert by_hand == {small.name: capture}
    assert written(tmp_path / "cli", "export", small, "--to", tmp_path / "cli") == taken
    press(page, "Inspect the shrunk row")
    expect(page.get_by_text("1 row · 1 call · float32 · up to 8,193 scores")).to_be_visible(timeout=SLOW_MS)
    assert params(page)["capture"].startswith("upload/bad-row-row1-vllm.histogram_256")


def test_shrinking_a_million_scores_is_stopped_and_leaves_the_page_as_it_was(page: Page, served: str) -> None:
    open_app(page, f"{served}/?capture=dumps/crowded.safetensors&view=export&path=sglang.fast_topk")
    page.get_by_role("button", name="Shrink", exact=True).click()
    stop = page.get_by_role("button", name="Stop", exact=True)
    done = page.get_by_text(re.compile(r"Row 0 shrank from 1048576 scores to 4097"))
    expect(stop.or_(done).first).to_be_visible(timeout=SLOW_MS)
    with contextlib.suppress(Error):  # it may be done by now
        stop.click(timeout=5000)
    settle(page)
    expect(stop).to_have_count(0, timeout=SLOW_MS)
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)
    going_on = page.get_by_role("button", name=re.compile("^(Shrink|Go on)$"))
    if going_on.count():
        going_on.click()
    expect(done).to_be_visible(timeout=3 * SLOW_MS)  # a second of work, on a machine that may do much else
