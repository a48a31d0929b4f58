"""The page of remedies as a person meets it: what it says and holds, its links, and bad links answered in a line."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.ui.conftest import saved_names, taken, texts
from tests.ui.pages import settled
from workbench.figures.remedies import label_of
from workbench.runs.advise_words import advice_sentence
from workbench.ui import remedies_made
from workbench.ui.remedies_view import Wanted, from_params, to_params

BAD = "dumps/bad-row.safetensors"


def _script() -> None:
    import streamlit as st

    from workbench.ui.pages import navigation
    from workbench.ui.remedies import remedies_page

    st.navigation(navigation())
    remedies_page()


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    st.cache_resource.clear()

    def open_page(**params: str) -> AppTest:
        monkeypatch.setattr("sys.argv", ["app.py", str(folder)])
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in ({"capture": BAD} | params).items():
            test.query_params[name] = value
        return test.run()

    return open_page


def params(test: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


def table(test: AppTest) -> list[list[str]]:
    """The table of remedies; the sidebar has another one."""
    (frame,) = [one.value for one in test.dataframe if "remedy" in one.value]
    return frame[["remedy", "state", "rows kept", "time"]].values.tolist()


def test_what_a_remedy_holds_for_is_seen_in_a_narrow_window(page: Callable[..., AppTest]) -> None:
    """The table has 795 pixels in a window of 1280, of which the boxes that choose a line take 34."""
    for scope in ("row", "capture"):
        (frame,) = [one.proto for one in page(scope=scope).dataframe if "remedy" in one.value]
        widths = {name: of["width"] for name, of in json.loads(frame.columns).items() if "width" in of}
        seen = list(frame.column_order)[: list(frame.column_order).index("time") + 1]
        assert {"holds for", "evidence"} <= set(seen)
        assert ("rows kept" in seen) == (scope == "capture")
        assert 34 + sum(widths[name] for name in seen) <= 795


def test_what_no_model_judged_is_marked_in_words(page: Callable[..., AppTest]) -> None:
    """As Inspect and Compare mark it: beside what else the remedy rests on."""
    test = page(row="1")
    (frame,) = [one.value for one in test.dataframe if "remedy" in one.value]
    evidence = dict(zip(frame["remedy"], frame["evidence"], strict=True))
    assert evidence["vllm==0.33.0"] == "observed, not modelled"
    assert evidence["vllm==0.20.2 to 0.32.0"] == "observed"
    assert "first: vllm==0.33.0 (observed, not modelled)." in texts(test)
    holds = dict(zip(frame["remedy"], frame["holds for"], strict=True))
    assert holds["vllm==0.20.2 to 0.32.0"] == "–"  # it keeps none
    assert holds["vllm==0.33.0"] == "every length"


def test_the_worst_row_has_its_remedies_the_best_first(page: Callable[..., AppTest], folder: Path) -> None:
    test = page()
    assert not test.exception
    with wb.open(folder / "bad-row.safetensors") as capture:
        advice = wb.advise(capture[1])
    assert advice_sentence(advice) in texts(test)
    assert table(test)[0][:3] == ["vllm==0.33.0", "keeps every winner", "1 of 1"]
    assert [line[0] for line in table(test)] == [label_of(one) for one in advice.remedies]  # as the picture has them
    assert test.code[0].value == "pip install vllm==0.33.0"
    assert "##### vllm==0.33.0: keeps every winner\nInstall vllm==0.33.0." in texts(test)
    assert params(test)["row"] == "1"
    assert "remedy" not in params(test)
    assert "Click a mark to see it below." in texts(test)


def test_all_rows_of_the_capture_are_counted_and_a_link_restores_the_remedy(page: Callable[..., AppTest]) -> None:
    test = page(scope="capture", remedy="release: vllm==0.20.2 to 0.32.0")
    assert not test.exception
    said = texts(test)
    assert "1 of 3 rows can lose winners on vllm.persistent_topk, vllm==0.26.0, h200." in said
    assert "##### vllm==0.20.2 to 0.32.0: does not help" in said
    assert ["vllm==0.20.2 to 0.32.0", "does not help", "2 of 3", "not measured"] in table(test)
    metrics = {one.label: one.value for one in test.metric}
    assert (metrics["Rows kept"], metrics["As it is"]) == ("2 of 3", "2 of 3")
    (link,) = test.get("page_link")
    assert link.proto.label.startswith("Inspect row 1, the first that is not kept")
    assert "row=1" in link.proto.query_string
    again = page(**params(test))
    assert params(again) == params(test)
    assert "##### vllm==0.20.2 to 0.32.0: does not help" in texts(again)
    test.button_group(key="remedies-scope").set_value("row").run()
    assert "The row can lose winners" in texts(test)
    assert params(test)["scope"] == "row"


def test_another_release_is_another_answer(page: Callable[..., AppTest]) -> None:
    test = page(release="vllm==0.33.0", row="1")
    assert "The row loses no winner on vllm.persistent_topk, vllm==0.33.0, h200." in texts(test)


def test_many_rows_are_counted_when_asked_and_too_many_are_not(
    page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies_made, "ROWS_AT_ONCE", 1)
    test = page(scope="capture")
    (button,) = [one for one in test.button if one.label.startswith("Judge 3 rows")]
    settled(button.click().run())
    assert not test.exception
    assert "1 of 3 rows can lose winners" in texts(test)
    st.cache_resource.clear()
    monkeypatch.setattr(remedies_made, "MOST_ROWS", 2)
    assert "3 rows are more than the 2 that are judged here" in texts(page(scope="capture"))


def test_a_press_of_stop_is_heard_while_rows_are_judged(
    page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies_made, "ROWS_AT_ONCE", 1)
    add, may_add = remedies_made.Advising.add, threading.Semaphore(1)

    def one_by_one(self: remedies_made.Advising, row: wb.Row) -> None:
        assert may_add.acquire(timeout=30)
        add(self, row)

    monkeypatch.setattr(remedies_made.Advising, "add", one_by_one)
    test = page(scope="capture")
    next(one for one in test.button if one.label.startswith("Judge 3 rows")).click().run()
    assert "Stop" in [one.label for one in test.run().button]
    (bar,) = test.get("progress")
    assert bar.proto.text.startswith("Judging rows: ")
    next(one for one in test.button if one.label == "Stop").click().run()
    may_add.release(1)  # the row that it is at
    settled(test)
    assert not test.exception
    going_on = next(one for one in test.button if one.label.startswith("Judge "))
    assert going_on.label in ("Judge 1 row under every remedy", "Judge 2 rows under every remedy")
    may_add.release(2)
    settled(going_on.click().run())
    assert "1 of 3 rows can lose winners" in texts(test)


def test_a_stopped_count_goes_on_from_where_it_was(page: Callable[..., AppTest], folder: Path) -> None:
    with wb.open(folder / "bad-row.safetensors") as capture:
        whole = wb.advise(capture)
        held = remedies_made.Made(remedies_made.Advising())
        for row in capture:
            held.advising.add(row)
            held.done += 1
            assert held.advice().rows == held.done
    assert held.advice() == whole
    assert held.advice() is held.advice()


def test_bad_links_are_answered_in_a_line(page: Callable[..., AppTest]) -> None:
    test = page(scope="<b>", part="x", remedy="release: none", other="1")
    assert not test.exception
    said = texts(test)
    assert "The link's scope is left out" in said
    assert "The link's part is left out: 'x' is not a whole number." in said
    assert "The link's remedy, release: none, is none of these rows'." in said
    assert "does not know: 'other'" in said
    assert "The link names op 7 of the capture; it has 1, from 0." in texts(page(part="7"))


def test_a_link_is_read_as_it_is_written() -> None:
    value = Wanted("capture", 3, "backend: --sparse-indexer-topk-backend per_row")
    assert from_params(to_params(value)) == (value, [])
    assert to_params(Wanted()) == {}


def test_the_remedies_and_their_picture_are_taken_away(
    page: Callable[..., AppTest], files: dict[str, Any], folder: Path
) -> None:
    test = page(row="1")
    name = "bad-row-row1-vllm.persistent_topk-remedies"
    with wb.open(folder / "bad-row.safetensors") as capture:
        records = wb.advise(capture[1]).to_pandas()
    assert [line["what"] for line in taken(files, name)] == records["what"].tolist()
    assert [line["safe"] for line in taken(files, name)] == records["safe"].tolist()
    assert saved_names(test) == [name]


def test_what_would_tell_more_is_named_by_the_apps_own_control(page: Callable[..., AppTest]) -> None:
    test = page(capture="samples/smollm2-lm-head.safetensors", row="3")
    said = texts(test)
    assert "To tell more, choose the op, as vllm.persistent_topk, in Op above." in said
    assert "To tell more, choose the device, as h200, in Device above." in said
    assert "--op" not in said
    labels = {box.label for box in test.selectbox}
    assert {"Op", "Device"} <= labels
