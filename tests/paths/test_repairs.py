"""Repairs lose nothing: under every arrival order of small rows, on the truth cases, and on rows made to break them."""

from __future__ import annotations

from itertools import islice, permutations
from math import factorial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import truth
from tests.paths.test_enumerated import ROWS
from workbench.analysis.reference import reference
from workbench.analysis.verdict import judge
from workbench.capture.row import Call, Row
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model
from workbench.paths.selection import Selection
from workbench.paths.spec import Path, TieBreak, Walk

REPAIRS = [
    (path, variant)
    for path in find_paths()
    for variant in path.variants
    if variant.lossless and variant.modelled and path.family != "identity"
]
NAMES = [f"{path.name}-{variant.name}" for path, variant in REPAIRS]
each_repair = pytest.mark.parametrize(("path", "variant"), REPAIRS, ids=NAMES)
ORDERS = (
    Arrival("index"),
    Arrival("reverse"),
    Arrival("random", seed=1),
    Arrival("random", "warp", seed=2),
    Arrival("walk", seed=3, walk=Walk(load=1)),
)
CAPACITY = 3


def fate(path: Path, variant: str, scores: torch.Tensor, k: int, arrival: Arrival) -> tuple[str, Selection]:
    exact = reference(Row(scores, scores.numel(), call=Call(width=1 << 21)), k).indices
    selection = run_model(path, scores, k, arrival, variant)
    return judge(scores, exact, selection.indices, poison=-777).kind, selection


def allowed(path: Path, variant: str) -> set[str]:
    """``exact`` alone where the variant promises which of equal scores it takes."""
    contract = path.variant(variant).contract or path.contract
    return {"exact"} if contract.tie_break is TieBreak.PREFER_SMALLER_INDEX else {"exact", "ties"}


@pytest.mark.parametrize("most", [60, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
@each_repair
def test_arrival_orders_of_small_rows(path: Path, variant: object, most: int | None) -> None:
    """Every arrival order; the quick form takes so many of each row, evenly spread over all of them."""
    small = path.scaled(CAPACITY, rank_capacity=2, rank_unit=1, variants=True)
    for name, (values, k) in ROWS.items():
        if name == "NaN":
            continue
        scores = torch.tensor(values)
        if small.unmet(k=k, length=scores.numel(), dtype="float32"):
            continue
        step = 1 if most is None else max(1, factorial(scores.numel()) // most)
        for order in islice(permutations(range(scores.numel())), 0, None, step):
            kind, _ = fate(small, variant.name, scores, k, Arrival("explicit", order=order))
            assert kind in allowed(path, variant.name), (name, order)


@pytest.mark.parametrize("case_id", truth.cases())
def test_the_truth_cases(case_id: str) -> None:
    """The first two rows of a case on every repair whose length, k and dtype they fit, arrival orders in turn."""
    for row in truth.rows(case_id, most=2):
        for number, (path, variant) in enumerate(REPAIRS):
            if path.unmet(k=row.k, length=row.length, dtype=path.dtypes[0]):
                continue
            scores = row.valid.to(getattr(torch, path.dtypes[0]))
            arrival = ORDERS[(number + row.index) % len(ORDERS)]
            kind, _ = fate(path, variant.name, scores, row.k, arrival)
            assert kind in allowed(path, variant.name), (path.name, variant.name, row.index, arrival)


SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), 65503.0, 65504.0, 65519.9, 65520.0, 65536.0, -65520.0, 1e-45, -1e-45]
SPECIAL += [2.0**-25, 2.0**-24, 6.1e-5, 1.0, 1.2495, 1.2498]
VALUES = st.one_of(st.sampled_from(SPECIAL), st.floats(width=32, allow_nan=False))


@st.composite
def hard_rows(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    """Rows of few distinct values, so that bins overflow, cut anywhere."""
    pool = torch.tensor(draw(st.lists(VALUES, min_size=1, max_size=8)))
    length = draw(st.integers(2, 60))
    picks = torch.tensor(draw(st.lists(st.integers(0, pool.numel() - 1), min_size=length, max_size=length)))
    return pool[picks], draw(st.integers(1, length - 1))


@each_repair
@settings(max_examples=60, deadline=None)
@given(made=hard_rows(), capacity=st.integers(1, 12), order=st.sampled_from(ORDERS))
def test_hard_rows(path: Path, variant: object, made: tuple[torch.Tensor, int], capacity: int, order: Arrival) -> None:
    scores, k = made
    small = path.scaled(capacity, rank_capacity=max(1, capacity // 2), rank_unit=1, variants=True)
    if small.unmet(k=k, length=scores.numel(), dtype="float32"):
        return
    kind, _ = fate(small, variant.name, scores, k, order)
    assert kind in allowed(path, variant.name)


THRESHOLDS = (2048, 4096, 8192, 16384, 32768, 65536, 98304)


@each_repair
def test_exact_capacities_and_lengths_around_every_threshold(path: Path, variant: object) -> None:
    """One bin of exactly the capacity, one more and one less, in rows around each length at which a path changes."""
    k = path.ks[-1] if path.ks else min(512, path.k_up_to or 512)
    buffer = path.variant("stock").buffer or path.buffer
    capacity = buffer.slots(k) if buffer else 4096
    for length in sorted({edge + step for edge in (k, *THRESHOLDS) for step in (-1, 0, 1)}):
        if path.unmet(k=k, length=length, dtype=path.dtypes[0]):
            continue
        for population in {min(length, max(k, capacity + step)) for step in (-1, 0, 1)} | {length}:
            scores = torch.full((length,), -3.0)
            where = torch.randperm(length, generator=torch.Generator().manual_seed(length))[:population]
            near = torch.arange(1, population + 1, dtype=torch.int32) % 65536 + 0x3F800000
            scores[where] = near.view(torch.float32)
            scores = scores.to(getattr(torch, path.dtypes[0]))
            kind, _ = fate(path, variant.name, scores, k, Arrival("random", seed=length))
            assert kind in allowed(path, variant.name), (length, population)
