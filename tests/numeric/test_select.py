"""The exact selection and multiset differences against the plainest code that says the same."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workbench.numeric import select
from workbench.numeric.histogram import half_histogram
from workbench.numeric.select import difference, exact_topk

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 1.0, 2.0, -1.0]
ROWS = st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=12)


def sort_key(value: float) -> float:
    return math.inf if math.isnan(value) else math.atan(value)  # NaN past +inf, -0.0 with +0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@given(values=ROWS, k=st.integers(1, 14))
def test_best_first_ties_to_the_smaller_index(dtype: torch.dtype, values: list[float], k: int) -> None:
    expected = sorted(range(len(values)), key=lambda index: (-sort_key(values[index]), index))[:k]
    assert exact_topk(torch.tensor(values, dtype=dtype), k).tolist() == expected


MORE = [*SPECIAL, -math.nan, 65519.0, 65520.0, -65520.0, 1e-9, -1e-9, 3e38, 1.0001, 1.0002]


@given(values=st.lists(st.sampled_from(MORE), min_size=1, max_size=12), k=st.integers(1, 14))
def test_a_histogram_changes_nothing(values: list[float], k: int) -> None:
    """Long rows are cut by their fp16 keys first, which see neither all ties nor all differences."""
    scores = torch.tensor(values).repeat(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "LONG", 1)
        found = exact_topk(scores, k, half_histogram(scores))
    assert found.tolist() == exact_topk(scores, k).tolist()


def test_nan_with_its_sign_set_is_still_the_best() -> None:
    row = torch.tensor([1.0, math.inf, -math.nan, 0.0])
    assert exact_topk(row, 2).tolist() == [2, 1]


def test_an_empty_row_has_no_winners() -> None:
    assert exact_topk(torch.empty(0), 5).tolist() == []


@given(values=ROWS, data=st.data())
def test_difference_is_that_of_multisets(values: list[float], data: st.DataObject) -> None:
    scores = torch.tensor(values)
    subsets = st.sets(st.integers(0, len(values) - 1))
    exact, chosen = data.draw(subsets), data.draw(subsets)
    diff = difference(scores, torch.tensor(sorted(exact)).long(), torch.tensor(sorted(chosen)).long())

    def values_of(indices: object) -> Counter[str]:
        return Counter(str(values[i] + 0.0) for i in indices)

    lost, kept = diff.lost.tolist(), diff.kept.tolist()
    assert values_of(lost) == values_of(exact) - values_of(chosen)
    assert values_of(kept) == values_of(chosen) - values_of(exact)
    assert set(lost) <= exact - chosen
    assert set(kept) <= chosen - exact
    assert lost == sorted(lost, key=lambda i: (-sort_key(values[i]), i))
