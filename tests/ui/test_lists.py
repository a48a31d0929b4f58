"""The row list of captures with many rows: progress, pages, and the order by damage over the whole capture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import K, texts
from tests.ui.test_app import param
from workbench.capture import Call, Row, write_capture
from workbench.ui import inspector, loading, rowpage, rows
from workbench.ui.loading import Summary
from workbench.ui.rowpage import Shown

Open = Callable[..., AppTest]
MANY = "dumps/many.safetensors"
WORST = 117


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    """What an earlier test inspected is forgotten."""
    st.cache_resource.clear()


@pytest.fixture
def many(folder: Path) -> Path:
    """120 rows, of which one on the last page has 9000 scores in a single coarse bin."""
    random = torch.Generator().manual_seed(0)
    known = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call = Call(k=K, rows=120, width=9000, stride=9000, max_seq_len=9000, **known)  # type: ignore[arg-type]
    scores = [torch.randn(9000, generator=random) for _ in range(120)]
    scores[WORST] = torch.rand(9000, generator=random) * 0.245 + 1.0
    path = folder / "many.safetensors"
    write_capture(path, [Row(row, 700 if number != WORST else 9000, call=call) for number, row in enumerate(scores)])
    return path


def listed(test: AppTest) -> list[int]:
    return list(test.sidebar.dataframe[0].value["row"])


def button(test: AppTest, label: str) -> object:
    return next(one for one in test.sidebar.button if one.label.startswith(label))


def test_the_worst_row_of_the_whole_capture_is_found(app: Open, many: Path) -> None:
    test = app(capture=MANY)
    assert WORST not in listed(test)
    assert "Rows 0 to 49 of 120: only these are inspected." in texts(test)
    button(test, "Inspect all 120 rows").click().run(timeout=120)  # type: ignore[attr-defined]
    assert not test.exception
    assert listed(test)[0] == WORST
    assert "All 120 rows, the greatest damage first." in texts(test)
    assert not [one for one in test.sidebar.button if one.label.startswith(("Inspect all", "Stop"))]
    test.sidebar.number_input[0].set_value(3).run()
    assert not test.exception
    assert len(listed(test)) == 20
    assert WORST not in listed(test)
    again = app(capture=MANY)  # what was inspected is known to the next session, which opens on the worst row
    assert param(again, "row") == str(WORST)


def test_a_page_out_of_range_is_said(app: Open, many: Path) -> None:
    test = app(capture=MANY)
    test.sidebar.number_input[0].set_value(2).run()
    for wanted in (4, 0, -1, 10**9):
        test.sidebar.number_input[0].set_value(wanted).run()
        assert f"There is no page {wanted:,}: pages go from 1 to 3." in texts(test)
        assert test.sidebar.number_input[0].value == 2
        assert sorted(listed(test)) == list(range(50, 100))
    test.sidebar.number_input[0].set_value(3).run()
    assert "There is no page" not in texts(test)
    assert sorted(listed(test)) == list(range(100, 120))


def test_what_was_inspected_is_not_inspected_again(app: Open, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    inspect_row = loading.inspect_row
    monkeypatch.setattr(loading, "inspect_row", lambda row, **more: seen.append(row.index) or inspect_row(row, **more))
    test = app(capture=MANY)
    assert sorted(seen) == list(range(50))
    button(test, "Inspect all").click().run(timeout=120)  # type: ignore[attr-defined]
    assert sorted(seen) == list(range(120))


def test_the_first_row_is_shown_before_the_list_is_filled(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    show, progress, summary = inspector._show, rows.show_progress, rows.summary

    def spy(name: str, do: Callable[..., object], at: int) -> Callable[..., object]:
        return lambda *values: happened.append(f"{name} {values[at]}") or do(*values)

    def spy_on_show(shown: Shown) -> None:
        happened.append(f"show {shown.number}")
        show(shown)

    monkeypatch.setattr(inspector, "_show", spy_on_show)
    monkeypatch.setattr(rowpage, "show_progress", spy("progress", progress, 1))
    monkeypatch.setattr(rows, "summary", spy("summary", summary, 2))
    test = app()
    assert not test.exception
    # the row shown turns once, from the first to the worst
    assert happened == ["progress 0", "show 0", "summary 0", "summary 1", "summary 2", "show 1"]
    assert param(test, "row") == "1"


def test_progress_counts_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bar:
        def __init__(self) -> None:
            self.texts: list[str] = []

        def progress(self, _: float, text: str) -> None:
            self.texts.append(text)

        def empty(self) -> None:
            self.texts.append("")

    known = {1: Summary(1, 9)}
    monkeypatch.setattr(rows, "lines_so_far", lambda *_: known)
    monkeypatch.setattr(rows, "summary", lambda _, __, number: known.setdefault(number, Summary(number, 9)))
    monkeypatch.setattr(rows, "forget", lambda *_: None)
    bar = Bar()
    monkeypatch.setattr(rows, "OFTEN_S", 0.0)
    rows.fill(None, rows.View(), range(3), bar)  # type: ignore[arg-type]
    assert bar.texts == ["Inspecting rows: 1 of 3", "Inspecting rows: 2 of 3", ""]
