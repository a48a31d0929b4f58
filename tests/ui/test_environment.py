"""The page of the environment: what was found, looked at once, and again when asked."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import texts
from workbench.runs import looks
from workbench.runs.doctor import Fact
from workbench.ui import environment


def _script() -> None:
    from workbench.ui.environment import environment_page

    environment_page()


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[list[Fact]]:
    """What each look finds, one after another; the last one stays."""
    found = [
        [
            Fact("engines", "model", "answers on this machine"),
            Fact("engines", "cuda", "cannot answer", "absent", "no CUDA device", "pip install 'x'"),
            Fact("serving", "vllm", "0.26.0 *new*", "broken", "ImportError: [a](b)", "install it again"),
        ],
        [Fact("engines", "model", "answers on this machine")],
    ]

    def all_looks(**_: object) -> list[looks.Look]:
        facts = found.pop(0) if len(found) > 1 else found[0]
        return [("engines", "engines", lambda: iter(facts))]

    monkeypatch.setattr(looks, "all_looks", all_looks)
    environment._held.clear()
    return found


def test_what_was_found_is_shown_and_can_be_copied(looked: list[list[Fact]]) -> None:
    test = AppTest.from_function(_script, default_timeout=60).run()
    assert not test.exception
    assert "vllm is broken; engines that can answer here: model." in texts(test)
    broken, absent, engines, *_ = [one.value for one in test.table]
    assert broken.index.tolist() == ["vllm"]
    assert broken["why"].tolist() == [r"ImportError\: \[a\]\(b\)"]  # text, never markup
    assert absent["what helps"].tolist() == ["`pip install 'x'`"]
    assert engines.index.tolist() == ["✓ model", "– cuda"]
    (report,) = test.code
    assert "vllm: 0.26.0 *new* [broken]" in report.value
    again = AppTest.from_function(_script, default_timeout=60).run()
    assert "vllm is broken" in texts(again)  # another session: it was looked at once


def test_it_is_looked_at_again_when_asked(looked: list[list[Fact]]) -> None:
    test = AppTest.from_function(_script, default_timeout=60).run()
    test.button(key="environment-look").click().run()
    assert not test.exception
    assert "Nothing is broken; engines that can answer here: model." in texts(test)
    assert not test.button(key="environment-look").disabled
