"""What travels to a browser: bins, marks and lines of tables, never the scores of a row, however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.bench import bench_app
from tests.bench.bench_app import EVERY, KNOWN, LIMIT_BYTES, LIMIT_S, MILLION, many, tall, wide
from tests.ui.pages import ROW_VIEWS, Sent, driven, measured, settled

MOST_VALUES = 4096  # of one list in a picture, or lines of a table


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr("sys.argv", ["app.py"])
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))
    monkeypatch.setenv("TOPK_WORKBENCH_SCANS", str(tmp_path / "scans"))
    bench_app.forget()
    yield
    st.cache_resource.clear()


def longest(value: Any) -> int:
    """Of the lists in a picture: numbers that are packed count as many as they are."""
    if isinstance(value, dict):
        if isinstance(value.get("bdata"), str):
            size = len(value["bdata"]) * 3 // 4 // int(value["dtype"][-1])
            return int(str(value.get("shape", size)).split(",")[0])
        return max(map(longest, value.values()), default=0)
    if isinstance(value, list):
        return max(len(value), max(map(longest, value), default=0))
    return 0


def holds_few(test: AppTest, sent: Sent) -> None:
    """Whether a view is of the size that a browser is to be sent."""
    assert sent.bytes < LIMIT_BYTES, sent.sizes
    for chart in test.get("plotly_chart"):
        assert longest(json.loads(chart.proto.spec)) <= MOST_VALUES
    for table in (*test.dataframe, *test.table):
        assert len(table.value) <= MOST_VALUES


@pytest.mark.parametrize("view", ROW_VIEWS)
def test_a_view_of_a_row_is_as_small_for_a_long_row_as_for_a_short_one(view: str, tmp_path: Path) -> None:
    sizes = []
    for width in (16_384, 131_072):
        path = wide(tmp_path / f"{width}.safetensors", width, rows=2, k=512, **KNOWN)
        for _ in ("made", "kept"):  # of calls that are made meanwhile more or fewer pictures are sent
            test = driven(view.split(",")[0], [path], row=1, **ROW_VIEWS[view])
            with measured() as sent:
                settled(test.run())
            holds_few(test, sent)
        sizes.append(sent.bytes)
    assert sizes[1] < 1.5 * sizes[0]


def test_the_list_of_many_rows_is_sent_by_pages(tmp_path: Path) -> None:
    path = tall(tmp_path / "tall.safetensors", rows=2 * EVERY, width=1024, k=64)
    test = driven("inspect", [path])
    with measured() as opened:
        test.run()
    holds_few(test, opened)
    assert len(test.sidebar.dataframe[0].value) == 50
    all_rows = bench_app.press(test, "Inspect all")
    holds_few(test, all_rows)
    assert {EVERY - 1, 2 * EVERY - 1} <= set(test.sidebar.dataframe[0].value["row"][:2])


@pytest.mark.slow
def test_turning_to_a_row_of_a_million_scores_takes_less_than_half_a_second(tmp_path: Path) -> None:
    path = wide(tmp_path / "wide.safetensors", rows=6, **KNOWN)
    assert path.stat().st_size > 6 * 4 * MILLION
    for view, found in bench_app.row_switch(path).items():
        assert found["seconds"] < LIMIT_S, view
        assert found["bytes"] < LIMIT_BYTES, view


@pytest.mark.slow
def test_ten_thousand_rows_are_listed_and_stepped_through(tmp_path: Path) -> None:
    found = bench_app.list_of_rows(tall(tmp_path / "tall.safetensors"))
    assert all(one["bytes"] < LIMIT_BYTES for one in found.values()), found
    for name in ("the next bad row, every row inspected", "the second page of the list"):
        assert found[name]["seconds"] < LIMIT_S


@pytest.mark.slow
def test_a_folder_of_a_thousand_files_is_opened_and_scanned(tmp_path: Path) -> None:
    found = bench_app.folder_of_files(many(tmp_path / "files"))
    runs = {name: one for name, one in found.items() if isinstance(one, dict)}
    assert all(one["bytes"] < LIMIT_BYTES for one in runs.values()), runs
    assert runs["inspect, again"]["seconds"] < LIMIT_S
