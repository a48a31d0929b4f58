"""Verdicts of whole batches are those of their rows, one by one."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.analysis.batch_verdict import BatchOracle
from workbench.analysis.reference import reference
from workbench.analysis.verdict import Verdict, judge
from workbench.capture.row import Call, Row
from workbench.paths.selection import UNWRITTEN

FIELDS = ("missing", "duplicates", "out_of_range", "unwritten", "short")
VALUES = [0.0, -0.0, 1.0, 1.0, 2.5, -3.0, float("inf"), float("-inf"), float("nan"), 1e-40]


def one_by_one(scores: torch.Tensor, lengths: torch.Tensor, k: int, indices: torch.Tensor) -> list[Verdict]:
    found = []
    for call in indices:
        for row, (length, slots) in enumerate(zip(lengths.tolist(), call, strict=True)):
            exact = reference(Row(scores[row], length, call=Call(width=scores.shape[1])), k).indices
            found.append(judge(scores[row, :length], exact, slots, UNWRITTEN))
    return found


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_agrees_with_the_verdict_of_each_row(data: st.DataObject, dtype: torch.dtype) -> None:
    rows, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 9))
    k = data.draw(st.integers(1, width))
    cells = data.draw(st.lists(st.sampled_from(VALUES), min_size=rows * width, max_size=rows * width))
    scores = torch.tensor(cells).view(rows, width).to(dtype)
    lengths = torch.tensor([data.draw(st.integers(0, width)) for _ in range(rows)], dtype=torch.int32)
    right = torch.stack([reference(Row(scores[r], int(lengths[r])), k).indices for r in range(rows)]).to(torch.int32)
    indices = right.repeat(2, 1, 1)
    for _ in range(data.draw(st.integers(0, 3))):
        at = (data.draw(st.integers(0, 1)), data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, k - 1)))
        indices[at] = data.draw(st.sampled_from([-1, UNWRITTEN, -5, width, *range(width)]))
    found = BatchOracle(scores, lengths, k).judge(indices)
    apart = one_by_one(scores, lengths, k, indices)
    kinds = Counter(one.kind for one in apart)
    assert found.kind == next(kind for kind in ("invalid", "lossy", "ties", "exact") if kinds[kind])
    assert found.wrong == kinds["invalid"] + kinds["lossy"]
    assert found.selections == 2 * rows
    assert found.missing_most == max(one.missing for one in apart)
    for name in FIELDS:
        assert getattr(found, name) == sum(getattr(one, name) for one in apart), name


def test_cells_past_a_rows_length_are_no_scores() -> None:
    scores = torch.tensor([[1.0, 2.0, torch.inf], [3.0, 1.0, 2.0]])
    oracle = BatchOracle(scores, torch.tensor([2, 3], dtype=torch.int32), 1)
    assert oracle.judge(torch.tensor([[[1], [0]]])).kind == "exact"
    assert oracle.judge(torch.tensor([[[2], [0]]])).kind == "invalid"
    assert oracle.judge(torch.tensor([[[0], [0]]])).kind == "lossy"


@pytest.mark.parametrize("k", [1, 5])
def test_empty_rows_want_nothing(k: int) -> None:
    oracle = BatchOracle(torch.ones(2, 3), torch.zeros(2, dtype=torch.int32), k)
    assert oracle.judge(torch.full((1, 2, k), -1)).kind == "exact"
    assert oracle.judge(torch.full((1, 2, k), 0)).out_of_range == 2 * k
