"""The page of paths as a person meets it: pictures, a score that is typed, links, and the catalogue."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import saved_names, taken, texts
from workbench.paths.catalog import PATHS, get_path
from workbench.ui.paths_view import Shown, from_params, read_score, to_params

Open = Callable[..., AppTest]


def _script() -> None:
    from workbench.ui.paths import paths_page

    paths_page()


@pytest.fixture
def page() -> Open:
    def open_page(**params: str) -> AppTest:
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in params.items():
            test.query_params[name] = value
        return test.run()

    return open_page


def figures(test: AppTest) -> list[dict[str, Any]]:
    return [json.loads(chart.proto.spec) for chart in test.get("plotly_chart")]


def traces(figure: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {trace.get("name", ""): trace for trace in figure["data"]}


def params(test: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[-1] for name, value in test.query_params.items()}


def test_a_path_is_shown_with_its_picture_and_its_numbers(page: Open) -> None:
    test = page()
    assert not test.exception
    assert "vllm.histogram_256 (stock) drops winners silently" in texts(test)
    steps, line, widths, releases = figures(test)
    assert traces(steps)["steps"]["customdata"] == ["row", "key", "bins", "buffer", "digits", "out"]
    assert traces(steps)["loses"]["customdata"] == ["buffer"]
    assert traces(line)["vllm.histogram_256, this bin"]["customdata"][0][:3] == [
        188,
        0.999755859375,
        1.2495115995407104,
    ]
    assert "vllm.histogram_256 at 1" in traces(widths)
    assert "can lose winners" in traces(releases)
    catalogue = test.dataframe[-1].value
    assert list(catalogue["variants"]) == [len(path.variants) for path in PATHS]
    variants = test.table[-1].value
    assert [name.replace("\\", "") for name in variants.index] == [
        one.name for one in get_path("vllm.histogram_256").variants
    ]
    assert params(test) == {"path": "vllm.histogram_256", "variant": "stock", "score": "1"}, "also as a link"


@pytest.mark.parametrize(
    ("variant", "release", "shown"),
    [
        ("stock", "vllm==0.32.0", {"stock"}),
        ("v0.33.0", "vllm==0.33.0", {"v0.33.0"}),
        ("detect_rescan", "vllm==0.32.0", {"stock", "v0.33.0"}),
    ],
)
def test_the_ops_are_those_of_the_variant_that_is_shown(
    page: Open, variant: str, release: str, shown: set[str]
) -> None:
    test = page(path="vllm.histogram_256", variant=variant)
    assert not test.exception
    (ops,) = [one.value for one in test.dataframe if "rows of the call" in one.value.columns]
    assert set(ops["variant"]) == shown
    assert release in set(ops["release"])
    none = "No release is known to take it as detect_rescan"
    assert (none in texts(test)) == (variant == "detect_rescan")


def test_a_link_restores_the_path_the_score_and_what_is_beside(page: Open) -> None:
    given = {"path": "sglang.v2_register", "variant": "v0.5.23", "score": "65504", "with": "vllm.filtered"}
    test = page(**given)
    assert not test.exception
    assert params(test) == given
    assert "sglang.v2_register (v0.5.23) keeps every winner" in texts(test)
    steps, line, *_ = figures(test)
    assert "loses" not in traces(steps)
    assert traces(line)["sglang.v2_register, this bin"]["customdata"][0][3] == 512
    assert traces(line)["vllm.filtered, this bin"]["customdata"][0][3] == 8192
    assert test.selectbox(key="paths-beside").value == "vllm.filtered"


def test_widgets_change_what_is_shown_and_what_the_link_says(page: Open) -> None:
    test = page(**{"with": "sglang.v1", "variant": "wide_rescan"})
    test.selectbox(key="paths-path").set_value("sglang.v1").run()
    assert params(test) == {"path": "sglang.v1", "variant": "stock", "score": "1"}  # not beside itself
    test.selectbox(key="paths-score").set_value("10000").run()
    table = test.dataframe[0].value
    assert "10000" in set(table["score"])
    assert params(test)["score"] == "10000"
    test.selectbox(key="paths-variant").set_value("cutoff_first").run()
    assert "sglang.v1 (cutoff_first) keeps every winner" in texts(test)
    assert not test.exception


@pytest.mark.parametrize("path", [path.name for path in PATHS if path.family in ("identity", "own", "radix")])
def test_paths_without_bins_or_without_a_model_say_so(page: Open, path: str) -> None:
    test = page(path=path)
    assert not test.exception
    said = texts(test)
    if path == "flashinfer.ragged":
        assert "What it does inside is not established" in said
    if path.endswith(".trivial"):
        assert "has no bins" in said
    if get_path(path).unreached:
        assert f"None: {get_path(path).unreached}." in said


def test_bad_links_are_answered_in_a_line(page: Open) -> None:
    test = page(path="no.such", variant="<b>", score="nan", zzz="1", **{"with": "vllm.trivial"})
    assert not test.exception
    said = texts(test)
    assert "The link's path is left out" in said
    assert "The link's variant is left out" in said
    assert "The link's score is left out: NaN has no place on the number line" in said
    assert "vllm.trivial has no bins" in said
    assert "a parameter that the workbench does not know: 'zzz'" in said
    assert params(test) == {"path": "vllm.histogram_256", "variant": "stock", "score": "1"}
    test = page(path="vllm.radix", variant="cutoff_first")
    assert "The link's variant cutoff_first is none of vllm.radix; stock is shown." in texts(test)


@pytest.mark.parametrize("score", ["inf", "-inf", "0", "-0.0", "1e30", "-65504", "1e-45", "3.4e38"])
def test_any_score_has_a_place(page: Open, score: str) -> None:
    test = page(score=score, path="vllm.filtered", **{"with": "vllm.radix"})
    assert not test.exception
    assert not test.error


def test_scores_are_read_as_they_are_typed() -> None:
    assert read_score(" 65504 ") == 65504.0
    assert read_score("−1.5") == -1.5
    for text in ("", "1_000", "one", "nan", "1" * 30, "0x10"):
        with pytest.raises(Exception, match=r"score|NaN"):
            read_score(text)


def test_the_value_survives_the_url() -> None:
    value = Shown("vllm.filtered", "stock", read_score("0.333333333333"), "sglang.v1")
    assert from_params(to_params(value)) == (value, [])
    assert to_params(Shown()) == {}


def test_pictures_and_tables_are_taken_away(page: Open, files: dict[str, Any]) -> None:
    test = page(path="vllm.filtered", score="2")
    name = "vllm.filtered-stock"
    assert [line["path"] for line in taken(files, f"{name}-all-paths")] == [path.name for path in PATHS]
    variants = {line["variant"] for line in taken(files, f"{name}-variants")}
    assert variants == {one.name for one in get_path("vllm.filtered").variants}
    pictures = [f"{name}-steps", f"{name}-at-2-bins", f"{name}-at-2-resolution", "vllm.filtered-releases"]
    assert saved_names(test) == pictures
