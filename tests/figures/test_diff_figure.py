"""The exact top-k beside a selection."""

from __future__ import annotations

import csv
import io
import math

import pytest
import torch

from workbench.analysis.verdict import judge
from workbench.figures import diff
from workbench.figures.diff import KEPT, LEFT_OUT, LOST, OTHER, SAME, Comparison, compare, diff_figure
from workbench.numeric.select import exact_topk


def compared(scores: list[float], selected: list[int], k: int) -> Comparison:
    row = torch.tensor(scores)
    exact = torch.full((k,), -1, dtype=torch.int32)
    best = exact_topk(row, k)
    exact[: best.numel()] = best.to(torch.int32)
    indices = torch.tensor(selected, dtype=torch.int32)
    return compare(row, exact, indices, judge(row, exact, indices))


def test_differences_come_first_with_rank_index_and_gap() -> None:
    found = compared([5.0, 1.0, 4.0, 3.0, 2.0], [0, 2, 4], 3)
    assert found.exact.table().values.tolist() == [
        [LOST, 3, 3, 3.0, 0.0],
        [SAME, 1, 0, 5.0, 2.0],
        [SAME, 2, 2, 4.0, 1.0],
    ]
    assert found.selection.table().values.tolist() == [
        [KEPT, 4, 4, 2.0, -1.0],
        [SAME, 1, 0, 5.0, 2.0],
        [SAME, 2, 2, 4.0, 1.0],
    ]
    assert (found.exact.different, found.selection.different) == (1, 1)


def test_equal_scores_are_no_loss_and_share_a_rank() -> None:
    found = compared([0.0, 7.0, 0.0, 0.0], [1, 3], 2)
    assert found.exact.different == found.selection.different == 0
    assert found.exact.equal == found.selection.equal == 1
    assert found.exact.table()[["status", "index", "rank"]].values.tolist() == [[LEFT_OUT, 0, 2], [SAME, 1, 1]]
    assert found.selection.table()[["status", "index", "rank"]].values.tolist() == [[OTHER, 3, 2], [SAME, 1, 1]]


def test_lost_ones_come_before_equal_ones_and_these_before_the_same() -> None:
    found = compared([9.0, 8.0, 5.0, 5.0, 1.0], [0, 3, 4], 3)
    assert list(zip(found.exact.status, found.exact.index, strict=True)) == [(LOST, 1), (LEFT_OUT, 2), (SAME, 0)]
    assert list(zip(found.selection.status, found.selection.index, strict=True)) == [(KEPT, 4), (OTHER, 3), (SAME, 0)]


def test_equal_scores_held_elsewhere_have_lanes() -> None:
    figure = diff_figure(compared([0.0, 7.0, 0.0, 0.0], [1, 3], 2))
    lanes = {trace.name: sorted(trace.x.tolist()) for trace in figure.data}
    assert lanes == {"exact top-k": [0, 1], LOST: [], KEPT: [], LEFT_OUT: [0], OTHER: [3]}
    assert len(figure.layout.yaxis.ticktext) == 5


def test_an_empty_row_has_an_axis() -> None:
    figure = diff_figure(compared([], [], 2))
    low, high = figure.layout.xaxis.range
    assert low < high
    assert figure.layout.xaxis.tickvals == ()


def test_infinities_and_nan_have_gaps_that_make_sense() -> None:
    found = compared([math.inf, math.inf, math.nan, 1.0, -math.inf], [2, 0, 4], 3)
    gaps = dict(zip(found.exact.index.tolist(), found.exact.gap.tolist(), strict=True))
    assert gaps[0] == gaps[1] == 0
    assert math.isnan(gaps[2])
    assert "NaN" in found.csv()


def test_invalid_slots_are_left_out() -> None:
    found = compared([3.0, 2.0, 1.0], [0, 0, 99], 2)
    assert found.selection.index.tolist() == [0]
    assert found.exact.different == 1


def test_csv_holds_both_sides_whole() -> None:
    rows = list(csv.DictReader(io.StringIO(compared([5.0, 1.0, 4.0, 3.0], [0, 1], 2).csv())))
    assert [(row["side"], row["status"], row["index"]) for row in rows] == [
        ("exact", LOST, "2"),
        ("exact", SAME, "0"),
        ("selection", KEPT, "1"),
        ("selection", SAME, "0"),
    ]


def test_csv_says_what_was_selected_how() -> None:
    text = compared([5.0, 1.0, 4.0, 3.0], [0, 1], 2).csv(path="vllm.filtered", variant="stock", k=2, seed=7)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {(row["path"], row["variant"], row["k"], row["seed"]) for row in rows} == {
        ("vllm.filtered", "stock", "2", "7")
    }


def test_figure_draws_lanes_at_their_indices() -> None:
    figure = diff_figure(compared([5.0, 1.0, 4.0, 3.0], [0, 1], 2))
    lanes = {trace.name: sorted(trace.x.tolist()) for trace in figure.data}
    assert lanes == {"exact top-k": [0, 2], LOST: [2], KEPT: [1]}
    assert list(figure.layout.yaxis.ticktext) == ["exact top-k: 2", f"{LOST}: 1", f"{KEPT}: 1"]


def test_thinned_lanes_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "DRAWN", 3)
    figure = diff_figure(compared([float(n) for n in range(20)], list(range(10)), 10))
    assert figure.layout.yaxis.ticktext[0] == "exact top-k: 10<br>3 drawn"
    assert len(figure.data[0].x) == 3


def test_a_million_scores_send_little() -> None:
    row = torch.rand(1 << 20, generator=torch.Generator().manual_seed(0))
    best = exact_topk(row, 4096)
    worst = torch.arange(4096, dtype=torch.int32)
    exact = best.to(torch.int32)
    figure = diff_figure(compare(row, exact, worst, judge(row, exact, worst)))
    assert len(figure.to_json()) < 1_000_000
