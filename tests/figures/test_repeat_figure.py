"""The pictures of repeated calls hold what an independent count of the selections says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.analysis.repeatability import Repeatability, repeatability
from workbench.figures import repeat as figures
from workbench.figures.repeat import (
    ABOVE,
    BELOW,
    EVERY,
    NONE,
    SIDES,
    SOME,
    TIES,
    frequency_figure,
    held_figure,
    members_table,
    missing_figure,
)

K, CALLS = 6, 8


def selections() -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """Scores with three ties at the cut, and eight calls: 0 to 3 are always held but for 3, lost once to 15."""
    scores = torch.arange(20, 0, -1, dtype=torch.float32)
    scores[4:7] = scores[5]
    exact = torch.arange(K)
    calls = []
    for number in range(CALLS):
        pair = (4, 5) if number % 2 else (5, 6)
        calls.append(torch.tensor([0, 1, 2, 15 if number == 3 else 3, *pair]))
    return scores, exact, calls


def found() -> Repeatability:
    return repeatability(*selections())


def test_the_bars_count_what_calls_hold() -> None:
    scores, exact, calls = selections()
    held = torch.stack([torch.bincount(one, minlength=20) for one in calls]).sum(0)
    cut = scores[exact[-1]]
    figure = held_figure(found())
    assert list(figure.layout.yaxis.ticktext) == ["winners above the cut", "ties at the cut", "losers selected"]
    sides = (scores > cut, scores == cut, scores < cut)
    wanted = {
        EVERY: [int((held[side] == CALLS).sum()) for side in sides],
        SOME: [int(((held[side] > 0) & (held[side] < CALLS)).sum()) for side in sides],
    }
    assert wanted == {EVERY: [3, 1, 0], SOME: [1, 2, 1]}
    drawn = {trace.name: list(trace.x) for trace in figure.data}
    assert drawn == wanted  # nothing is held by no call but losers, which are not drawn
    assert list(figure.data[1].base) == wanted[EVERY]
    assert len({trace.marker.pattern.shape for trace in figure.data}) == 2  # told apart without colour


def test_a_single_value_at_the_cut_is_a_winner() -> None:
    scores = torch.arange(9, 0, -1, dtype=torch.float32)
    one = repeatability(scores, torch.arange(3), [torch.tensor([0, 1, 4]), torch.tensor([1, 0, 5])])
    figure = held_figure(one)
    assert list(figure.layout.yaxis.ticktext) == ["winners", "losers selected"]
    assert {trace.name: list(trace.x) for trace in figure.data} == {EVERY: [2, 0], SOME: [0, 2], NONE: [1, 0]}


def test_each_unstable_index_stands_at_its_rank_and_share() -> None:
    scores, _, calls = selections()
    figure = frequency_figure(found(), K)
    held = torch.stack([torch.bincount(one, minlength=20) for one in calls]).sum(0).tolist()
    order = sorted(range(20), key=lambda at: (-float(scores[at]), at))
    marks = {}
    for trace in figure.data:
        for x, y, about in zip(trace.x, trace.y, trace.customdata, strict=True):
            marks[int(about[0])] = (trace.name, int(x), float(y))
    assert marks == {
        index: (name, order.index(index) + 1, 100 * held[index] / CALLS)
        for index, name in ((3, ABOVE), (4, TIES), (6, TIES), (15, BELOW))
    }
    (line,) = figure.layout.shapes
    assert (line.x0, line.x1) == (K + 0.5, K + 0.5)
    assert any("the cut, k = 6" in one.text for one in figure.layout.annotations)
    symbols = [symbol for _, symbol in SIDES.values()]
    assert len(set(symbols)) == len(symbols)


def test_many_marks_and_calls_are_thinned_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "DRAWN", 3)
    assert sum(len(trace.x) for trace in frequency_figure(found(), K).data) == 3
    missing = [0] * 2500
    missing[1700] = 9
    figure = missing_figure(missing, 512)
    assert len(figure.data[0].x) <= figures.BARS
    assert max(figure.data[0].y) == 9
    assert "the most of 3 at a time" in figure.layout.xaxis.title.text


def test_each_call_has_its_bar() -> None:
    figure = missing_figure([3, 0, 5], 8)
    assert (list(figure.data[0].x), list(figure.data[0].y)) == ([1, 2, 3], [3, 0, 5])
    assert any("mean 2.667" in one.text for one in figure.layout.annotations)
    assert figure.layout.yaxis.title.text == "missing, of 8"


def test_the_table_keeps_the_nearest_to_the_cut() -> None:
    whole = members_table(found(), None)
    assert whole["index"].tolist() == [3, 4, 6, 15]
    assert whole["selected by"].tolist() == [7, 4, 4, 1]
    assert np.allclose(whole["from the cut"], [2.0, 0.0, 0.0, -10.0])
    assert members_table(found(), 2)["index"].tolist() == [4, 6]


def test_the_nearest_to_the_cut_come_first() -> None:
    assert members_table(found(), 3)["index"].tolist() == [4, 6, 3]
    assert members_table(found())["index"].tolist() == [4, 6, 3, 15]
    scores = torch.tensor([float("nan"), 3.0, 2.0, 1.0])
    calls = [torch.tensor(held) for held in ([0, 1], [1, 2], [2, 3])]
    assert members_table(repeatability(scores, torch.tensor([0, 1]), calls))["index"].tolist() == [1, 2, 3, 0]


def test_nan_and_empty_rows_draw() -> None:
    scores = torch.tensor([float("nan"), 3.0, 2.0, 1.0])
    one = repeatability(scores, torch.tensor([0, 1]), [torch.tensor([0, 1]), torch.tensor([1, 2])])
    marks = {int(about[0]): trace.name for trace in frequency_figure(one, 2).data for about in trace.customdata}
    assert marks == {0: ABOVE, 2: BELOW}
    nothing = repeatability(torch.zeros(0), torch.full((2,), -1), [torch.full((2,), -1)] * 2)
    assert held_figure(nothing).data == ()


def test_few_whole_numbers_have_no_ticks_between_them() -> None:
    nothing = torch.full((3,), -1)
    empty = held_figure(repeatability(torch.zeros(0), torch.zeros(0, dtype=torch.int64), [nothing] * 2))
    scores = torch.tensor([3.0, 2.0, 1.0])
    one = repeatability(scores, torch.tensor([0]), [torch.tensor([0]), torch.tensor([1])])
    for figure in (empty, held_figure(one), frequency_figure(one, 1)):
        assert (figure.layout.xaxis.tickformat, figure.layout.xaxis.dtick) == (",d", 1)
