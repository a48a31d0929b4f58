"""The overview as a person meets it: an audit's output opened, its worst rows, and the way to each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.audit.making import StopError, Stopped, audited
from tests.ui.conftest import make_capture, texts
from workbench.ui.audits import _audits
from workbench.ui.library import list_audits, list_captures
from workbench.ui.loading import _library
from workbench.ui.overview_view import Overview, from_params, to_params

ROOT = Path(__file__).parents[2]
Open = Callable[..., AppTest]


def _script() -> None:
    import streamlit as st

    from workbench.ui.overview import overview_page
    from workbench.ui.pages import navigation

    st.navigation(navigation())
    overview_page()


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of captures, one of them broken, and its audit beside it."""
    base = tmp_path_factory.mktemp("overview")
    folder = base / "dumps"
    (folder / "deep").mkdir(parents=True)
    make_capture(folder / "bad-row.safetensors")
    make_capture(folder / "deep" / "more.safetensors", seed=7)
    (folder / "broken.safetensors").write_bytes(b"these are no tensors")
    audited(folder, base / "out")
    return base


@pytest.fixture
def page(where: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open the page with arguments, by default the audit and its folder, and parameters."""

    def open_page(*arguments: Path, **params: str) -> AppTest:
        given = arguments or (where / "out", where / "dumps")
        monkeypatch.setattr(sys, "argv", ["app.py", *map(str, given)])
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_page


def link(test: AppTest) -> tuple[str, dict[str, str]]:
    (found,) = test.get("page_link")
    pairs = (part.split("=", 1) for part in found.proto.query_string.split("&"))
    said = {name: text.replace("%3D", "=").replace("%2F", "/") for name, text in pairs}
    return found.proto.label.replace("\\", ""), said


def params(test: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


def test_it_says_what_was_found_and_leads_to_the_worst_row(page: Open) -> None:
    test = page()
    assert not test.exception
    said = texts(test)
    assert "2 of 6 rows lose winners or can: 2 at risk on the path that they reach." in said
    assert "1 file of 3 could not be audited: see the end of this page." in said
    assert "out: 6 rows, 2 calls and 3 files" in said
    assert "Paths for comparison make no row bad" in said
    assert "No op of a serving engine takes tilelang.topk_selector." in said
    table = test.dataframe[0].value
    assert table["file"].tolist() == ["bad-row.safetensors", "deep/more.safetensors"]
    assert table["row"].tolist() == [1, 1]
    assert [cell[0] for cell in table["finding"]] == ["at risk", "at risk"]
    assert "Row 1 of bad-row.safetensors: at risk" in said
    label, target = link(test)
    assert label == "Inspect row 1 of dumps/bad-row.safetensors"
    assert (target["capture"], target["row"], target["k"]) == ("dumps/bad-row.safetensors", "1", "512")
    assert (target["op"], target["release"], target["path"]) == (
        "vllm.persistent_topk",
        "vllm==0.26.0",
        "vllm.histogram_256",
    )
    assert params(test) == {"audit": "out"}
    files = next(one.value for one in test.dataframe if "why" in one.value.columns)
    assert files["file"].tolist() == ["broken.safetensors"]
    assert len(test.get("plotly_chart")) == 1  # of paths: these rows say neither layer nor step


def test_a_link_restores_the_row(page: Open) -> None:
    test = page(audit="out", file="deep/more.safetensors", row="1")
    assert "Row 1 of deep/more.safetensors: at risk" in texts(test)
    assert link(test)[1]["capture"] == "dumps/deep/more.safetensors"
    assert params(test) == {"audit": "out", "file": "deep/more.safetensors", "row": "1"}
    test = page(audit="out", file="no.safetensors", row="7", zzz="1")
    said = texts(test)
    assert "The link names row 7 of no.safetensors, which is not among the 2 worst rows here." in said
    assert "a parameter that the workbench does not know: 'zzz'" in said
    test = page(audit="elsewhere", row="x")
    assert "The link's audit elsewhere is not below the folders given at start." in texts(test)
    assert "The link's row is left out" in texts(test)


def test_a_row_whose_file_is_not_on_offer_says_how_to_reach_it(page: Open, where: Path, tmp_path: Path) -> None:
    test = page(where / "out")
    assert not test.get("page_link")
    assert "bad-row.safetensors is not on offer here." in texts(test)
    assert f"workbench app OUT {where / 'dumps'}" in texts(test)
    copy = tmp_path / "copy"
    copy.mkdir()
    make_capture(copy / "bad-row.safetensors")  # the same scores under the same name
    assert link(page(where / "out", copy))[1]["capture"] == "copy/bad-row.safetensors"
    (copy / "bad-row.safetensors").unlink()
    make_capture(copy / "bad-row.safetensors", seed=9)  # others
    _library.clear()  # it looks again after some seconds
    assert not page(where / "out", copy).get("page_link")


def test_an_unfinished_audit_is_told(page: Open, tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    make_capture(folder / "bad-row.safetensors")
    with pytest.raises(StopError):
        audited(folder, tmp_path / "out", unit_bytes=40_000, executor=Stopped(1))
    test = page(tmp_path / "out", folder)
    assert not test.exception
    assert "The audit is not finished: 2 of 3 units of work are open" in texts(test)
    audited(folder, tmp_path / "out", unit_bytes=40_000)
    _audits.clear()  # it looks again after some seconds
    assert "1 of 3 rows loses winners or can: 1 at risk" in texts(page(tmp_path / "out", folder))


def test_a_damaged_audit_is_a_message(page: Open, tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    make_capture(folder / "bad-row.safetensors")
    out = tmp_path / "out"
    audited(folder, out)
    part = next((out / "records").iterdir())
    part.write_bytes(part.read_bytes()[:-40])
    test = page(out)
    assert not test.exception
    assert "out/records/part-000000.parquet: cannot be read as Parquet" in texts(test)
    (out / "audit.json").write_text(json.dumps({"format": "<script>"}))
    assert "this is no audit: its format is '<script>'" in texts(page(out))


def test_the_app_opens_here_where_audits_alone_are_given(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*arguments: Path, **given: str) -> str:
        monkeypatch.setattr(sys, "argv", ["app.py", *map(str, arguments)])
        test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        for name, value in given.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return texts(test)

    assert "What an audit found" in opened(where / "out")
    assert "What an audit found" not in opened(where / "out", where / "dumps")
    assert "What an audit found" not in opened(where / "out", capture="samples/smollm2-lm-head.safetensors")
    assert "What an audit found" not in opened()


def test_audits_are_listed_apart_from_captures(where: Path) -> None:
    assert [entry.key for entry in list_audits([str(where)])] == [f"{where.name}/out"]
    assert [entry.key for entry in list_audits([str(where / "out")])] == ["out"]
    assert list_audits([str(where / "dumps"), str(where / "none")]) == ()
    listed = list_captures([str(where / "out")])
    assert all(entry.key.startswith("samples/") for entry in listed.entries)
    assert (list(listed.notes), listed.given) == ([], False)
    stamp = list_audits([str(where)])[0].stamp
    (where / "out" / "records" / "x.tmp").touch()
    (where / "out" / "records" / "x.tmp").unlink()
    assert list_audits([str(where)])[0].stamp != stamp


def test_the_value_survives_the_url() -> None:
    value = Overview(audit="out", file="a/b.safetensors", row=3)
    assert from_params(to_params(value)) == (value, [])
    assert to_params(Overview()) == {}
