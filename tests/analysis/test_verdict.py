"""Verdicts of selections that are right, reordered, tied, lossy and broken in every way a slot can be."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.analysis.diff import cutoff, value_diff
from workbench.analysis.reference import reference, winners_wanted
from workbench.analysis.verdict import Verdict, judge
from workbench.capture.row import Call, Row
from workbench.errors import CaptureError, WorkbenchError

POISON = -777
SCORES = torch.tensor([5.0, 1.0, 4.0, 3.0, 3.0, 2.0, -0.0, 0.0])


def verdict(indices: list[int], k: int = 4, scores: torch.Tensor = SCORES, poison: int | None = POISON) -> Verdict:
    exact = reference(Row(scores, scores.numel(), call=Call(width=max(16, scores.numel()))), k).indices
    return judge(scores, exact, torch.tensor(indices, dtype=torch.int32), poison)


@pytest.mark.parametrize(
    ("indices", "k", "kind", "missing"),
    [
        ([0, 2, 3, 4], 4, "exact", 0),
        ([4, 3, 2, 0], 4, "exact", 0),  # order never counts
        ([0, 2, 4], 3, "ties", 0),  # the other 3.0
        ([0, 2, 3, 5], 4, "lossy", 1),
        ([0, 1, 5, 6], 4, "lossy", 3),
        ([0, 2, 3, 4, 5, 1, 7], 7, "ties", 0),  # -0.0 equals 0.0
        ([0, 2, 3, 3], 4, "invalid", 1),
        ([0, 2, 3, 8], 4, "invalid", 1),
        ([0, 2, 3, -2], 4, "invalid", 1),
        ([0, 2, 3, -1], 4, "invalid", 1),
        ([0, 2, 3, POISON], 4, "invalid", 1),
        ([0, 2, 3, 4, 5, 1, 6, 7, -1, -1], 10, "exact", 0),
        ([0, 2, 3, 4, 5, 1, 6, 7, 7, -1], 10, "invalid", 0),
        ([0, 2, 3], 4, "invalid", 1),  # too few slots
    ],
)
def test_kinds(indices: list[int], k: int, kind: str, missing: int) -> None:
    found = verdict(indices, k)
    assert (found.kind, found.missing) == (kind, missing)
    assert found.recall == 1 - missing / min(k, 8)


def test_faulty_slots_are_counted_by_their_fault() -> None:
    found = verdict([0, 0, 8, -5, POISON, -1, 2], 7)
    assert (found.duplicates, found.out_of_range, found.unwritten, found.short) == (1, 2, 1, 1)
    assert verdict([POISON], 1, poison=None).out_of_range == 1


def test_one_lost_score_is_one_missing_value_however_far_it_shifts_the_rest() -> None:
    scores = torch.arange(1000, 0, -1, dtype=torch.float32)
    kept = [index for index in range(501) if index != 3]
    found = verdict(kept, 500, scores)
    assert (found.kind, found.missing) == ("lossy", 1)
    assert found.max_score_gap == 997.0 - 500.0


def test_gaps_with_infinities_and_nan() -> None:
    scores = torch.tensor([math.nan, math.inf, 1.0, -math.inf])
    assert math.isnan(verdict([1, 2], 2, scores).max_score_gap)
    assert verdict([0, 2], 2, scores).max_score_gap == math.inf
    assert verdict([0, 1, 3], 3, scores).max_score_gap == math.inf
    assert verdict([0, 1, 2], 3, scores).max_score_gap is None


def test_an_empty_row() -> None:
    found = verdict([-1, -1], 2, torch.empty(0))
    assert (found.kind, found.missing, found.recall) == ("exact", 0, 1.0)


def test_value_diff_names_rank_index_and_gap() -> None:
    exact = reference(Row(SCORES, 8), 4).indices
    found = judge(SCORES, exact, torch.tensor([0, 5, 3, 1]))
    assert [(e.status, e.rank, e.index, e.score, e.gap) for e in value_diff(SCORES, exact, found)] == [
        ("lost", 2, 2, 4.0, 1.0),
        ("lost", 3, 4, 3.0, 0.0),
        ("kept", 5, 5, 2.0, -1.0),
        ("kept", 6, 1, 1.0, -2.0),
    ]
    assert value_diff(SCORES, exact, verdict([0, 2, 3, 4])) == []
    assert cutoff(SCORES, exact) == 3.0


def test_reference_pads_short_rows_and_uses_the_window() -> None:
    scores = torch.tensor([9.0, 1.0, 2.0, 9.0])
    row = Row(scores, 2, start=1, call=Call(k=3))
    assert reference(row).indices.tolist() == [1, 0, -1]
    assert reference(row).indices.dtype == torch.int32


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (None, "does not say k"),
        (0, "k is 0; it must be at least 1"),
        (-5, "k is -5; it must be at least 1"),
        (9, "k is 9, above the row width 8"),
        (10**13, "above the row width 8"),
        (2.5, "k is 2.5; an integer is needed"),
        (True, "k is True; an integer is needed"),
        ("5", "k is '5'; an integer is needed"),
    ],
)
def test_k_must_be_known_and_fit_the_width(k: object, message: str) -> None:
    row = Row(SCORES, 8, index=3, capture="bad.safetensors")
    with pytest.raises(CaptureError, match=message) as caught:
        winners_wanted(row, k)
    assert str(caught.value).startswith("bad.safetensors, row 3: ")
    with pytest.raises(WorkbenchError, match=message.partition(";")[0]):
        reference(row, k)


def test_a_trimmed_row_may_be_shorter_than_k() -> None:
    assert reference(Row(SCORES, 8, call=Call(k=10, width=64))).indices.tolist()[-2:] == [-1, -1]
