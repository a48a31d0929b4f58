"""Medians and spreads, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.samples import Spread, ratio, spread
from workbench.errors import UsageError

positive = st.floats(0.001, 1e9, allow_nan=False)


@given(st.lists(positive, min_size=1, max_size=40))
def test_quantiles_are_numpys(values: list[float]) -> None:
    found = spread(values)
    assert found.median == pytest.approx(np.quantile(values, 0.5))
    assert found.p10 == pytest.approx(np.quantile(values, 0.1))
    assert found.p90 == pytest.approx(np.quantile(values, 0.9))
    assert (found.least, found.count) == (min(values), len(values))


def test_no_measurement_has_no_spread() -> None:
    with pytest.raises(UsageError, match="at least one"):
        spread([])


def test_ratio_and_whether_spreads_lie_apart() -> None:
    slow, fast = spread([20.0, 21.0, 22.0]), spread([10.0, 10.5, 11.0])
    found = ratio(slow, fast)
    assert found is not None
    assert found.of_medians == 2
    assert found.low < 2 < found.high
    assert found.differs
    near = ratio(spread([10.0, 11.0]), spread([10.2, 10.9]))
    assert near is not None
    assert not near.differs


def test_nothing_is_divided_by_zero() -> None:
    assert ratio(spread([1.0]), Spread(0.0, 0.0, 0.0, 0.0, 3)) is None
