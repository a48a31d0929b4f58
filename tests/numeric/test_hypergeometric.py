"""Survivor laws against enumeration, and at the sizes that rows have."""

from __future__ import annotations

from itertools import combinations

import pytest

from workbench.numeric.hypergeometric import all_survive, survivors


@pytest.mark.parametrize(("population", "marked", "kept"), [(5, 2, 3), (6, 6, 2), (7, 3, 6), (5, 0, 3), (5, 3, 5)])
def test_against_every_subset(population: int, marked: int, kept: int) -> None:
    subsets = list(combinations(range(population), kept))
    seen = [sum(member < marked for member in subset) for subset in subsets]
    counts, mass = survivors(population, marked, kept)
    for count, probability in zip(counts.tolist(), mass.tolist(), strict=True):
        assert probability == pytest.approx(seen.count(count) / len(seen))
    assert all_survive(population, marked, kept) == pytest.approx(seen.count(marked) / len(seen))


def test_a_million_scores() -> None:
    counts, mass = survivors(1_000_000, 500_000, 4096)
    assert float(mass.sum()) == pytest.approx(1)
    assert float((counts * mass).sum()) == pytest.approx(2048, rel=1e-9)
    assert all_survive(16385, 2048, 16384) == pytest.approx(1 - 2048 / 16385)
