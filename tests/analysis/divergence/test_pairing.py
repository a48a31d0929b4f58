"""Contents of two runs, paired."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.divergence.pairing import longest_ascending, pair


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("xyz", "xyz", ["xx", "yy", "zz"]),
        ("xyz", "xz", ["xx", "y-", "zz"]),  # a missing one does not shift the others
        ("xz", "xyz", ["xx", "-y", "zz"]),
        ("xyz", "xYz", ["xx", "yY", "zz"]),  # changed in its place
        ("xyzw", "yxzw", ["xx", "yy", "zz", "ww"]),  # other order
        ("xyz", "yzw", ["x-", "yy", "zz", "-w"]),
        ("zzxz", "zzz", ["zz", "zz", "x-", "zz"]),  # contents that repeat
        ("x", "xx", ["xx", "-x"]),
        ("wx", "x", ["w-", "xx"]),
        ("abc", "ABC", ["aA", "bB", "cC"]),
        ("abcd", "AB", ["aA", "bB", "c-", "d-"]),
        ("", "x", ["-x"]),
        ("", "", []),
    ],
)
def test_pairs(a: str, b: str, expected: list[str]) -> None:
    found = pair(a, b)
    told = [("-" if i is None else a[i]) + ("-" if j is None else b[j]) for i, j in found]
    assert told == expected


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_every_one_is_paired_once_and_nothing_is_alone_on_both_sides_of_a_gap(a: list[int], b: list[int]) -> None:
    found = pair(a, b)
    assert [i for i, _ in found if i is not None] == list(range(len(a)))
    assert sorted(j for _, j in found if j is not None) == list(range(len(b)))
    assert pair(a, a) == [(at, at) for at in range(len(a))]


@given(st.permutations(range(30)))
def test_unique_contents_find_each_other_in_any_order(order: list[int]) -> None:
    assert all(i is not None and order[i] == j for i, j in pair(order, range(30)))


def test_longest_ascending() -> None:
    assert longest_ascending([]) == []
    assert longest_ascending([1, 2, 0, 3]) == [0, 1, 3]
    values = random.Random(0).sample(range(2000), 2000)
    places = longest_ascending(values)
    taken = [values[place] for place in places]
    assert taken == sorted(taken)
    best = [1] * len(values)  # the plain way
    for at in range(300):
        best[at] = 1 + max((best[before] for before in range(at) if values[before] < values[at]), default=0)
    assert len(longest_ascending(values[:300])) == max(best[:300])
