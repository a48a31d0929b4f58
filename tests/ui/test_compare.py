"""The page that compares paths as a person meets it: what it says, shows and links to, and bad links told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.fakes import Releases, clean, loses
from tests.ui.conftest import K, saved_names, taken, texts
from tests.ui.test_app import BAD, param
from workbench.runs.case import Case
from workbench.runs.compare import by_releases, by_variants, cells_to_run
from workbench.runs.matrix import Cell
from workbench.runs.matrix_words import why_words
from workbench.ui import compare, compare_made, engines
from workbench.ui.compare_view import Compare, from_params, to_params

Open = Callable[..., AppTest]


def _script() -> None:
    import streamlit as st

    from workbench.ui.compare import compare_page
    from workbench.ui.pages import navigation

    st.navigation(navigation())
    compare_page()


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Open:
    """Open the page."""
    st.cache_resource.clear()
    monkeypatch.setenv("TOPK_WORKBENCH_VENDOR", str(tmp_path / "store"))

    def open_page(**params: str) -> AppTest:
        monkeypatch.setattr("sys.argv", ["app.py", str(folder)])
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_page


def params(test: AppTest) -> dict[str, str]:
    return {name: param(test, name) for name in test.query_params}


def table(test: AppTest) -> object:
    return test.main.dataframe[-1].value


def columns(test: AppTest) -> list[str]:
    return list(test.main.dataframe[-1].proto.column_order)


def picture(test: AppTest) -> dict[str, int]:
    """How many marks of each state the picture shows."""
    (chart,) = test.get("plotly_chart")
    traces = json.loads(chart.proto.spec)["data"]
    return {one["name"]: len(one["hovertext"]) for one in traces if one["type"] == "scatter" and "hovertext" in one}


def link(test: AppTest) -> tuple[str, dict[str, str]]:
    (found,) = test.get("page_link")
    pairs = (part.split("=", 1) for part in found.proto.query_string.split("&"))
    return found.proto.label.replace("\\", ""), {name: unquote_plus(text) for name, text in pairs}


def button(test: AppTest, label: str) -> object:
    return next(one for one in test.main.button if one.label.startswith(label))


def test_a_row_on_every_path_and_variant(page: Open, folder: Path) -> None:
    test = page(capture=BAD)
    assert not test.exception
    assert param(test, "row") == "1"
    report = wb.run(wb.open(folder / "bad-row.safetensors")[1], paths="*", variants="*").to_pandas()
    shown = table(test)
    assert len(shown) == len(report)  # type: ignore[arg-type]
    both = report.merge(shown, on=["path", "variant"], suffixes=("", "_shown"))
    assert len(both) == len(report)
    losing = both["risk"].isin(["at risk", "certain"])
    assert (both["state"].isin(["loses", "can lose", "fault"]) == losing).all()
    judged = both[(both["variant"] == "stock") & ~both["state"].isin(["refused", "unknown"])]
    judged = judged[~judged["path"].str.startswith(("torch", "tilelang"))]
    said = f"As stock, {losing[judged.index].sum()} of the {len(judged)} modelled paths that take this row"
    assert f"The op sends the row to vllm.histogram_256. {said}" in texts(test)
    states = shown["state"].value_counts().to_dict()  # type: ignore[index]
    assert picture(test) == states
    assert "vllm.histogram_256 (stock): can lose" in texts(test)
    metrics = {one.label: one.value for one in test.metric}
    assert (metrics["Population"], metrics["Capacity"], metrics["Risk"]) == ("9,000", "4,096", "at risk")
    assert "Calls that lost" not in metrics  # there are none yet: the reasons have the room
    assert "missing" not in columns(test)
    assert columns(test)[-1] == "why"


@pytest.mark.parametrize("axis", ["variants", "engines", "releases"])
def test_every_reason_is_read_without_a_click(page: Open, folder: Path, axis: str) -> None:
    """The table has 795 pixels in a window of 1280, of which the boxes take 34; what it cuts stands beneath, once."""
    test = page(capture=BAD, axis=axis)
    frame = test.main.dataframe[-1].proto
    width = {name: of["width"] for name, of in json.loads(frame.columns).items() if "width" in of}
    assert 34 + sum(width[name] for name in frame.column_order) <= 795
    said = texts(test)
    assert "Reasons in full:" in said
    case = Case(wb.open(folder / "bad-row.safetensors")[1])
    found = by_releases(case, {}) if axis == "releases" else by_variants(case, {})
    whole = {
        why_words(cell) or "; ".join(cell.notes)
        for (_, column), cell in found.cells.items()
        if axis != "engines" or column == "stock"
    }
    fits = {why for why in table(test)["why"] if 5.3 * len(why) + 17 <= width["why"]}  # type: ignore[index]
    for why in whole:
        assert why in fits or f": {why}" in said
        assert said.count(f": {why}\n- ") < 2


def test_what_is_not_judged_says_why(page: Open, folder: Path) -> None:
    scores = torch.linspace(0, 1, 9000)
    scores[5] = torch.nan
    wb.write(folder / "nan.safetensors", [wb.Row(scores, 9000, call=wb.Call(k=K))])
    said = texts(page(capture="dumps/nan.safetensors", on="vllm.histogram_256", at="detect_rescan"))
    why = "the row holds 1 NaN; what vllm.histogram_256 detect_rescan does with them is not established."
    assert f"vllm.histogram_256 (detect_rescan) is not judged: {why}" in said
    assert "\nThe row holds 1 NaN; what vllm.histogram_256" not in said  # no second time beneath


def test_models_are_called_when_asked_and_kept(page: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = page(capture=BAD, system="vllm", losing="True")
    button(test, "Call").click().run()  # type: ignore[attr-defined]
    assert not test.exception
    row = wb.open(folder / "bad-row.safetensors")[1]
    for name in ("stock", "detect_rescan"):
        report = wb.run(row, "vllm.histogram_256", variants=name, repeats=10).to_pandas()
        line = table(test).set_index(["path", "variant"]).loc["vllm.histogram_256", name]  # type: ignore[attr-defined]
        assert (line["calls"], line["lost_calls"]) == (10, (report["verdict"] == "lossy").sum())
        assert line["missing_mean"] == pytest.approx(report["missing"].mean())
    assert ", 10 calls each by " in texts(test)
    assert {"verdict", "missing"} < set(columns(test))
    assert {one.label: one.value for one in test.metric}["Calls that lost"].endswith(" of 10")
    assert not [one for one in test.main.button if one.label.startswith("Call")]

    def never(*_: object) -> None:
        raise AssertionError("called twice")

    monkeypatch.setattr(compare_made, "run_cell", never)
    again = page(capture=BAD, system="vllm", losing="True", axis="engines")
    assert not again.exception
    assert not [one for one in again.main.button if one.label.startswith("Call")]
    assert ", 10 calls each by " in texts(again)


def test_models_are_called_a_few_at_a_time_and_none_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(wb.open(folder / "bad-row.safetensors")[1])
    cells = cells_to_run(by_variants(case, {}), {})[:3]
    held, seen, run_cell = compare_made.Made(), [], compare_made.run_cell

    def spy(case: Case, cell: Cell, calls: int) -> Cell:
        seen.append((cell.path, cell.variant))
        return run_cell(case, cell, calls)

    monkeypatch.setattr(compare_made, "run_cell", spy)
    compare_made.call_models(held, case, cells, 0)
    assert seen == [(cells[0].path, cells[0].variant)]
    compare_made.call_models(held, case, cells, 60)
    assert seen == [(cell.path, cell.variant) for cell in cells]
    assert list(held.ran) == seen


def test_a_stop_keeps_what_was_called(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "_SLICE", 0)
    test = page(capture=BAD, system="vllm")
    asked = int(button(test, "Call").label.split()[1])  # type: ignore[attr-defined]
    real, done = compare.call_models, []

    def some(held: compare_made.Made, case: Case, cells: list[Cell], seconds: float) -> None:
        real(held, case, cells, seconds)
        done.append(len(cells))
        if len(done) == 3:  # as the button does that stops it
            st.session_state.pop("compare-asked")

    monkeypatch.setattr(compare, "call_models", some)
    button(test, "Call").click().run()  # type: ignore[attr-defined]
    assert not test.exception
    assert done == [asked, asked - 1, asked - 2]
    assert button(test, "Call").label == f"Call {asked - 3} models, 10 times each"  # type: ignore[attr-defined]
    assert sum(calls == 10 for calls in table(test)["calls"]) == 3  # type: ignore[index]


def test_releases_of_a_row_of_no_known_device_say_what_to_choose(page: Open, folder: Path) -> None:
    with wb.open(folder / "bad-row.safetensors") as capture:
        wb.write(folder / "no-device.safetensors", [row.with_call(device=None) for row in capture])
    said = texts(page(capture="dumps/no-device.safetensors", axis="releases", row="1"))
    assert "other ops was judged: device not known. Choose a device above." in said


def test_releases_of_every_op(page: Open, folder: Path) -> None:
    test = page(capture=BAD, axis="releases")
    assert not test.exception
    said = texts(test)
    assert (
        "Through vllm.persistent_topk the row can lose winners in every release from vllm==0.20.2 to 0.32.0 and not in "
        "0.33.0, by the analysis." in said
    )
    assert "vllm.persistent_topk of vllm==0.26.0: can lose" in said
    matrix = wb.matrix(wb.open(folder / "bad-row.safetensors")[1], repeats=1)
    shown = table(test)
    own = shown[shown["op"] == "vllm.persistent_topk"]  # type: ignore[index]
    assert own["release"].tolist() == list(matrix.releases)
    assert own["path"].tolist() == [cell.path for cell in matrix.cells[0]]
    assert own["state"].tolist() == [cell.state if cell.state != "loses" else "can lose" for cell in matrix.cells[0]]
    label, target = link(test)
    assert label == "Inspect row 1 on vllm.histogram_256, as vllm.persistent_topk of vllm==0.26.0 sends it"
    assert (target["capture"], target["row"], target["op"], target["release"], target["path"]) == (
        BAD,
        "1",
        "vllm.persistent_topk",
        "vllm==0.26.0",
        "vllm.histogram_256",
    )


def test_engines_that_cannot_answer_are_told_and_not_shown(page: Open) -> None:
    test = page(capture=BAD, axis="engines")
    assert not test.exception
    said = texts(test)
    assert "What production returned lost no winner in 1 call." in said
    assert "No column for cuda: " in said
    assert "No column for vendor: vllm==0.26.0 is not installed" in said
    assert "workbench vendor add vllm==0.26.0; no CUDA device is visible to torch" in said  # told apart from commands
    shown = table(test)
    assert set(shown["engine"]) == {"model", "recorded"}  # type: ignore[index]
    recorded = shown[shown["engine"] == "recorded"]  # type: ignore[index]
    assert recorded["path"].tolist() == ["vllm.histogram_256"]
    assert recorded["verdict"].tolist() == ["exact"]


def test_a_released_op_is_called_when_asked(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Releases({"0.26.0": loses(7, every=2), "0.33.0": clean})
    monkeypatch.setattr(engines, "open_released", fake)
    monkeypatch.setattr(engines, "AT_ONCE_S", 30.0)
    monkeypatch.setattr(engines, "_why_not_released", lambda _: [])
    test = page(capture=BAD, axis="engines", on="vllm.histogram_256", at="vendor")
    assert not test.exception
    assert "The vendor engine was not called yet." in texts(test)
    button(test, "Call vllm.persistent_topk of vllm==0.26.0").click().run()  # type: ignore[attr-defined]
    assert not test.exception
    assert "vllm.histogram_256 (stock) · vendor: loses" in texts(test)
    assert "lost winners in 5 of 10 calls (values vary): 0 to 7 of 512 missing." in texts(test)
    vendor = table(test)[table(test)["engine"] == "vendor"]  # type: ignore[index]
    assert vendor["lost_calls"].tolist() == [5]


def test_only_those_that_lose_and_only_a_system(page: Open) -> None:
    test = page(capture=BAD)
    test.main.toggle[0].set_value(True).run()
    assert not test.exception
    assert param(test, "losing") == "True"
    shown = table(test)
    losing = shown.groupby("path")["state"].agg(lambda states: states.isin(["can lose", "fault", "loses"]).any())  # type: ignore[attr-defined]
    assert losing.all()
    assert "detect_rescan" in shown["variant"].tolist()  # type: ignore[index]
    test.selectbox(key="compare-system").set_value("flashinfer").run()
    assert not test.exception
    assert "The row loses nothing on any of them" in texts(test)
    test.selectbox(key="compare-system").set_value("baselines").run()
    test.main.toggle[0].set_value(False).run()
    assert sorted(set(table(test)["path"])) == ["tilelang.topk_selector", "torch.topk"]  # type: ignore[index]
    assert params(test)["system"] == "baselines"
    assert "losing" not in params(test)
    assert not page(capture=BAD, axis="releases", system="baselines").exception  # type: ignore[attr-defined]


def test_a_link_restores_the_cell_and_turning_to_another_row_keeps_the_picture(page: Open) -> None:
    test = page(capture=BAD, row="1", axis="variants", on="vllm.filtered", at="detect_rescan", system="vllm")
    assert "vllm.filtered (detect_rescan): clean" in texts(test) or "(detect_rescan): " in texts(test)
    label, target = link(test)
    assert (target["path"], target["variant"]) == ("vllm.filtered", "detect_rescan")
    assert label == "Inspect row 1 on vllm.filtered"
    first = params(test)
    assert params(page(**first)) == first  # type: ignore[attr-defined]
    test.query_params["row"] = "2"
    test.run()
    assert "· row 2" in texts(test)
    assert (param(test, "on"), param(test, "at"), param(test, "row")) == ("vllm.filtered", "detect_rescan", "2")


def test_a_refused_cell_says_every_reason(page: Open) -> None:
    test = page(capture=BAD, on="sglang.fast_topk", at="stock")
    assert not test.exception
    said = texts(test)
    assert "sglang.fast_topk (stock): refused" in said
    assert "sglang.fast_topk does not take the row:" in said
    assert "- k is 512, the path takes 2048" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("axis", "sideways", "'sideways' is none of variants, engines and releases"),
        ("system", "<b>", "'<b>' is none of vllm, sglang, flashinfer and baselines"),
        ("losing", "0", "'0' is none of True"),
        ("on", "../etc", "'../etc' is no path and no op"),
        ("at", "a\x00b", "The link's cell, no path in"),
        ("nonsense", "![x](http://example.com/a.png)", "a parameter that the workbench does not know: 'nonsense'"),
        ("row", "-1", "-1 is not between 0"),
        ("k", "2000000000", ""),
    ],
)
def test_a_hostile_link_is_a_message(page: Open, name: str, value: str, said: str) -> None:
    test = page(capture=BAD, **{name: value})
    assert not test.exception
    assert said in "\n".join(one.value for one in test.warning).replace("\\", "")


def test_a_cell_that_is_not_there_is_told(page: Open) -> None:
    test = page(capture=BAD, on="torch.topk", at="deterministic")
    assert "The link's cell, torch.topk in deterministic, is not in this picture." in texts(test)
    assert "torch.topk (stock): clean" in texts(test)
    assert "at" not in params(test)


def test_odd_rows_are_compared(page: Open, folder: Path) -> None:
    call = wb.Call(k=K, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", rows=1)
    full = torch.full((9000,), 1.0)
    odd = {
        "nan": torch.full((9000,), float("nan")),
        "inf": torch.full((9000,), float("-inf")),
        "bf16": torch.randn(9000).to(torch.bfloat16),
        "fp16": torch.randn(9000).to(torch.float16),
        "zeros": torch.zeros(9000),
    }
    rows = [wb.Row(scores, 9000, call=call) for scores in odd.values()]
    rows += [wb.Row(full, length, call=call) for length in (0, 1, K, K + 1, -1, 9001)]
    for number, row in enumerate(rows):
        wb.write(folder / f"odd-{number}.safetensors", [row])
    for number in range(len(rows)):
        for axis in ("variants", "engines", "releases"):
            test = page(capture=f"dumps/odd-{number}.safetensors", axis=axis)  # type: ignore[attr-defined]
            assert not test.exception, (number, axis)
            assert not test.error, (number, axis)
            assert len(table(test)), (number, axis)  # type: ignore[arg-type]


def test_the_value_survives_the_url() -> None:
    value = Compare("releases", "vllm", True, "vllm.persistent_topk", "vllm==0.26.0")
    assert from_params(to_params(value)) == (value, [])
    assert to_params(Compare()) == {}


def test_the_cells_and_the_picture_are_taken_away(page: Open, files: dict[str, Any], folder: Path) -> None:
    test = page(capture="dumps/bad-row.safetensors", row="1", axis="variants")
    assert not test.exception
    held = {(line["path"], line["variant"]): line for line in taken(files, "bad-row-row1-by-variants")}
    census = {one.path: one for one in wb.inspect(wb.open(folder / "bad-row.safetensors")[1]).census}
    assert held["vllm.histogram_256", "stock"]["p_clean"] == census["vllm.histogram_256"].p_clean
    assert saved_names(test) == ["bad-row-row1-by-variants"]
