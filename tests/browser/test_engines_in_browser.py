"""The choice of an engine, and a list that is inspected as a whole, in Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from playwright.sync_api import Page, expect

from tests.browser.driving import BAD, open_app, params, settle
from workbench.capture import Call, Row, write_capture


def test_an_engine_is_chosen_and_carried(page: Page, served: str) -> None:
    open_app(page, f"{served}/?{BAD}&view=diff")
    main = page.get_by_test_id("stMain")
    expect(main.get_by_text("0 of 512 lost")).to_be_visible()  # as recorded
    main.get_by_role("combobox", name=re.compile("Engine")).click()
    page.get_by_role("option", name="vendor").click()
    expect(page).to_have_url(re.compile("engine=vendor"))
    settle(page)
    there = main.get_by_role("button", name="Call vllm.persistent_topk of vllm==0.26.0")
    answers = main.get_by_text("The model answers, for the vendor engine gives no selection here")
    expect(there.or_(answers)).to_be_visible()
    page.go_back()
    settle(page)
    assert "engine" not in params(page)


def test_stop_takes_the_place_of_inspect_all(page: Page, served: str, tmp_path: Path) -> None:
    call = Call(k=8, rows=1)
    rows = [Row(torch.randn(20_000), 20_000, call=call) for _ in range(200)]
    write_capture(tmp_path / "many.safetensors", rows)
    open_app(page, f"{served}/?{BAD}")
    side = page.get_by_test_id("stSidebar")
    side.get_by_role("button", name="Open a file").click()
    page.locator('input[type="file"]').set_input_files(tmp_path / "many.safetensors")
    expect(page).to_have_url(re.compile("many"))
    everything = side.get_by_role("button", name="Inspect all 200 rows")
    expect(everything).to_be_visible()
    settle(page)
    page.keyboard.press("Escape")
    everything.click()
    stop = side.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    expect(side.get_by_text(re.compile("Inspecting rows"))).to_be_visible()
    expect(everything).to_have_count(0, timeout=500)  # no greyed copy of it
    stop.click()
    expect(everything).to_be_visible()
    expect(stop).to_have_count(0)
