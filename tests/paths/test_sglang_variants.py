"""SGLang's builds, repairs and faults: what each costs and loses, against what is described of it."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings

from tests.paths.test_repairs import ORDERS, fate, hard_rows
from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import risk
from workbench.analysis.verdict import judge
from workbench.capture.row import Row
from workbench.numeric.bounds import coarse_bin_lower_bound
from workbench.numeric.keys import coarse_keys
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.model import run_model
from workbench.paths.models.sglang_v2 import RULES
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Path, Variant

V2 = [(path, one) for path in find_paths("sglang.v2_*") for one in path.variants if one.model in RULES]
each_v2 = pytest.mark.parametrize(("path", "variant"), V2, ids=[f"{path.name}-{one.name}" for path, one in V2])


def near_one(population: int, length: int, above: int = 0, seed: int = 0) -> torch.Tensor:
    """So many distinct scores just above 1, some at 9, the others at -3, in random places."""
    scores = torch.full((length,), -3.0)
    where = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    scores[where[:population]] = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores[where[population : population + above]] = 9.0
    return scores


def run(name: str, variant: str, scores: torch.Tensor, k: int, arrival: Arrival | None = None) -> tuple[Selection, str]:
    path = get_path(name)
    assert path.as_variant(path.variant(variant)).unmet(k=k, length=scores.numel(), dtype="float32") == []
    selection = run_model(path, scores, k, arrival or Arrival("random", seed=4), variant)
    exact = reference(Row(scores, scores.numel()), k).indices
    return selection, judge(scores, exact, selection.indices, poison=UNWRITTEN).kind


# Builds


@pytest.mark.parametrize(("variant", "capacity"), [("stock", 4096), ("build_6144", 6144), ("build_16384", 16384)])
def test_a_build_holds_its_capacity_and_not_one_more(variant: str, capacity: int) -> None:
    path = get_path("sglang.fast_topk")
    for population, kind in ((capacity, "exact"), (capacity + 1, "lossy")):
        # Ascending in the row, in index order: the last, and best, does not fit.
        scores = near_one(population, 40000).sort().values
        selection, found = run(path.name, variant, scores, 2048, Arrival("index"))
        assert (found, selection.telemetry.capacity) == (kind, capacity)
        level = risk(RowProfile(scores, "float32", 2048), path, path.variant(variant)).level
        assert level == ("safe" if kind == "exact" else "at risk")


# Repairs of the 8-bit selectors

LEGACY = [("fast_topk", 2048), ("v4_aot", 512), ("v1", 512), ("kpool", 512), ("qsa", 512)]


@pytest.mark.parametrize(("name", "k"), LEGACY)
def test_cutoff_first_costs_five_more_passes_from_a_full_buffer_on(name: str, k: int) -> None:
    """Six passes after the histogram, two of them in place of one; a full bin already goes this way."""
    capacity = get_path(f"sglang.{name}").buffer.capacity
    for population, passes, staged in ((capacity - 1, 2, capacity - 1), (capacity, 7, 0), (capacity + 1, 7, 0)):
        selection, kind = run(f"sglang.{name}", "cutoff_first", near_one(population, 30000, above=40), k)
        cost, seen = selection.telemetry.cost, selection.telemetry
        assert kind == "exact"
        assert (cost.row_passes, cost.staged, bool(cost.fallback)) == (passes, staged, passes == 7)
        if passes == 7:
            assert cost.bytes_read == 7 * 30000 * 4
            assert [(one.shift, one.bits) for one in seen.passes] == [(24, 8), (16, 8), (8, 8), (0, 8)]
            assert (seen.stored, seen.dropped.numel()) == (0, 0)


def test_cutoff_first_always_counts_four_bytes() -> None:
    """Though two halves of the bin differ in the third byte, and all of the better half win."""
    scores = torch.full((9000,), 1.0)
    scores[:512] = 1 + 2.0**-7
    found, kind = run("sglang.kpool", "cutoff_first", scores, 512)
    assert (kind, len(found.telemetry.passes), found.telemetry.cost.row_passes) == ("exact", 4, 7)
    early, kind = run("sglang.qsa", "filtered_rescan", scores, 512)
    assert (kind, len(early.telemetry.passes), early.telemetry.cost.row_passes) == ("exact", 2, 5)


def test_filtered_rescan_fills_the_buffer_first() -> None:
    for population, passes, staged in ((4096, 2, 4096), (4097, 7, 4096), (9000, 7, 4096)):
        selection, kind = run("sglang.qsa", "filtered_rescan", near_one(population, 30000, above=40), 512)
        cost = selection.telemetry.cost
        assert (kind, cost.row_passes, cost.staged) == ("exact", passes, staged)
        assert bool(cost.fallback) is (passes == 7)


@pytest.mark.parametrize(("name", "k"), [("fast_topk", 2048), ("kpool", 512)])
def test_resume_index_reads_on_where_the_buffer_was_full(name: str, k: int) -> None:
    capacity, length = 4096, 30000
    fits, kind = run(f"sglang.{name}", "resume_index", near_one(capacity, length), k)
    assert (kind, fits.telemetry.cost.fallback, fits.telemetry.cost.row_passes) == ("exact", "", 2)
    scores = near_one(9000, length, above=40)
    selection, kind = run(f"sglang.{name}", "resume_index", scores, k, Arrival("index"))
    seen, cost = selection.telemetry, selection.telemetry.cost
    assert (kind, seen.stored, seen.dropped.numel(), bool(cost.fallback)) == ("exact", capacity, 0, True)
    # Every member is counted, buffered or not.
    assert seen.passes[0].seen == seen.population == 9000
    for before, after in zip(seen.passes, seen.passes[1:], strict=False):
        assert (after.seen, after.need) == (before.kept, before.need - before.above)
    # In index order each lane goes on within 1024 scores of the first that did not fit: far less than a pass a round.
    full = int(torch.nonzero((scores > 1) & (scores < 2)).flatten()[capacity])
    extra = cost.bytes_read // 4 - 2 * length
    first_round = extra - sum(min(one.seen, capacity) for one in seen.passes)
    assert 0 < first_round <= len(seen.passes) * (length - full + 1024)
    assert cost.row_passes == 2
    assert capacity <= cost.staged <= 2 * capacity


def test_resume_index_buffers_survivors_as_room_appears() -> None:
    """Two values: half the bin drops out in the round that tells them apart, and the rest of the winners fit."""
    scores = torch.full((12000,), 1.0)
    scores[torch.randperm(12000, generator=torch.Generator().manual_seed(1))[:5000]] = 1 + 2.0**-15
    selection, kind = run("sglang.fast_topk", "resume_index", scores, 2048, Arrival("random", seed=2))
    rounds = [(one.shift, one.seen, one.kept) for one in selection.telemetry.passes]
    assert kind == "ties"
    assert rounds == [(24, 12000, 12000), (16, 12000, 12000), (8, 12000, 5000), (0, 5000, 5000)]
    assert selection.telemetry.cost.staged > 4096


def test_unique_key_is_deterministic_where_the_bin_overflows_and_there_alone() -> None:
    k, best = 512, torch.arange(512)
    for length, alike in ((4096, False), (4097, True), (20000, True)):
        scores = torch.ones(length)
        taken = [run("sglang.kpool", "unique_key", scores, k, order)[0].indices.sort().values for order in ORDERS]
        same = [torch.equal(one.long(), best) for one in taken]
        assert all(same) is alike
    # Four bytes of the value, then of the index the two in which 20000 positions differ.
    seen = run("sglang.kpool", "unique_key", scores, k)[0].telemetry
    assert [one.shift for one in seen.passes] == [56, 48, 40, 32, 24, 16, 8, 0][: len(seen.passes)]
    assert 5 <= len(seen.passes) <= 8
    assert seen.cost.row_passes == 1 + len(seen.passes) + 1
    assert (seen.cost.staged, seen.dropped.numel()) == (0, 0)
    distinct = run("sglang.kpool", "unique_key", near_one(9000, 20000), k)[0].telemetry
    assert max(one.shift for one in distinct.passes) == 56
    assert min(one.shift for one in distinct.passes) >= 32


def test_repairs_differ_in_what_they_cost() -> None:
    scores = near_one(9000, 30000, above=40)
    costs = {
        variant: run("sglang.kpool", variant, scores, 512)[0].telemetry.cost
        for variant in ("cutoff_first", "resume_index", "unique_key")
    }
    costs["filtered_rescan"] = run("sglang.qsa", "filtered_rescan", scores, 512)[0].telemetry.cost
    assert len({(cost.row_passes, cost.bytes_read, cost.staged) for cost in costs.values()}) == 4
    assert len({cost.fallback for cost in costs.values()}) == 4


# Version 2: the exact fallback


@pytest.mark.parametrize(
    ("name", "fast", "length"),
    [("register", 1, 9000), ("streaming", 2, 20000), ("cluster_8", 2, 70000), ("cluster_16", 2, 70000)],
)
def test_the_exact_fallback_costs_five_passes_on_more_ties_than_fit(name: str, fast: int, length: int) -> None:
    for population, passes in ((2048, fast), (2049, fast + 5), (5000, fast + 5)):
        selection, kind = run(f"sglang.v2_{name}", "exact_fallback", near_one(population, length, above=40), 2000)
        cost = selection.telemetry.cost
        assert (kind, cost.row_passes, cost.staged) == ("exact", passes, min(population, 2048))
        assert bool(cost.fallback) is (passes > fast)
        stock, kind = run(f"sglang.v2_{name}", "stock", near_one(population, length, above=40), 2000)
        assert (kind == "exact", stock.telemetry.cost.row_passes) == (population <= 2048, fast)


def test_0_5_23_narrows_ties_by_digits_until_they_fit() -> None:
    population, length = 3000, 20000
    selection, kind = run("sglang.v2_streaming", "v0.5.23", near_one(population, length, above=40), 2000)
    assert kind == "exact"
    assert [one.bits for one in selection.telemetry.passes[:2]] == [12, 12]
    assert selection.telemetry.cost.row_passes == 2 + 2 + 1  # a third digit is not needed
    assert "narrowed" in selection.telemetry.cost.fallback


def test_0_5_23_returns_the_best_numbers_where_nan_fill_the_row() -> None:
    scores = torch.randn(9000, generator=torch.Generator().manual_seed(3))
    scores[:600] = math.nan
    selection, kind = run("sglang.v2_register", "v0.5.23", scores, 512)
    assert kind == "lossy"  # the reference ranks NaN highest
    best = torch.topk(torch.where(torch.isnan(scores), -math.inf, scores), 512).indices
    assert set(selection.indices.tolist()) == set(best.tolist())


@pytest.mark.parametrize(("start", "first"), [(0, 509), (5, 508), (7, 506), (8, 509)])
def test_slots_that_nan_leave_are_filled_up_from_the_aligned_cell(start: int, first: int) -> None:
    """Three NaN count as higher ones and are not collected: the last three slots hold their own numbers."""
    scores = torch.full((9000,), -1.0)
    scores[:509] = 1.0
    scores[-3:] = math.nan
    path = get_path("sglang.v2_register")
    indices = run_model(path, scores, 512, Arrival("index"), start=start).indices
    assert indices[-3:].tolist() == [first, first + 1, first + 2]


def test_the_exact_fallback_stops_where_all_ties_are_one_value() -> None:
    scores = torch.zeros(20000)
    scores[::200] = 1.0
    selection, kind = run("sglang.v2_streaming", "exact_fallback", scores, 2048)
    assert (kind, selection.telemetry.cost.row_passes, selection.telemetry.cost.fallback) == ("ties", 3, "")
    path = get_path("sglang.v2_streaming")
    assert risk(RowProfile(scores, "float32", 2048), path, path.variant("exact_fallback")).level == "safe"


# Version 2: faults


def test_a_tie_cap_of_1024_leaves_924_slots_unwritten() -> None:
    """Seen in a nightly run: 100 winners over 8220 zeros, k = 2048."""
    scores = torch.zeros(8320)
    scores[torch.randperm(8320, generator=torch.Generator().manual_seed(9))[:100]] = 1.5
    path = get_path("sglang.v2_register")
    for variant, unwritten, kind in (("stock", 0, "ties"), ("tie_cap_1024", 2048 - 100 - 1024, "invalid")):
        selection, found = run(path.name, variant, scores, 2048)
        assert (found, int((selection.indices == UNWRITTEN).sum())) == (kind, unwritten)
        claimed = risk(RowProfile(scores, "float32", 2048), path, path.variant(variant))
        assert (claimed.least_missing, claimed.most_missing) == (unwritten, unwritten)


def test_a_tie_cap_of_1024_holds_where_so_many_ties_are_enough() -> None:
    for population, above, kind in ((1024, 1024, "exact"), (1025, 1023, "invalid"), (1025, 1024, "lossy")):
        scores = near_one(population, 16000, above=above).sort().values
        _, found = run("sglang.v2_register", "tie_cap_1024", scores, 2048, Arrival("index"))
        assert found == kind, (population, above)


def ranked_last() -> torch.Tensor:
    """48 scores of -inf and 3 numbers: with k = 16, 13 of the -inf are winners."""
    scores = torch.full((51,), -math.inf)
    scores[[7, 20, 33]] = torch.tensor([0.5, 1.5, 2.5])
    return scores


@pytest.mark.parametrize("name", ["register", "cluster_8"])
def test_idle_lanes_of_flt_max_outrank_every_infinite_tie(name: str) -> None:
    scores, path = ranked_last(), get_path(f"sglang.v2_{name}")
    stock, kind = run(path.name, "stock", scores, 16)
    assert (kind, int(torch.isinf(scores[stock.indices.long()]).sum())) == ("exact", 13)
    selection, kind = run(path.name, "flt_max_padding", scores, 16)
    inside = selection.indices[(selection.indices >= 0) & (selection.indices < 51)].long()
    assert kind == "invalid"
    assert int(torch.isinf(scores[inside]).sum()) == 0
    claimed = risk(RowProfile(scores, "float32", 16), path, path.variant("flt_max_padding"))
    assert (claimed.level, claimed.least_missing, claimed.most_missing) == ("certain", 13, 13)


def test_cells_past_the_end_of_a_row_in_registers_are_selected_over_infinities() -> None:
    scores = torch.full((301,), -math.inf)
    scores[:3] = torch.arange(1.0, 4.0)
    exact = reference(Row(scores, 301), 16).indices
    past = {}
    for name in ("register", "cluster_8"):
        selection, _ = run(f"sglang.v2_{name}", "flt_max_padding", scores, 16)
        past[name] = judge(scores, exact, selection.indices, poison=UNWRITTEN).out_of_range
    assert past == {"register": 3, "cluster_8": 0}  # 301 scores fill 75 vectors and one score of the next
    assert run("sglang.v2_register", "stock", scores, 16)[1] == "ties"


def boundary(bits: int = 12) -> float:
    """A negative boundary of both keys whose midpoint rounds to the lower bin."""
    bin_ = 300 << (bits - 10)
    low = coarse_bin_lower_bound(bin_, bits, "midpoint")
    assert low < coarse_bin_lower_bound(bin_, bits) < 0
    assert int(coarse_keys(torch.tensor([low]), bits)) == bin_ - 1
    return low


@pytest.mark.parametrize("name", ["v2_register", "v2_cluster_8"])
def test_the_old_lower_bound_lets_a_boundary_pass_as_a_higher_score(name: str) -> None:
    """40 better scores and 60 on the boundary for 50 slots: all 100 pass, and the first to come take the slots."""
    scores = torch.full((100,), boundary())
    scores[60:] = torch.arange(1.0, 41.0)
    path = get_path(f"sglang.{name}")
    selection, kind = run(path.name, "old_lower_bound", scores, 50, Arrival("index"))
    assert (kind, selection.telemetry.above, selection.telemetry.population) == ("lossy", 40, 60)
    assert run(path.name, "stock", scores, 50, Arrival("index"))[1] in ("exact", "ties")
    claimed = risk(RowProfile(scores, "float32", 50), path, path.variant("old_lower_bound"))
    assert claimed.level == "at risk"
    assert "100 scores pass" in claimed.note
    assert risk(RowProfile(scores, "float32", 50), path).level == "safe"


def test_clamped_counts_hide_the_overflow_of_one_rank() -> None:
    """All ties lie in the runs of the second rank: its count is clamped to 2048, and no overflow is seen."""
    length, path = 70000, get_path("sglang.v2_cluster_8")
    owners = path.buffer.ranks.owners(torch.arange(length), length)
    found = {}
    for rank in (0, 1):
        scores = torch.full((length,), -3.0)
        where = torch.nonzero(owners == rank).flatten()[:3000]
        scores[where] = (torch.arange(1, 3001, dtype=torch.int32) + 0x3F800000).view(torch.float32)
        for variant in ("clamped_tie_count", "exact_fallback"):
            _, kind = run(path.name, variant, scores, 1000, Arrival("index"))
            level = risk(RowProfile(scores, "float32", 1000), path, path.variant(variant)).level
            found[rank, variant] = (kind, level)
    assert found[1, "clamped_tie_count"] == ("lossy", "at risk")
    assert {one for key, one in found.items() if key != (1, "clamped_tie_count")} == {("exact", "safe")}


@pytest.mark.parametrize("variant", ["stock", "contiguous_ranks"])
def test_the_layout_of_ranks_alone_changes_no_risk(variant: str) -> None:
    """3000 ties in one slice, all winners among them, and 1000 elsewhere: a rank holds as many as the cluster does.

    What differs is which arrival orders are likely: a real cluster takes the ties of one rank after another.
    """
    scores = torch.full((131072,), -3.0)
    scores[:3000] = 1.001 + torch.arange(3000) * 2.0**-20
    scores[100000:101000] = 1.0001
    path = get_path("sglang.v2_cluster_8")
    claimed = risk(RowProfile(scores, "float32", 1000), path, path.variant(variant))
    assert claimed.expected_missing == pytest.approx(1000 * (1 - 2048 / 4000))
    owners = path.as_variant(path.variant(variant)).buffer.ranks.owners(torch.arange(3000), 131072)
    assert owners.unique().numel() == (6 if variant == "stock" else 1)
    exact = reference(Row(scores, 131072), 1000).indices
    orders = [Arrival("random", seed=seed) for seed in range(6)]
    seen = [judge(scores, exact, run_model(path, scores, 1000, order, variant).indices).missing for order in orders]
    assert sum(seen) / len(seen) == pytest.approx(claimed.expected_missing, rel=0.05)


NAN, INF, EDGE = math.nan, math.inf, -2.875
ODD_ROWS = {
    "negative zeros pass as higher": ([1.0, -0.0, -0.0, -0.0], 2),
    "negative zeros alone": ([-0.0, -0.0, -0.0, -1.0], 2),
    "zeros of both signs are ties": ([0.0, -0.0, -0.0, 1e-9], 2),
    "infinities pass as higher": ([INF, INF, 70000.0, 70001.0], 3),
    "infinities below": ([-INF, -INF, -INF, 1.0], 3),
    "the least number": ([-3.4028234663852886e38, -INF, -INF, -70000.0], 3),
    "a boundary passes as higher": ([EDGE, EDGE, EDGE, 5.0], 2),
    "a boundary among ties": ([EDGE, EDGE, -2.9, 5.0], 3),
    "NaN": ([NAN, 1.0, 1.0 + 2.0**-12, 2.0], 3),
    "NaN at the end": ([1.0 + 2.0**-12, 0.5, 2.0, NAN], 3),
    "more NaN than k": ([1.0, NAN, NAN, NAN], 2),
    "ties": ([1.0, 1.0, 1.0, 1.0 + 2.0**-12], 2),
    "ties below a winner": ([1.0, 1.0 + 2.0**-12, 1.0 + 2.0**-11, 5.0], 3),
}


@pytest.mark.parametrize("capacity", [1, 2, 4])
@pytest.mark.parametrize(
    ("path", "variant"), [(p, v) for p, v in V2 if not p.name.endswith("16")], ids=lambda one: one.name
)
def test_risk_on_odd_rows_is_that_of_all_arrival_orders(path: Path, variant: Variant, capacity: int) -> None:
    small = path.scaled(capacity, rank_capacity=max(1, capacity - 1), rank_unit=1, variants=True)
    variant = small.variant(variant.name)
    for name, (values, k) in ODD_ROWS.items():
        if RULES[variant.model].fallback != "none" and capacity < k:
            continue  # a fallback's text demands room for k ties
        scores = torch.tensor([boundary() if value == EDGE else value for value in values])
        exact = reference(Row(scores, 4), k).indices
        seen: Counter[int] = Counter()
        for order in permutations(range(4)):
            selection = run_model(small, scores, k, Arrival("explicit", order=order), variant.name)
            seen[judge(scores, exact, selection.indices, poison=UNWRITTEN).missing] += 1
        claimed = risk(RowProfile(scores, "float32", k), small, variant)
        if claimed.level is None:
            assert claimed.note, name
            continue
        assert (claimed.least_missing, claimed.most_missing) == (min(seen), max(seen)), name
        assert claimed.p_clean == pytest.approx(seen[0] / 24), name
        mean = sum(lost * orders for lost, orders in seen.items()) / 24
        assert claimed.expected_missing == pytest.approx(mean), name


@pytest.mark.parametrize("name", ["register", "cluster_8"])
@pytest.mark.parametrize("length", [30, 51, 66, 100, 131, 301])
def test_what_padding_outranks_is_known(name: str, length: int) -> None:
    path, known = get_path(f"sglang.v2_{name}"), 0
    variant = path.variant("flt_max_padding")
    for seed in range(12):
        made = torch.Generator().manual_seed(seed)
        pool = torch.tensor([-INF, -INF, -INF, -3.4028234663852886e38, -70000.0, -80000.0, 1.0])
        scores = pool[torch.randint(0, 3 + seed % 5, (length,), generator=made)]
        k = int(torch.randint(1, length, (1,), generator=made))
        claimed = risk(RowProfile(scores, "float32", k), path, variant)
        exact = reference(Row(scores, length), k).indices
        selections = [run_model(path, scores, k, order, variant.name) for order in ORDERS]
        seen = {judge(scores, exact, one.indices, poison=UNWRITTEN).missing for one in selections}
        if claimed.level is None:
            assert claimed.note
            continue
        known += 1
        assert seen == {claimed.least_missing} == {claimed.most_missing}, (seed, k)
    assert known >= 8


@settings(max_examples=40, deadline=None)
@given(made=hard_rows())
def test_the_exact_fallback_loses_where_negative_zeros_pass_as_higher_and_nowhere_else(
    made: tuple[torch.Tensor, int],
) -> None:
    scores, k = made
    for path, variant in V2:
        if variant.name != "exact_fallback" or path.name not in ("sglang.v2_register", "sglang.v2_cluster_8"):
            continue
        small = path.scaled(max(k, 4), rank_capacity=max(k, 4), rank_unit=1)
        for order in ORDERS:
            assert fate(small, variant.name, scores + 0.0, k, order)[0] in ("exact", "ties")
            kind, _ = fate(small, variant.name, scores, k, order)
            level = risk(RowProfile(scores, "float32", k), small, variant).level
            assert kind in ("exact", "ties") or level != "safe"


@pytest.mark.parametrize("name", ["register", "streaming"])
def test_negative_zeros_are_no_loss_but_can_crowd_a_winner_out_of_the_exact_fallback(name: str) -> None:
    """-0.0 in the place of +0.0 is a tie, whatever its bits; it passes as a higher score, and if more do than k, one
    that really is higher and comes after them is lost."""
    length, k = (20_000 if name == "streaming" else 200), 50
    path = get_path(f"sglang.v2_{name}")
    zeros = torch.full((length,), -0.0)
    zeros[:40] = 0.0
    winner = zeros.clone()
    winner[-1] = 1.0
    for scores, level, in_order in ((zeros, "safe", 0), (winner, "at risk", 1)):
        exact = reference(Row(scores, length), k).indices
        for order, missing in ((Arrival("index"), in_order), (Arrival("reverse"), 0)):
            found = run_model(path, scores, k, order, "exact_fallback").indices
            assert judge(scores, exact, found).missing == missing, order
        assert risk(RowProfile(scores, "float32", k), path, path.variant("exact_fallback")).level == level


def test_nan_counts_but_is_never_collected() -> None:
    """What is short is filled with the positions of the slots, which can repeat a winner."""
    scores = torch.tensor([3.0, 2.0, math.nan, 1.0, 0.5, math.nan, math.nan])
    selection, kind = run("sglang.v2_register", "stock", scores, 3)
    assert selection.indices.tolist() == [0, 1, 2]  # all three NaN win; their bin is collected empty
    assert kind == "lossy"
    scores = torch.tensor([-1.0, -2.0, 5.0, -3.0, 7.0, math.nan, math.nan, -9.0])
    selection, kind = run("sglang.v2_register", "stock", scores, 4)
    assert (selection.indices.tolist(), kind) == ([4, 2, 2, 3], "invalid")
    assert risk(RowProfile(scores, "float32", 4), get_path("sglang.v2_register")).level == "certain"
