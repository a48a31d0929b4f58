"""Every arrival order of a small row on a scaled-down path gives exactly the risk that the analysis claims.

Capacity 3, population 5: small enough to run all orders, the mean and the extremes included.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
import torch

from workbench.analysis.reference import reference
from workbench.analysis.risk import RowProfile, risk
from workbench.analysis.verdict import judge
from workbench.capture.row import Row
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths
from workbench.paths.model import run_model
from workbench.paths.spec import Path

CAPACITY = 3
BUFFERED = [path for path in find_paths() if path.buffer is not None]
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
@pytest.mark.parametrize("path", BUFFERED, ids=lambda path: path.name)
def test_risk_is_that_of_all_arrival_orders(path: Path, row: str) -> None:
    values, k = ROWS[row]
    scores, small = torch.tensor(values), path.scaled(CAPACITY)
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


def test_the_rows_show_every_level_and_the_one_difference_between_the_families() -> None:
    def level(path: Path, row: str) -> str | None:
        values, k = ROWS[row]
        return risk(RowProfile(torch.tensor(values), "float32", k), path.scaled(CAPACITY)).level

    by_name = {path.name: path for path in BUFFERED}
    filtered, first = by_name["vllm.filtered"], by_name["vllm.histogram_2048"]
    assert {level(filtered, row) for row in ROWS} == {"safe", "at risk", "certain"}
    # A bin that wins as a whole bypasses the buffer on every path but the first.
    assert level(filtered, "the whole bin wins") == "safe"
    assert level(first, "the whole bin wins") == "certain"
