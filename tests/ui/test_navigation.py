"""The bar at the top: which pages it names, and what its links say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.navigation.page import calc_hash
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import texts
from tests.ui.test_app import BAD, param, pick
from workbench.ui.carried import KEPT

Open = Callable[..., AppTest]


def links(test: AppTest) -> dict[str, dict[str, str]]:
    """What the links of the bar say, by the page's name."""
    found = {one.proto.label: parse_qs(one.proto.query_string) for one in list(test.get("page_link"))[:11]}
    assert all((KEPT in said) == bool(said) for said in found.values())
    return {label: {name: texts[-1] for name, texts in said.items() if name != KEPT} for label, said in found.items()}


def test_links_say_what_the_page_will_show(app: Open) -> None:
    test = app(capture=BAD, row="2", view="capacity", path="vllm.filtered")
    assert not test.exception
    said = links(test)
    names = "Overview Divergence Inspect Compare What-if Remedies Repeat Export Releases Paths Environment"
    assert " ".join(said) == names
    row = {"capture": BAD, "digest": param(test, "digest"), "row": "2"}
    assert said["Inspect"] == row | {"view": "capacity", "path": "vllm.filtered"}
    assert said["Compare"] == said["Remedies"] == row
    assert said["What-if"] == said["Export"] == row | {"path": "vllm.filtered"}
    assert said["Overview"] == said["Paths"] == {}  # nothing was chosen there yet
    pick(test, "k").set_value("1024").run()  # type: ignore[attr-defined]
    assert links(test)["Compare"] == row | {"k": "1024"}
    assert "row 2" in texts(test)


def test_a_link_of_the_bar_shows_what_the_session_has_by_now(app: Open) -> None:
    test = app(capture=BAD, row="2", path="vllm.filtered")
    test.query_params.update({"path": "vllm.radix", "row": "0", KEPT: "1"})  # as drawn before a fragment changed it
    test.run()
    assert not test.exception
    assert (param(test, "row"), param(test, "path")) == ("2", "vllm.filtered")
    assert KEPT not in test.query_params
    other = app(capture=BAD, row="0", path="vllm.radix", **{KEPT: "1"})  # another tab
    assert (param(other, "row"), param(other, "path")) == ("0", "vllm.radix")
    assert KEPT not in other.query_params
    assert not other.warning


def test_the_inspector_has_an_address_of_its_name_as_other_pages_have(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens the app's own address, where the inspector stands, with all that the link says."""

    def script() -> None:
        from workbench.ui.pages import show_pages

        show_pages()

    turned, switch = [], st.switch_page

    def noted(page: st.Page, query_params: Sequence[tuple[str, str]]) -> None:
        turned.append(list(query_params))
        switch(page, query_params=query_params)

    monkeypatch.setattr(st, "switch_page", noted)
    monkeypatch.setattr("sys.argv", ["app.py", str(folder)])
    test = AppTest.from_function(script, default_timeout=60)
    for name, text in {"capture": BAD, "row": "2", "path": "vllm.filtered"}.items():
        test.query_params[name] = text
    test._page_hash = calc_hash("inspect")  # as the browser has it of such an address
    test.run()
    assert not test.exception
    assert turned == [[("capture", BAD), ("row", "2"), ("path", "vllm.filtered")]]
    assert (param(test, "row"), param(test, "path")) == ("2", "vllm.filtered")
    assert "row 2" in texts(test)
    shown = [one.proto.label for one in test.get("page_link")]
    assert shown.count("Inspect") == 1  # the bar names it once


def test_links_of_a_first_visit_say_nothing_of_other_pages(app: Open) -> None:
    """What a URL says is of the page that it names, whatever else the bar leads to."""
    test = app(capture=BAD, row="1")
    for name in ("Overview", "Divergence", "Releases", "Paths", "Environment"):
        assert links(test)[name] == {}
