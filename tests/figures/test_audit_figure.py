"""The pictures of an audit hold its numbers, and no name reaches them as markup."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.audit.made import OTHER, census, dataset, recorded
from workbench.audit.dataset import Dataset
from workbench.audit.summary import Summary, summarize
from workbench.figures.audit import COMPARED, MOST_PATHS, captions, grid_figure, paths_figure, paths_shown


def summary(folder: Path, *lines: dict[str, object]) -> Summary:
    return summarize(Dataset(dataset(folder / "out", [lines])))


def test_bars_are_the_counts_of_paths(tmp_path: Path) -> None:
    lines = []
    for row in range(10):
        lines.append(census("a", row, risk="at risk" if row < 3 else "safe"))
        lines.append(census("a", row, OTHER, "certain" if row < 4 else "at risk" if row < 6 else "safe"))
        lines.append(recorded("a", row, "lossy" if row == 0 else "exact"))
    figure = paths_figure(summary(tmp_path, *lines))
    bars = {trace.name: trace for trace in figure.data}
    assert list(bars) == ["recorded: lossy", "certain", "at risk"]
    assert list(figure.layout.yaxis.ticktext) == ["▸ vllm.histogram_256", "vllm.filtered"]
    assert bars["at risk"].x.tolist() == [3, 2]
    assert bars["at risk"].base.tolist() == [0, 4]
    assert bars["certain"].x.tolist() == [0, 4]
    assert bars["recorded: lossy"].x.tolist() == [1, 0]
    assert "3 at risk, 0 certain (30 %)" in bars["at risk"].customdata[0]
    assert "10 rows reach it, 3 of them can lose" in bars["at risk"].customdata[0]
    assert list(bars["recorded: lossy"].width) == [0.36, 0.6]  # beside what is at risk, where there is both
    assert figure.layout.xaxis.title.text == "rows"


def test_a_path_that_was_only_recorded_has_a_bar_of_full_height(tmp_path: Path) -> None:
    (bar,) = paths_figure(summary(tmp_path, recorded("a", 0, "lossy"))).data
    assert (list(bar.y), list(bar.width)) == ([0], [0.6])


def test_baselines_stand_apart_and_bars_fall(tmp_path: Path) -> None:
    lines = []
    for row in range(10):
        lines.append(census("a", row, risk="at risk" if row < 3 else "safe", reached=None))
        lines.append(census("a", row, "vllm.histogram_2048", "at risk" if row < 5 else "safe", reached=None))
        lines.append(census("a", row, "tilelang.topk_selector", "certain" if row < 9 else "safe", reached=False))
        lines.append(census("a", row, "vllm.cooperative_2", "certain" if row < 1 else "safe", reached=False))
    found = summary(tmp_path, *lines)
    figure = paths_figure(found)
    names = ("vllm.histogram_2048", "vllm.histogram_256", "tilelang.topk_selector", "vllm.cooperative_2")
    assert figure.layout.yaxis.ticktext == names
    assert figure.layout.yaxis.tickvals == (0, -1, -3, -4)
    (heading,) = figure.layout.annotations
    assert (heading.y, heading.text) == (-2, COMPARED)
    bars = {trace.name: trace for trace in figure.data}
    assert bars["at risk"].x.tolist() == [5, 3, 0, 0]
    assert bars["certain"].x.tolist() == [0, 0, 9, 1]
    assert bars["certain"].y.tolist() == [0, -1, -3, -4]
    assert "5 rows of them may reach it" in bars["at risk"].customdata[0]
    assert "no op takes it: an example of its project" in bars["certain"].customdata[2]
    said = captions(found)[0]
    assert "Paths for comparison make no row bad" in said
    assert said.endswith("No op of a serving engine takes tilelang.topk_selector.")


def test_without_baselines_nothing_is_said_of_them(tmp_path: Path) -> None:
    found = summary(tmp_path, census("a", 0, risk="at risk"))
    assert not paths_figure(found).layout.annotations
    assert "comparison" not in captions(found)[0]


def test_a_grid_is_the_share_of_bad_rows(tmp_path: Path) -> None:
    lines = [
        census("a", at, layer=at % 2 + 7, step=at // 4, risk="at risk" if at in (1, 8) else "safe")
        for at in range(12)
        if at // 4 != 1
    ]
    figure = grid_figure(summary(tmp_path, *lines))
    assert figure is not None
    (heat,) = figure.data
    assert heat.y.tolist() == [7, 8]
    assert heat.x.tolist() == [0, 1, 2]
    assert np.array_equal(heat.z, [[0, np.nan, 50], [50, np.nan, 0]], equal_nan=True)
    assert heat.customdata[1][0].tolist() == [8, 0, 2, 1]
    assert heat.customdata[0][1].tolist() == [7, 1, 0, 0]
    assert heat.hovertemplate.startswith("layer %{customdata[0]:d}, step %{customdata[1]:,d}<br>")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("decoding step", "layer")


def test_many_steps_share_cells(tmp_path: Path) -> None:
    figure = grid_figure(summary(tmp_path, *(census("a", at, layer=0, step=at) for at in range(1000))))
    assert figure is not None
    assert figure.layout.xaxis.title.text == "decoding step, 16 to a cell"
    assert figure.data[0].customdata[0][1].tolist() == [0, 16, 16, 0]
    assert "16 steps from %{customdata[1]:,d}" in figure.data[0].hovertemplate
    assert not figure.data[0].showscale


def test_what_rows_do_not_say_is_not_drawn(tmp_path: Path) -> None:
    found = summary(tmp_path, census("a", 0))
    assert grid_figure(found) is None
    assert paths_shown(found) == []
    paths_figure(found)  # empty, and no error


def test_the_widest_picture_stays_small(tmp_path: Path) -> None:
    figure = grid_figure(summary(tmp_path, *(census("a", at, layer=at % 96, step=at // 96) for at in range(9216))))
    assert figure is not None
    assert len(figure.to_json()) < 500_000


def test_names_are_no_markup_and_paths_are_bounded(tmp_path: Path) -> None:
    lines = [census("a", 0, f"<b>{at}</b>", "at risk", reached=None) for at in range(MOST_PATHS + 6)]
    found = summary(tmp_path, *lines)
    figure = paths_figure(found)
    assert len(figure.layout.yaxis.ticktext) == MOST_PATHS
    assert all("<b>" not in name for name in figure.layout.yaxis.ticktext)
    assert "<b>&lt;b>0&lt;/b></b>" in {told.split("<br>")[0] for told in figure.data[0].customdata}
    assert "6 more are in the table" in captions(found)[0]
