"""The picture of every path's fill: where it stands, what is marked, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk, census
from workbench.figures import palette
from workbench.figures.capacity import capacity_figure, in_order
from workbench.figures.path_releases import held_by
from workbench.figures.tables import census_table, outlook_texts, paths_table
from workbench.paths.catalog import PATHS, find_paths, get_path
from workbench.paths.steps import steps_of


@pytest.fixture(scope="module")
def risks() -> list:
    scores = torch.rand(16385, generator=torch.Generator().manual_seed(0)) * 0.245 + 1.0
    return census(RowProfile(scores, "float32", 2048))


def test_fill_is_population_over_capacity(risks: list) -> None:
    figure = capacity_figure(risks, "vllm.histogram_256")
    fill = next(trace for trace in figure.data if trace.name == "fill")
    at = dict(zip(fill.customdata, fill.x, strict=True))
    assert at["vllm.histogram_256"] == 16385 / 4096
    assert at["vllm.filtered"] == 16385 / 16384
    assert set(at) == {path.name for path in PATHS if path.buffer is not None}
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == 1
    low, high = figure.layout.xaxis.range
    assert all(low < math.log10(value) < high for value in fill.x)


@pytest.mark.parametrize(("many", "told"), [(4090, "6 to spare"), (4096, "full"), (4097, "1 too many")])
def test_a_buffer_that_is_all_but_full_says_by_how_many(many: int, told: str) -> None:
    scores = torch.rand(many, generator=torch.Generator().manual_seed(0)) * 0.245 + 1.0
    found = census(RowProfile(scores, "float32", 2048))
    (lane,) = (at for at, one in enumerate(reversed(found)) if one.path == "vllm.histogram_256")
    shown = capacity_figure(found).layout.annotations
    assert [one.text for one in shown if one.y == lane and told in one.text]


def test_every_path_has_a_lane_and_the_reached_one_is_marked(risks: list) -> None:
    ticks = capacity_figure(risks, "vllm.histogram_256").layout.yaxis.ticktext
    assert len(ticks) == len(PATHS)
    assert [tick for tick in ticks if tick.startswith("<b>▸")] == ["<b>▸ vllm.histogram_256</b>"]
    assert not any("▸" in tick for tick in capacity_figure(risks).layout.yaxis.ticktext)


def test_refused_paths_are_grey_with_their_reasons(risks: list) -> None:
    fill = next(trace for trace in capacity_figure(risks).data if trace.name == "fill")
    at = list(fill.customdata).index("vllm.histogram_2048")
    assert fill.marker.line.color[at] == palette.REFUSED
    assert "length 16385 is above 8192" in fill.hovertext[at]
    at = list(fill.customdata).index("vllm.histogram_256")
    assert fill.marker.color[at] == palette.AT_RISK


def test_paths_that_take_the_row_come_first_the_fullest_buffer_leading(risks: list) -> None:
    ordered = in_order(risks, "vllm.filtered")
    assert ordered[0].path == "vllm.filtered"
    refused = [bool(risk.refused) for risk in ordered]
    assert refused == sorted(refused)
    fills = [risk.population / risk.room for risk in ordered[1:] if not risk.refused and risk.room]
    assert fills == sorted(fills, reverse=True)
    assert {risk.path for risk in ordered} == {risk.path for risk in risks}


def test_one_word_for_what_a_buffer_takes(risks: list) -> None:
    one = next(risk for risk in risks if risk.path == "vllm.histogram_256")
    for risk, word in ((one, "capacity"), (replace(one, stored=1492), "takes")):
        figure = capacity_figure([risk])
        texts = " ".join(note.text for note in figure.layout.annotations)
        assert f"population / {word}" in texts
        assert figure.layout.xaxis.title.text.count(word) == 1
        assert next(note.text for note in figure.layout.annotations if note.name == "capacity") == word
    assert "16,385 / 1,492" in texts


def test_the_last_column_is_not_cut(risks: list) -> None:
    figure = capacity_figure(risks)
    shift = max(note.xshift or 0 for note in figure.layout.annotations)
    assert figure.layout.margin.r - shift >= 96  # "not modelled" in bold


def test_what_was_only_observed_has_no_computed_numbers(risks: list) -> None:
    risk = next(risk for risk in risks if risk.note and risk.level == "safe")
    assert not get_path(risk.path).variant(risk.variant).modelled
    assert risk.observed
    assert outlook_texts(risk) == ("observed", "–", "–")
    line = census_table([risk]).iloc[0]
    assert line[["p_clean", "expected", "least", "most"]].isna().all()
    known = next(risk for risk in risks if risk.path == "vllm.filtered")
    assert outlook_texts(known)[0] != "observed"
    assert outlook_texts(known)[2] == f"{known.least_missing} – {known.most_missing}"


def test_rows_without_bins_still_show_every_path() -> None:
    figure = capacity_figure(census(RowProfile(torch.zeros(100, dtype=torch.bfloat16), "bfloat16", 2048)))
    assert len(figure.layout.yaxis.ticktext) == len(PATHS)


def test_census_table_keeps_integers_and_reasons(risks: list) -> None:
    table = census_table(risks, "vllm.histogram_256").set_index("path")
    assert table.loc["vllm.histogram_256", "population"] == 16385
    assert table.loc["vllm.histogram_2048", "risk"] == "refused"
    assert "above 8192" in table.loc["vllm.histogram_2048", "why"]
    assert table["population"].dtype == "Int64"
    assert list(table.index[table["reached"]]) == ["vllm.histogram_256"]


def test_paths_table_lists_every_path() -> None:
    assert list(paths_table(PATHS)["path"]) == [path.name for path in PATHS]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_capacity_is_the_same_in_every_place(path) -> None:  # type: ignore[no-untyped-def]
    stock = path.variants[0]
    said = paths_table([path]).loc[0, "capacity"]
    buffers = [step for step in steps_of(path, stock) if step.kind == "buffer"]
    if buffers:  # as the picture of its steps has it
        assert f"holds {said}" in buffers[0].facts
    else:
        assert said == ("–" if steps_of(path, stock) else "?")
    for held in held_by([path]):
        if held.variants == (stock,):
            assert held.capacity == said
    (lane,) = [one.text for one in capacity_figure([Risk(path.name, stock.name)]).layout.annotations if one.x == 1][
        3::3
    ]
    assert ("no buffer" if said == "–" else f"– / {said}") in lane


def test_buffers_that_no_coarse_bin_fills_have_a_capacity_too() -> None:
    table = paths_table(PATHS).set_index("path")["capacity"]
    assert (table["vllm.per_row"], table["vllm.sampled"], table["flashinfer.filtered"]) == ("2,048", "8,192", "16,384")
    assert (table["vllm.radix"], table["flashinfer.ragged"], table["vllm.histogram_4096"]) == ("–", "?", "k")


def test_the_paths_table_says_the_greatest_k() -> None:
    table = paths_table(find_paths("sglang.*")).set_index("path")
    assert (table.loc["sglang.v1", "k"], table.loc["sglang.kpool", "k"]) == (
        "up to 1024",
        "128, 160, 192, 224, 256, 512",
    )
    assert table.loc["sglang.v2_register", "length"] == "> k, ≤ 16384"
