"""The What-if page as a person meets it: what it says and holds, what its link restores, bad links in a line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.ui.conftest import saved_names, taken, texts
from workbench.ui.whatif_view import Asked, from_params, to_params

Open = Callable[..., AppTest]
BAD = "dumps/bad-row.safetensors"


def _script() -> None:
    import streamlit as st

    from workbench.ui.pages import navigation
    from workbench.ui.whatif import whatif_page

    st.navigation(navigation())
    whatif_page()


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open the page on the row of 9000 scores in one bin."""

    def open_page(**params: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in {"capture": BAD, "row": "1", **params}.items():
            test.query_params[name] = value
        test.run()
        assert not test.exception
        return test

    return open_page


def params(test: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


def table(test: AppTest) -> dict[str, tuple[str, str]]:
    """The numbers before and after, by name."""
    frame = next(one.value for one in test.dataframe if "altered" in one.value.columns)
    return {name: (before, after) for name, before, after in frame.itertuples(index=False)}


def drawn(test: AppTest) -> dict[str, Any]:
    """The figure that the browser gets."""
    (chart,) = test.get("plotly_chart")
    figure: dict[str, Any] = json.loads(chart.proto.spec)
    return figure


def field(test: AppTest, name: str) -> Any:
    return next(one for one in test.text_input if one.key.startswith(f"what-if-{name}:"))


def offer(test: AppTest, start: str) -> Any:
    return next(one for one in test.button if one.label.replace("\\", "").startswith(start))


def row(folder: Path) -> wb.Row:
    return wb.open(folder / "bad-row.safetensors")[1]


def test_a_link_is_answered_with_before_and_after(page: Open, folder: Path) -> None:
    test = page(capacity="6144", path="vllm.histogram_256")
    before, after = (
        wb.what_if(row(folder), "vllm.histogram_256", capacity=capacity).after for capacity in (4096, 6144)
    )
    assert (before.population, after.level, before.level) == (9000, "at risk", "at risk")
    said = texts(test)
    assert "With a buffer of 6144 this row would be at risk on vllm.histogram_256 (stock)" in said
    assert f"and {after.expected_missing:.4g} of 512 winners would be lost on average" in said
    assert "The least buffer that is safe holds 9000." in said
    numbers = table(test)
    assert numbers["capacity"] == ("4,096", "6,144")
    assert numbers["population"] == ("9,000", "9,000")
    assert numbers["mean lost"] == (f"{before.expected_missing:.5g}", f"{after.expected_missing:.5g}")
    assert params(test)["capacity"] == "6144"
    again = page(**params(test))
    assert texts(again) == said
    assert params(again) == params(test)


def test_the_picture_marks_what_is_and_what_is_altered(page: Open) -> None:
    figure = drawn(page(capacity="6144"))
    marked = {one["text"] for one in figure["layout"]["annotations"]}
    assert {"<b>as it is: 4,096</b>", "<b>altered: 6,144</b>", "<b>safe from 9,000</b>"} <= marked
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {4096, 6144, 9000}
    assert len(json.dumps(figure)) < 200_000


def test_every_input_alters_the_row_and_its_link(page: Open) -> None:
    test = page()
    assert "On vllm.histogram_256 (stock) this row is at risk" in texts(test)
    for name, text, param in (
        ("capacity", "9,000", ("capacity", "9000")),
        ("key_bits", "12", ("key_bits", "12")),
        ("length", "8500", ("length", "8500")),
        ("scale", "0.3", ("scale", "0.3")),
        ("shift", "-0.3", ("shift", "-0.3")),
        ("k", "1024", ("new_k", "1024")),
    ):
        field(test, name).set_value(text).run()
        assert not test.exception
        assert params(test)[param[0]] == param[1]
    assert (
        "With a buffer of 9000, a key of 12 bits, k 1024, the first 8500 scores only and scores scaled by 0.3 and then "
        "shifted by −0.3 this row would be" in texts(test)
    )
    assert table(test)["length"] == ("9,000", "8,500")
    offer(test, "As it is").click().run()
    assert not {"capacity", "key_bits", "new_k", "scale", "shift", "length"} & params(test).keys()
    assert field(test, "capacity").value == ""


def test_a_value_as_it_is_alters_nothing_and_a_wrong_one_is_said(page: Open) -> None:
    test = page()
    field(test, "capacity").set_value("4096").run()
    assert "capacity" not in params(test)
    for name, text, said in (
        ("capacity", "0", "capacity: 0 is not between 1 and"),
        ("key_bits", "17", "key bits: 17 is not between 1 and 16"),
        ("scale", "-1", "scale is -1; it must be above 0"),
        ("shift", "inf", "shift is inf; a finite number is needed"),
        ("shift", "<b>", "shift: '<b>' is no number"),
        ("length", "9001", "length is 9001, and the row holds 9000 valid scores"),
    ):
        field(test, name).set_value(text).run()
        assert not test.exception
        assert said in texts(test)


def test_the_least_buffer_is_a_button(page: Open) -> None:
    test = page()
    offer(test, "Least safe buffer: 9,000").click().run()
    assert params(test)["capacity"] == "9000"
    assert "With a buffer of 9000 this row would be safe" in texts(test)


def test_scores_beyond_fp16_are_brought_within(page: Open, folder: Path) -> None:
    scores = torch.linspace(60000, 200000, 9000)
    call = wb.Call(k=512, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", rows=1, max_seq_len=9000)
    wb.write(folder / "big.safetensors", [wb.Row(scores, 9000, call=call)])
    test = page(capture="dumps/big.safetensors", row="0", path="vllm.histogram_256")
    stands_out = next(one.value for one in test.main.markdown if "border-left" in one.value)
    assert "On vllm.histogram_256 (stock) this row is at risk" in stands_out
    assert "fp16" not in stands_out  # it is said below, where there is room
    assert len(re.sub("<[^>]*>", "", stands_out)) <= 320  # three lines of a window of 1280 pixels
    plain = next(one.value.replace("\\", "") for one in test.main.caption if "fp16" in one.value)
    assert "8645 scores round to an infinity in the fp16 key" in plain
    assert "which brings every one within 65504, it would be safe" in plain
    offer(test, "All within 65504: scale 0.25").click().run()
    said = texts(test)
    assert "With scores scaled by 0.25 this row would be safe" in said
    assert "None would round to an infinity in the fp16 key, where 8645 did." in said
    assert table(test)["beyond fp16"] == ("8,645", "0")


def test_a_trap_is_shown_as_a_fault_and_not_as_a_loss(page: Open, folder: Path) -> None:
    scores = torch.linspace(0, 1, 9000)
    scores[5] = torch.nan
    wb.write(folder / "nan.safetensors", [wb.Row(scores, 9000, call=wb.Call(k=512))])
    test = page(capture="dumps/nan.safetensors", row="0", path="sglang.deep_select")
    said = texts(test)
    assert "On sglang.deep_select (stock) this row faults: NaN is checked for: the kernel traps" in said
    assert "lossy for certain" not in said
    assert "▼ fault" in said
    (numbers,) = [one.value for one in test.dataframe if "of the row" in one.value]
    assert dict(numbers.itertuples(index=False))["risk"] == "fault"  # nothing is altered, and told once
    marks = next(one for one in drawn(test)["data"] if one.get("name") == "p_clean")
    assert set(marks["marker"]["symbol"]) == {"triangle-down"}
    assert any("<br>fault: NaN is checked for: the kernel traps" in text for text in marks["hovertext"])
    assert "▼ fault" not in texts(page())


def test_the_buffer_that_holds_stands_out_once(page: Open) -> None:
    """Asked of a buffer, the least one that holds is the answer."""
    test = page(capacity="6144", path="vllm.histogram_256")
    stands_out = next(one.value for one in test.main.markdown if "border-left" in one.value)
    assert "The least buffer that is safe holds 9000." in stands_out
    assert texts(test).count("The least buffer that is safe") == 1


@pytest.mark.parametrize("against", ["key_bits", "k", "length", "scale", "shift"])
def test_the_risk_is_drawn_against_each_parameter(page: Open, folder: Path, against: str) -> None:
    figure = drawn(page(against=against, path="vllm.histogram_256"))
    marks = next(one for one in figure["data"] if one.get("name") == "p_clean")
    expected = wb.what_if(row(folder), "vllm.histogram_256").curve(against)
    assert len(marks["hovertext"]) == len(expected.at)
    assert all(
        f"population {risk.population:,}" in text for text, risk in zip(marks["hovertext"], expected.risks, strict=True)
    )


def test_a_slider_moves_along_the_curve(page: Open) -> None:
    test = page(against="key_bits")
    (slider,) = test.select_slider
    assert slider.value == 8
    slider.set_value(11).run()
    assert params(test)["key_bits"] == "11"
    assert field(test, "key_bits").value == "11"


def test_what_a_path_cannot_take_is_said_and_left_out(page: Open) -> None:
    test = page(path="vllm.per_row", capacity="10", against="capacity")
    said = texts(test)
    assert "The capacity is left as it is: vllm.per_row stock is not decided by one coarse key and one buffer" in said
    assert "There is no curve against the capacity" in said
    assert field(test, "key_bits").disabled
    assert "On vllm.per_row (stock) this row is safe" in said


def test_a_variant_is_chosen_and_carried(page: Open) -> None:
    test = page(path="vllm.histogram_256", variant="detect_rescan")
    assert "On vllm.histogram_256 (detect_rescan) this row is safe" in texts(test)
    box = next(one for one in test.selectbox if one.label == "Variant")
    box.set_value("stock").run()
    assert "On vllm.histogram_256 (stock) this row is at risk" in texts(test)
    assert params(test)["variant"] == "stock"


def test_hostile_links_are_told_and_left_out(page: Open) -> None:
    test = page(
        capacity="-1",
        key_bits="99",
        new_k="1e3",
        length="0x10",
        scale="nan",
        shift="1e999",
        against="<script>",
        evil="1",
    )
    said = texts(test)
    for name in ("capacity", "key_bits", "new_k", "length", "scale", "shift", "against"):
        assert f"The link's {name} is left out" in said
    assert "The link has a parameter that the workbench does not know: 'evil'" in said
    assert "On vllm.histogram_256 (stock) this row is at risk" in said
    far = page(length="2147483647")
    assert "length is 2147483647, and the row holds 9000 valid scores" in texts(far)
    assert not page(new_k="2147483647").exception
    assert not page(row="0", shift="-1e38", scale="1e38").exception


def test_params_are_read_and_written_alike() -> None:
    asked = Asked(1, 2, 3, 4, 5, 0.1, -2.5e-7, "scale")
    assert from_params(to_params(asked)) == (asked, [])
    assert to_params(Asked()) == {}


def test_the_curve_and_its_picture_are_taken_away(page: Open, files: dict[str, Any], folder: Path) -> None:
    test = page(path="vllm.histogram_256", against="capacity")
    name = "bad-row-row1-vllm.histogram_256-stock-by-capacity"
    found = wb.what_if(wb.open(folder / "bad-row.safetensors")[1], "vllm.histogram_256").curve("capacity")
    held = taken(files, name)
    assert [line["value"] for line in held] == list(found.at)
    assert {line["value"]: line["level"] for line in held}[9000] == "safe"
    assert saved_names(test) == [name]
    page(path="vllm.cooperative_8", against="rank_capacity", row="2")
    assert [one for one in files if one.endswith("-by-rank-capacity.csv")]
