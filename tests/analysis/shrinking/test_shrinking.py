"""Shrinking on scaled-down paths: what is kept, that it ends, and that a second time changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.warps import crowded_warp
from workbench.analysis.padded import PADDED
from workbench.analysis.risk import ORDERED
from workbench.analysis.shrinking.candidate import Candidate, Subject, complexity
from workbench.analysis.shrinking.fault import MOST_CLEAN, MOST_ORDER, Fault, Predicate, look, scattered
from workbench.analysis.shrinking.passes import PASSES
from workbench.analysis.shrinking.shrink import shrinking
from workbench.analysis.shrinking.values import LEVELS, near_one, plain_numbers
from workbench.analysis.verdict import judge
from workbench.numeric.keys import coarse_keys
from workbench.numeric.select import exact_topk
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.model import run_model
from workbench.paths.selection import UNWRITTEN

BUFFERED = [path for path in find_paths() if path.buffer is not None and path.name != "tilelang.topk_selector"]


def candidate(path: str, scores: torch.Tensor, k: int, variant: str = "stock", capacity: int = 0) -> Candidate:
    spec = get_path(path)
    if capacity:
        spec = spec.scaled(capacity, rank_capacity=capacity, rank_unit=4, variants=True)
    dtype = str(scores.dtype).removeprefix("torch.")
    subject = Subject(spec, spec.variant(variant), dtype)
    fault = look(Candidate(subject, scores, k)).fault
    binned = fault is not None and fault.binned(subject.variant)
    return Candidate(replace(subject, binned=binned), scores, k)


def predicate(row: Candidate) -> Predicate:
    return Predicate(look(row), MOST_CLEAN, lambda _: True)


def shrunk(row: Candidate) -> Candidate:
    smallest = row
    for step in shrinking(row, predicate(row)):
        smallest = step.smallest
    return smallest


def fault(row: Candidate) -> Fault:
    found = look(row).fault
    assert found is not None
    return found


def one_bin(count: int, length: int, above: int = 0, seed: int = 0) -> torch.Tensor:
    """``count`` distinct neighbours of 1 in random places, ``above`` scores over them, noise below."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(length, generator=generator) - 4
    places = torch.randperm(length, generator=generator)
    scores[places[:count]] = (torch.arange(1, count + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores[places[count : count + above]] = 8 + torch.rand(above, generator=generator)
    return scores


rows = st.lists(
    st.one_of(
        st.floats(1, 1.015625, width=32),
        st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.0, math.inf, -math.inf, math.nan, -math.nan, 70000.0]),
    ),
    min_size=6,
    max_size=40,
)


@pytest.mark.parametrize("path", BUFFERED, ids=lambda path: path.name)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(scores=rows, k=st.integers(1, 12), capacity=st.integers(1, 5))
def test_any_row_keeps_its_fault_gets_simpler_and_is_a_minimum(
    path: object, scores: list[float], k: int, capacity: int
) -> None:
    row = candidate(path.name, torch.tensor(scores), min(k, len(scores) - 1), capacity=capacity)
    before = look(row)
    if before.fault is None:
        return
    sizes, smallest = [row.size], row
    for step in shrinking(row, predicate(row)):
        if step.kept:
            sizes.append(step.smallest.size)
        smallest = step.smallest
    assert sizes == sorted(set(sizes), reverse=True)
    after = look(smallest)
    assert after.fault == before.fault
    assert (after.risk.p_clean or 0.0) <= max(MOST_CLEAN, before.risk.p_clean or 0.0)
    assert not any(step.kept for step in shrinking(smallest, predicate(smallest)))


@pytest.mark.parametrize("path", BUFFERED, ids=lambda path: path.name)
def test_the_model_loses_on_what_is_left(path: object) -> None:
    row = candidate(path.name, one_bin(60, 120, 3), 8, capacity=10)
    small = shrunk(row)
    assert small.length < 30
    exact = exact_topk(small.scores, small.k)
    spec, seen = small.subject.path, look(small).risk
    arrivals = [Arrival("random", seed=seed) for seed in range(400)]
    lost = [
        judge(small.scores, exact, run_model(spec, small.scores, small.k, arrival).indices, UNWRITTEN).missing
        for arrival in arrivals
    ]
    assert sum(map(bool, lost)) / len(lost) == pytest.approx(1 - seen.p_clean, abs=0.1)
    assert sum(lost) / len(lost) == pytest.approx(seen.expected_missing, abs=0.15 * max(1, seen.expected_missing))
    assert min(lost) >= seen.least_missing
    assert max(lost) <= seen.most_missing


@pytest.mark.parametrize(
    ("path", "variant", "scores", "k", "size"),
    [
        # what overflows is one more than fits, in two values; scores past k are as few as the path takes
        ("vllm.histogram_256", "stock", one_bin(9000, 30000, 40), 2048, (8193, 512, 4097, 0, 3)),
        ("vllm.histogram_2048", "stock", one_bin(5000, 8192), 512, (3709, 512, 3709, 0, 2)),
        ("vllm.filtered", "stock", one_bin(20000, 40000), 1024, (16385, 512, 16385, 0, 2)),
        ("vllm.histogram_4096", "stock", one_bin(5000, 16000, 500), 1024, (513, 512, 513, 0, 2)),
        ("sglang.fast_topk", "stock", one_bin(5000, 16000, 500), 2048, (4097, 2048, 4097, 0, 2)),
        # any k: the least whose p_clean will do
        ("sglang.v1", "stock", one_bin(9000, 16000, 500), 1000, (8193, 115, 8193, 0, 2)),
        # slots that nobody writes: one more winner than fits
        ("sglang.v2_register", "tie_cap_1024", one_bin(3000, 9000), 2048, (1026, 1025, 1025, 0, 2)),
    ],
)
def test_known_minima(path: str, variant: str, scores: torch.Tensor, k: int, size: tuple[int, ...]) -> None:
    row = candidate(path, scores, k, variant)
    small = shrunk(row)
    assert small.size[:5] == size
    assert fault(small) == fault(row)


def with_nan(sign: float) -> torch.Tensor:
    scores = torch.randn(40000, generator=torch.Generator().manual_seed(3))
    scores[[7, 5000, 39000]] = math.copysign(math.nan, sign)
    return scores


@pytest.mark.parametrize(
    ("path", "variant", "sign", "length", "k"),
    [
        ("vllm.radix", "stock", -1, 32769, 512),
        ("sglang.deep_select", "stock", 1, 2, 1),
        ("sglang.v2_streaming", "stock", 1, 16385, 1),
        ("sglang.rocm_coop", "stock", -1, 2, 1),
    ],
)
def test_a_loss_by_nan_stays_one(path: str, variant: str, sign: float, length: int, k: int) -> None:
    row = candidate(path, with_nan(sign), 1024, variant)
    assert fault(row).nan
    assert not fault(row).overflow
    small = shrunk(row)
    assert fault(small) == fault(row)
    assert (small.length, small.k) == (length, k)
    assert small.profile.nan >= 1
    assert small.distinct.numel() <= 2


def test_padding_that_outranks_minus_infinity_stays_that() -> None:
    scores = torch.full((13000,), -math.inf)
    scores[:12000] = torch.randn(12000, generator=torch.Generator().manual_seed(0))
    row = candidate("vllm.per_row", scores, 12100, "decode_radix")
    assert fault(row) == Fault("certain", "", "invalid", False, 0, PADDED)
    small = shrunk(row)
    assert fault(small) == fault(row)
    assert small.length < 100
    assert bool(torch.isinf(small.scores).any())


def test_approximate_keys_of_bfloat16() -> None:
    scores = 65536.0 + 512 * torch.arange(300)
    row = candidate("sglang.bf16_small", scores.bfloat16(), 20, "approximate_13_bit")
    small = shrunk(row)
    assert fault(small) == fault(row)
    assert small.scores.dtype == torch.bfloat16
    assert (small.length, small.k) == (2, 1)


def test_only_a_rank_of_the_cluster_overflows() -> None:
    scores = torch.rand(65536) - 4
    scores[:1500] = 1 + torch.rand(1500) / 1000
    row = candidate("vllm.cooperative_8", scores, 2048)
    assert not fault(row).ordered
    small = shrunk(row)
    assert fault(small) == fault(row)
    assert small.length == 16385
    # a plain overflow of the buffer is another fault, though the row for it would be simpler
    if fault(row).overflow == "rank":
        assert look(small).risk.population <= 2048


def test_certain_is_not_traded_for_at_risk() -> None:
    row = candidate("vllm.cooperative_4", one_bin(40000, 131072, 5), 1024)
    assert fault(row).level == "certain"
    assert look(shrunk(row)).risk.level == "certain"


def test_a_loss_gets_no_rarer_than_a_test_can_catch() -> None:
    row = candidate("sglang.v1", one_bin(9000, 16000), 1000)
    assert look(row).risk.p_clean < 0.01
    assert look(shrunk(row)).risk.p_clean <= MOST_CLEAN
    rare = candidate("sglang.v1", one_bin(8193, 16000), 2)
    assert look(rare).risk.p_clean > MOST_CLEAN
    assert look(shrunk(rare)).risk.p_clean <= look(rare).risk.p_clean


def test_nothing_gives_a_row_an_order_and_an_order_can_be_taken_away() -> None:
    plateau = torch.rand(20000, generator=torch.Generator().manual_seed(1)) - 4
    plateau[torch.randperm(20000, generator=torch.Generator().manual_seed(2))[:6000]] = 1.0
    plateau[torch.nonzero(plateau == 1.0).flatten()[::60]] = 1.125
    row = candidate("vllm.histogram_256", plateau, 512)
    assert abs(look(shrunk(row)).risk.order_correlation) <= MOST_ORDER
    falling = candidate("vllm.histogram_2048", torch.arange(806736, 806736 - 4096, -1, dtype=torch.float32), 512)
    seen = look(falling)
    assert seen.fault.ordered == -1
    made = scattered(falling, seen)
    assert made is not None
    assert torch.equal(made.scores.sort().values, falling.scores.sort().values)
    assert abs(look(made).risk.order_correlation) < 0.1
    assert scattered(made, look(made)) is None
    assert abs(look(shrunk(falling)).risk.order_correlation) > ORDERED  # without it the order is part of the fault


def test_the_seed_decides_and_nothing_else() -> None:
    row = candidate("vllm.histogram_256", one_bin(9000, 20000), 512)
    one, other = shrunk(row), shrunk(row)
    assert torch.equal(one.scores, other.scores)
    assert one.k == other.k


def test_complexity() -> None:
    values = torch.tensor([0.0, 1, -1, 2, 0.5, 3, 1.125, math.inf, -math.inf, math.nan, -0.0])
    assert complexity(values).tolist() == [0, 1, 2, 2, 2, 3, 4, 2, 3, 2, 1]
    odd = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert complexity(odd).tolist() == [4]
    assert complexity(torch.tensor([1.5, -0.75]).bfloat16()).tolist() == [2, 4]


@pytest.mark.parametrize("bits", [8, 10, 11, 12])
def test_values_near_one_share_its_bin(bits: int) -> None:
    for count in LEVELS:
        values = near_one(bits, count)
        assert values.unique().numel() == count
        assert coarse_keys(values, bits).unique().tolist() == [int(coarse_keys(torch.ones(1), bits))]


def test_plain_numbers_are_exact_in_every_dtype() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        numbers = plain_numbers(dtype)
        assert numbers.dtype == dtype
        assert numbers[0] == 0
        assert numbers.unique().numel() == numbers.numel()


def test_every_pass_says_what_it_does() -> None:
    assert all(one.__doc__ for one in PASSES)


def test_where_warps_arrive_together_a_smaller_row_must_lose_as_plainly_in_warps() -> None:
    """One warp of winners is clean 99 times in 100, too often to see; its scores one by one would be twice in three."""
    row, rare = (candidate("vllm.histogram_2048", crowded_warp(winners).scores, 512) for winners in (128, 32))
    holds = predicate(row)
    seen = look(rare)
    assert seen.fault == holds.fault
    assert seen.risk.p_clean is not None
    assert seen.risk.p_clean < 0.7
    assert seen.risk.clean_at_most is not None
    assert seen.risk.clean_at_most > MOST_CLEAN
    assert holds(row)
    assert not holds(rare)
    assert predicate(rare)(rare)  # what is seen as seldom in the row itself will do
