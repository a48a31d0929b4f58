"""Every class of repeatability, of two selections and of many, on real arrays."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.analysis.reference import reference
from workbench.analysis.repeatability import KINDS, Tally, compare, repeatability
from workbench.capture.row import Call, Row

NAN = math.nan
SCORES = torch.tensor([5.0, 1.0, 4.0, 3.0, 3.0, 2.0, -0.0, 0.0])


def ints(*indices: int) -> torch.Tensor:
    return torch.tensor(indices, dtype=torch.int32)


def exact(scores: torch.Tensor, k: int) -> torch.Tensor:
    return reference(Row(scores, scores.numel(), call=Call(width=64)), k).indices


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ([0, 2, 3], [0, 2, 3], "same"),
        ([0, 2, 3], [3, 0, 2], "order varies"),
        ([0, 2, -1], [0, -1, 2], "order varies"),  # padding elsewhere
        ([0, 2, 3], [4, 2, 0], "ties vary"),
        ([0, 2, 6], [0, 2, 7], "ties vary"),  # -0.0 equals +0.0
        ([0, 2, 3], [0, 2, 5], "values vary"),
        ([0, 3, 4], [0, 3, 3], "values vary"),  # a repeated index holds its value once
        ([3, 3, 0], [3, 0, 0], "values vary"),
        ([3, 3, 0], [4, 4, 0], "ties vary"),
        ([0, 2, -1], [0, 2, 3], "values vary"),
        ([0, 2, 8], [0, 2, -7], "values vary"),  # no index of the row: each counts as content of its own
        ([0, 2, 8], [2, 0, 8], "order varies"),
        ([0, 3, 8], [0, 4, 8], "ties vary"),
        ([0, 2], [0, 2, 3], "values vary"),
        ([], [], "same"),
    ],
)
def test_two_selections(one: list[int], other: list[int], kind: str) -> None:
    assert compare(SCORES, ints(*one), ints(*other)) == kind
    assert compare(SCORES, ints(*other), ints(*one)) == kind


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_of_every_dtype_and_nan(dtype: torch.dtype) -> None:
    scores = torch.tensor([NAN, -NAN, 1.0, 2.0, 2.0], dtype=dtype)
    assert compare(scores, ints(0, 3), ints(1, 3)) == "ties vary"  # all NaN are one value
    assert compare(scores, ints(0, 3), ints(4, 1)) == "ties vary"
    assert compare(scores, ints(0, 3), ints(2, 3)) == "values vary"


def test_a_difference_of_one_ulp_is_a_difference_of_values() -> None:
    scores = torch.tensor([1.0, torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)).item()])
    assert compare(scores, ints(0), ints(1)) == "values vary"


def test_many_calls_count_orders_sets_and_what_comes_and_goes() -> None:
    calls = [ints(0, 2, 3), ints(0, 2, 3), ints(2, 0, 3), ints(0, 2, 4), ints(0, 5, 3)]
    found = repeatability(SCORES, exact(SCORES, 3), calls)
    assert (found.kind, found.calls, found.orders, found.sets, found.values) == ("values vary", 5, 4, 3, 2)
    assert (found.commonest, found.steady, found.cut) == (3, 1, 3.0)
    assert [(m.index, m.score, m.gap, m.held, m.share) for m in found.members] == [
        (2, 4.0, 1.0, 4, 0.8),
        (3, 3.0, 0.0, 4, 0.8),
        (4, 3.0, 0.0, 1, 0.2),
        (5, 2.0, -1.0, 1, 0.2),
    ]
    assert [m.ulps for m in found.members] == [0x400000, 0, 0, -0x400000]  # 4.0, 3.0 and 2.0 as float32


def test_every_kind_of_many_calls() -> None:
    first = ints(0, 2, 3)
    others = {"same": first, "order varies": ints(3, 2, 0), "ties vary": ints(0, 2, 4), "values vary": ints(0, 2, 1)}
    assert tuple(others) == KINDS
    for kind, other in others.items():
        assert repeatability(SCORES, exact(SCORES, 3), [first, first, other]).kind == kind
    # the coarsest one wins
    assert repeatability(SCORES, exact(SCORES, 3), [first, *others.values()]).kind == "values vary"


def test_one_call_and_none_agree() -> None:
    tally = Tally(SCORES, exact(SCORES, 3))
    empty = tally.result()
    assert (empty.kind, empty.calls, empty.orders, empty.steady, empty.members) == ("same", 0, 0, 0, ())
    tally.add(ints(0, 2, 3))
    assert (tally.result().kind, tally.result().steady) == ("same", 3)


def test_an_index_that_stands_twice_is_held_once() -> None:
    found = repeatability(SCORES, exact(SCORES, 3), [ints(0, 0, 2), ints(2, 3, 4)])
    assert {m.index: m.held for m in found.members} == {0: 1, 3: 1, 4: 1}
    assert found.steady == 1


def test_empty_rows_infinities_and_nan_at_the_cut() -> None:
    nothing = repeatability(torch.empty(0), exact(torch.empty(0), 2), [ints(-1, -1)] * 2)
    assert (nothing.kind, nothing.cut, nothing.members) == ("same", None, ())
    scores = torch.tensor([math.inf, math.inf, NAN, 1.0])
    found = repeatability(scores, exact(scores, 2), [ints(2, 0), ints(2, 1), ints(0, 1), ints(2, 3)])
    by_index = {m.index: m for m in found.members}
    assert by_index[0].gap == by_index[1].gap == 0.0  # equal infinities, not inf - inf
    assert math.isnan(by_index[2].gap)
    assert by_index[2].ulps is None
    assert (by_index[3].gap, found.cut) == (-math.inf, math.inf)
