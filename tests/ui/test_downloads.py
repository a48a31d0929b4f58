"""What can be taken away of a view: what the files hold, and what they are called."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.audit.making import audited
from tests.ui.conftest import K
from workbench.ui.downloads import FORMATS, file_name

BAD = {"capture": "dumps/bad-row.safetensors", "row": "1"}


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How the pictures of a run are set up."""
    given: list[dict[str, Any]] = []
    draw = st.plotly_chart

    def chart(*args: Any, **kwargs: Any) -> Any:
        given.append(kwargs["config"])
        return draw(*args, **kwargs)

    monkeypatch.setattr(st, "plotly_chart", chart)
    return given


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_bins_are_taken_whole(app: Callable[..., AppTest], files: dict[str, Any]) -> None:
    app(**BAD, view="bins", path="vllm.filtered", around="8")
    stem = "bad-row-row1-vllm.filtered-bins"
    assert {f"{stem}.csv", f"{stem}.parquet", "bad-row-row1.html"} <= set(files)
    lines = rows_of(files[f"{stem}.csv"]())
    assert {line["bin"]: line["population"] for line in lines}["188"] == "9000"
    held = pq.read_table(io.BytesIO(files[f"{stem}.parquet"]()))
    assert str(held.schema.field("population").type) == "int64"
    assert sum(held["population"].to_pylist()) == 9000


def test_the_census_keeps_its_numbers(app: Callable[..., AppTest], files: dict[str, Any], folder: Path) -> None:
    app(**BAD, view="capacity")
    held = pq.read_table(io.BytesIO(files["bad-row-row1-capacity.parquet"]())).to_pylist()
    census = {risk.path: risk for risk in wb.inspect(wb.open(folder / "bad-row.safetensors")[1]).census}
    assert {line["path"] for line in held} == set(census)
    for line in held:
        risk = census[line["path"]]
        assert (line["population"], line["capacity"]) == (risk.population, risk.capacity)
        assert risk.refused or risk.note or line["p_clean"] == risk.p_clean


def test_every_winner_is_taken_with_all_digits(
    app: Callable[..., AppTest], files: dict[str, Any], folder: Path
) -> None:
    app(**BAD, view="diff", path="vllm.histogram_256", engine="model")
    (name,) = (name for name in files if name.endswith(".parquet"))
    assert name == f"bad-row-row1-vllm.histogram_256-stock-k{K}-seed0.parquet"
    held = pq.read_table(io.BytesIO(files[name]())).to_pylist()
    row = wb.open(folder / "bad-row.safetensors")[1]
    assert len(held) == 2 * K
    assert all(line["score"] == float(row.valid[line["index"]]) for line in held)
    assert {line["seed"] for line in held} == {0}


def test_the_page_of_the_row_names_its_file_and_circumstances(
    app: Callable[..., AppTest], files: dict[str, Any]
) -> None:
    app(**BAD, release="vllm==0.23.0")
    page = files["bad-row-row1.html"]().decode()
    assert "<h1>bad-row.safetensors, row 1</h1>" in page
    assert "workbench inspect bad-row.safetensors --row 1 --release vllm==0.23.0" in page
    assert "dumps/" not in page.partition("</head>")[2]


def test_pictures_have_a_camera_alone_and_a_name(app: Callable[..., AppTest], configs: list[dict[str, Any]]) -> None:
    test = app(**BAD, view="bins", path="vllm.filtered")
    assert configs[-1]["modeBarButtons"] == [["toImage"]]
    wanted = {"format": "png", "filename": "bad-row-row1-vllm.filtered-bins", "scale": 2}
    assert configs[-1]["toImageButtonOptions"] == wanted
    (pick,) = (one for one in test.button_group if one.label == "Format of pictures")
    pick.set_value("svg").run()
    assert not test.exception
    assert configs[-1]["toImageButtonOptions"]["format"] == "svg"
    assert json.dumps(configs[-1])


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("dumps/a b.safetensors", "row3", "", None, "bins"), "a-b-row3-bins"),
        (("../../etc/passwd",), "passwd"),
        (("x.safetensors.index.json", 7), "x-7"),
        (('<b>"\x00\n\u202e',), "b"),
        (("...",), "topk-workbench"),
        (("é" * 200,), "é" * 60),
        ((), "topk-workbench"),
    ],
)
def test_names_of_files_are_plain(parts: tuple[object, ...], name: str) -> None:
    assert file_name(*parts) == name
    assert set(FORMATS) == {"png", "svg"}


def test_a_table_is_made_when_it_is_taken(app: Callable[..., AppTest], files: dict[str, Any]) -> None:
    app(**BAD, view="bins")
    assert all(isinstance(made, partial) for made in files.values())


def _overview() -> None:
    import streamlit as st

    from workbench.ui.overview import overview_page
    from workbench.ui.pages import navigation

    st.navigation(navigation())
    overview_page()


def test_an_audits_worst_rows_are_taken_as_the_records_have_them(
    files: dict[str, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited(folder / "bad-row.safetensors", tmp_path / "out")
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path / "out"), str(folder)])
    assert not AppTest.from_function(_overview, default_timeout=60).run().exception
    records = pq.read_table(tmp_path / "out" / "records")
    worst = pq.read_table(io.BytesIO(files["out-audit-worst-rows.parquet"]()))
    (line,) = worst.to_pylist()
    assert line in records.to_pylist()
    paths = pq.read_table(io.BytesIO(files["out-audit-paths.parquet"]())).to_pylist()
    assert sum(path["at_risk"] + path["certain"] for path in paths) == sum(
        risk in ("at risk", "certain") for risk in records["risk"].to_pylist()
    )
