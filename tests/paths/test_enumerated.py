"""Every arrival order of a small row on a scaled-down path gives exactly the risk that the analysis claims.

Capacity 3, population 5: small enough to run all orders, the mean and the extremes included.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
import torch

from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import risk
from workbench.analysis.verdict import judge
from workbench.capture.row import Row
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model
from workbench.paths.spec import Path

CAPACITY = 3


def scaled_down() -> dict[str, Path]:
    """Every algorithm once, under the name of the first path that has it; clusters with ranks that overflow too."""
    found: dict[tuple[object, ...], Path] = {}
    for path in find_paths():
        if path.buffer is None:
            continue
        small = [path.scaled(CAPACITY)]
        if path.buffer.ranks is not None:
            small = [path.scaled(CAPACITY, rank_capacity=2, rank_unit=1), path.scaled(4, rank_capacity=1, rank_unit=3)]
        for one in small:
            found.setdefault((one.family, one.key_bits, one.buffer, one.digits, one.ranked_ties), one)
    return {f"{one.name}-{one.buffer.capacity}": one for one in found.values()}


SCALED = scaled_down()
STEP = 2.0**-12  # five steps above 1.0 stay in one bin under every coarse key

NEAR_ONE = [1 + STEP * i for i in range(1, 6)]
ROWS = {
    "distinct, one above": ([*NEAR_ONE, 9.0], 3),
    "distinct, all in the bin": (NEAR_ONE, 2),
    "need fills the buffer": (NEAR_ONE, 3),
    "need is more than the buffer": ([*NEAR_ONE, 9.0], 5),
    "ties at the cut": ([NEAR_ONE[4], 1.0, 1.0, 1.0, NEAR_ONE[3], 9.0], 4),
    "ties at the cut, none better": ([1.0, 1.0, 1.0, 1.0, NEAR_ONE[0] - 2 * STEP, 9.0], 3),
    "more ties than can be dropped": ([1.0] * 5 + [9.0], 3),
    "two tied winners": ([NEAR_ONE[4], NEAR_ONE[4], *NEAR_ONE[:3], 9.0], 3),
    "negative": ([-x for x in NEAR_ONE] + [9.0], 3),
    "past fp16": ([70000.0, 70001.0, 70002.0, 70003.0, float("inf")], 2),
    "below fp16": ([-70000.0, -70001.0, -70002.0, -70003.0, float("-inf"), 1.0], 3),
    "NaN": ([float("nan")] * 5 + [1.0], 3),
    "the bin fits": ([*NEAR_ONE[:3], 9.0, 8.0], 4),
    "the whole bin wins": ([*NEAR_ONE, -3.0], 5),
}


def outcomes(path: Path, scores: torch.Tensor, k: int) -> Counter[int]:
    """How many arrival orders lose how many values."""
    exact = reference(Row(scores, scores.numel()), k).indices
    seen: Counter[int] = Counter()
    for order in permutations(range(scores.numel())):
        selection = run_model(path, scores, k, Arrival("explicit", order=order))
        seen[judge(scores, exact, selection.indices).missing] += 1
    return seen


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", SCALED)
def test_risk_is_that_of_all_arrival_orders(name: str, row: str) -> None:
    values, k = ROWS[row]
    scores, small = torch.tensor(values), SCALED[name]
    seen = outcomes(small, scores, k)
    claimed = risk(RowProfile(scores, "float32", k), small)
    orders = seen.total()
    assert claimed.refused == ()
    assert claimed.least_missing == min(seen)
    assert claimed.most_missing == max(seen)
    assert claimed.p_clean == pytest.approx(seen[0] / orders)
    assert claimed.expected_missing == pytest.approx(sum(n * lost for lost, n in seen.items()) / orders)
    levels = {(True, False): "safe", (True, True): "at risk", (False, True): "certain"}
    assert claimed.level == levels[0 in seen, any(lost > 0 for lost in seen)]


def level(name: str, row: str) -> str | None:
    values, k = ROWS[row]
    return risk(RowProfile(torch.tensor(values), "float32", k), SCALED[name]).level


def test_the_rows_show_every_level() -> None:
    for name, path in SCALED.items():
        seen = {level(name, row) for row in ROWS}
        # With six scores on ranks that store one or two each, position alone can decide what a rank loses.
        assert seen >= ({"safe", "certain"} if path.buffer.ranks else {"safe", "at risk", "certain"}), name
    assert {level(name, row) for name, path in SCALED.items() if path.buffer.ranks for row in ROWS} == {
        "safe",
        "at risk",
        "certain",
    }


def test_a_bin_that_wins_as_a_whole_bypasses_every_buffer_but_two_kinds() -> None:
    certain = {name for name in SCALED if level(name, "the whole bin wins") == "certain"}
    passing = {name for name, path in SCALED.items() if path.buffer.whole_bin}
    assert passing == {name for name in SCALED if name.startswith(("vllm.histogram_2048", "vllm.cooperative"))}
    assert {"vllm.histogram_2048-3"} <= certain <= passing


def test_clusters_are_among_them_in_both_layouts() -> None:
    ranks = [path.buffer.ranks for path in SCALED.values() if path.buffer.ranks]
    assert {rank.layout for rank in ranks} == {"contiguous", "interleaved"}
    assert {rank.in_order for rank in ranks} == {True, False}
    assert {rank.count for rank in ranks} == {2, 4, 8, 16}
