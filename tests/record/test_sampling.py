"""The numbers of a sample are NumPy's own for seed, rank and call, whatever finds them faster."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.record.sampling import draw


@pytest.mark.parametrize(
    "seeds", [(0, 0, 0), (5, 3, 9), (2**32 - 1, 2**32, 2**32 + 1), (2**40, 0, 2**64), (2**64 - 1, 7, 2**96 + 2**33)]
)
def test_numbers_are_those_of_numpy(seeds: tuple[int, ...]) -> None:
    assert draw(seeds, 50).tolist() == np.random.default_rng(list(seeds)).random(50).tolist()
