"""The bar at the top: which pages it names, and what its links say."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

from streamlit.testing.v1 import AppTest

from tests.ui.conftest import texts
from tests.ui.test_app import BAD, param, pick

Open = Callable[..., AppTest]


def links(test: AppTest) -> dict[str, dict[str, str]]:
    """What the links of the bar say, by the page's name."""
    found = [one.proto for one in test.get("page_link")][:10]
    return {one.label: {name: last[-1] for name, last in parse_qs(one.query_string).items()} for one in found}


def test_links_say_what_the_page_will_show(app: Open) -> None:
    test = app(capture=BAD, row="2", view="capacity", path="vllm.filtered")
    assert not test.exception
    said = links(test)
    assert " ".join(said) == ("Overview Divergence Inspect Compare What-if Remedies Repeat Releases Paths Environment")
    row = {"capture": BAD, "digest": param(test, "digest"), "row": "2"}
    assert said["Inspect"] == row | {"view": "capacity", "path": "vllm.filtered"}
    assert said["Compare"] == said["Remedies"] == row
    assert said["What-if"] == row | {"path": "vllm.filtered"}
    assert said["Overview"] == said["Paths"] == {}  # nothing was chosen there yet
    pick(test, "k").set_value("1024").run()  # type: ignore[attr-defined]
    assert links(test)["Compare"] == row | {"k": "1024"}
    assert "row 2" in texts(test)


def test_links_of_a_first_visit_say_nothing_of_other_pages(app: Open) -> None:
    """What a URL says is of the page that it names, whatever else the bar leads to."""
    test = app(capture=BAD, row="1")
    for name in ("Overview", "Divergence", "Releases", "Paths", "Environment"):
        assert links(test)[name] == {}
