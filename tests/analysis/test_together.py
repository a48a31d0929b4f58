"""How seldom a random order of warps loses nothing."""

from __future__ import annotations

import math
from itertools import chain, permutations

import pytest
import torch

import workbench as wb
from tests.warps import crowded_warp
from workbench.analysis.profile import profile_of
from workbench.analysis.risk import Risk, risk
from workbench.analysis.together import DOUBT, SEEDS, chance_at_most, clean_at_most, clean_orders
from workbench.analysis.verdict import judge
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.model import run_model
from workbench.paths.selection import UNWRITTEN
from workbench.paths.walk import WARP

PATH = get_path("vllm.histogram_2048")


def _ties(k: int, nan: int = 0) -> wb.Row:
    """Of 8191 scores all in one bin, many are equal to the k-th."""
    scores = 1 + 2.0**-14 * torch.randint(0, 3, (8191,), generator=torch.Generator().manual_seed(k)).float()
    scores[:nan] = math.nan
    return wb.Row(scores, scores.numel(), call=wb.Call(k=k))


def _risk(row: wb.Row) -> Risk:
    return risk(profile_of(row, row.call.k or 0), PATH)


@pytest.mark.parametrize("row", [crowded_warp(), _ties(2048), _ties(1024, nan=40)], ids=["one warp", "ties", "NaN"])
def test_what_is_counted_is_what_the_model_loses(row: wb.Row) -> None:
    k = row.call.k or 0
    exact = wb.reference(row).indices
    profile = profile_of(row, k)
    clean = 0
    for seed in range(SEEDS):
        chosen = run_model(PATH, row.valid, k, Arrival("random", "warp", seed)).indices
        clean += judge(row.valid, exact, chosen, UNWRITTEN).missing == 0
    assert clean_orders(profile.cut(11), 3708, row.length) == clean


def test_orders_are_drawn_evenly() -> None:
    """Four warps, the last of 4 scores: of all 24 orders of them as many are clean, within what chance allows."""
    scores = 1 + 2.0**-20 * torch.randperm(100, generator=torch.Generator().manual_seed(3)).float()
    scores[WARP : 2 * WARP] += 2.0**-10
    row = wb.Row(scores, 100, call=wb.Call(k=9))
    cut = profile_of(row, 9).cut(11)
    winners = set(wb.reference(row).indices.tolist())
    places = [list(range(at, min(at + WARP, 100))) for at in range(0, 100, WARP)]
    orders = list(permutations(places))
    share = sum(winners <= set(list(chain(*order))[:70]) for order in orders) / len(orders)
    assert 0.1 < share < 0.9
    assert abs(clean_orders(cut, 70, 100) / SEEDS - share) < 4 * math.sqrt(share * (1 - share) / SEEDS)


def test_scores_one_by_one_would_lose_nearly_always_where_warps_seldom_do() -> None:
    found = _risk(crowded_warp())
    assert found.level == "at risk"
    assert abs(found.order_correlation or 1) < 0.1
    assert found.p_clean is not None
    assert found.p_clean**10 < 1e-7
    assert found.clean_at_most is not None
    assert found.clean_at_most**10 > 0.5
    assert found.most_clean == found.clean_at_most


def test_one_law_is_enough_where_scores_arrive_one_by_one_or_order_does_not_matter() -> None:
    row = crowded_warp()
    for path in PATHS:
        for variant in path.variants:
            found = risk(profile_of(row, 512), path, variant)
            warps = path.arrival_unit == "warp" and found.level == "at risk"
            assert (found.clean_at_most is not None) == warps
            assert found.most_clean == ((found.clean_at_most if warps else found.p_clean) or 0.0)
    without = risk(profile_of(row, 512), PATH, ordered=False)
    assert (without.clean_at_most, without.order_correlation) == (None, None)


def test_of_warps_in_the_blocks_of_a_cluster_nothing_is_claimed() -> None:
    profile = profile_of(crowded_warp(), 512)
    assert clean_at_most(profile, get_path("vllm.cooperative_8"), 0.25) == 1.0
    assert clean_at_most(profile, get_path("torch.topk"), 0.25) == 1.0


@pytest.mark.parametrize(
    ("seen", "tried", "most"), [(0, 256, 0.02662), (1, 2, 0.9995), (255, 256, 0.999996), (9, 9, 1)]
)
def test_a_chance_is_bounded_by_what_was_seen(seen: int, tried: int, most: float) -> None:
    """Of none seen 1 - 0.001 ** (1 / tried), of all but one 0.999 ** (1 / tried)."""
    assert DOUBT == 0.001
    assert chance_at_most(seen, tried) == pytest.approx(most, abs=2e-5)


def test_the_count_is_that_of_the_exact_chance_where_it_is_known() -> None:
    """4096 integers in order in 128 warps, 13 of which are dropped whole or in part: none of the 16 that win."""
    row = wb.Row(torch.arange(70000.0, 74096.0), 4096, call=wb.Call(k=512))
    exact = math.comb(112, 13) / math.comb(128, 13)
    clean = clean_orders(profile_of(row, 512).cut(11), 3708, 4096)
    assert abs(clean / SEEDS - exact) < 3 * math.sqrt(exact * (1 - exact) / SEEDS)
    bound = _risk(row).clean_at_most
    assert bound is not None
    assert exact < bound < 2 * exact
