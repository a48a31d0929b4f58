"""The number line: bars are bins, to scale, and widths stand on log axes."""

from __future__ import annotations

import math

import pytest

from workbench.analysis.resolution import interval
from workbench.figures.number_line import MOST_BINS, line_figure, resolution_figure, resolution_table, window
from workbench.paths.steps import Key

EIGHT, TWELVE, EXACT = Key("half", 8, 16), Key("half", 12, 16), Key("exact", 8, 32)


@pytest.mark.parametrize("score", [1.0, 0.0, -3.5, 65504.0, 65520.0, -1e9, math.inf, -math.inf, 1e-30])
@pytest.mark.parametrize("keys", [{"a": EIGHT}, {"a": EIGHT, "b": TWELVE}, {"a": EXACT, "b": EIGHT}])
def test_bars_are_bins_within_the_window(keys: dict[str, Key], score: float) -> None:
    figure = line_figure(keys, score)
    low, high = figure.layout.xaxis.range
    assert math.isfinite(low)
    assert low < high < math.inf
    for name, key in keys.items():
        traces = {trace.name: trace for trace in figure.data}
        here, others = traces[f"{name}, this bin"], traces[name]
        assert here.customdata[0][0] == interval(key, score).bin
        assert len(others.x) < MOST_BINS
        for bar in (here, others):
            for start, width, told in zip(bar.base, bar.x, bar.customdata, strict=True):
                assert width >= 0
                assert start == min(max(told[1], low), high)
                assert start + width <= high * (1 + 1e-12) + 1e-12 if high > 0 else True
    assert any(one.name == "score" for one in figure.layout.annotations)


def test_the_overflow_is_marked_where_it_is_in_sight() -> None:
    def marked(keys: dict[str, Key], score: float) -> bool:
        return any(one.name == "overflow" for one in line_figure(keys, score).layout.annotations)

    assert marked({"a": EIGHT}, 65504.0)
    assert marked({"a": EIGHT}, -65504.0)
    assert marked({"a": EIGHT}, 70000.0)
    assert not marked({"a": EIGHT}, 1.0)
    assert not marked({"a": EXACT}, 65504.0)
    low, high = window({"a": EIGHT}, 65504.0)
    assert low < 65504 < 65520 < high


def test_widths_end_where_fp16_does() -> None:
    figure = resolution_figure({"coarse": EIGHT, "exact": EXACT}, 100.0)
    traces = {trace.name: trace for trace in figure.data}
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert traces["coarse"].x[-1] == 65520.0
    assert traces["exact"].x[-1] > 65520.0
    at = list(traces["coarse"].x).index(64.0)
    assert traces["coarse"].y[at] == 16.0
    assert list(traces["coarse at 100"].y) == [16.0]
    assert traces["coarse"].line.dash != traces["exact"].line.dash
    for outside in (0.0, 1e30, 65520.0, math.inf):
        assert "coarse at" not in " ".join(trace.name for trace in resolution_figure({"coarse": EIGHT}, outside).data)


def test_the_table_says_ends_and_widths() -> None:
    table = resolution_table({"a": EIGHT, "b": TWELVE}, 70000.0)
    assert list(table["path"]) == ["a", "b"] * 6
    last = table.iloc[-2]
    assert (last["score"], last["from"], last["to"], last["width"]) == ("70000", "65520", "+inf", "no end")
    hundred = table[table["score"] == "100"]
    assert list(hundred["width"]) == ["16", "1"]
    assert list(hundred["of the score"]) == ["16%", "1%"]
    assert "path" not in resolution_table({"a": EIGHT}, 1.0).columns
