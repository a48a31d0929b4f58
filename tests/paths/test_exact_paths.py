"""Selectors with models of their own: which way they take, what it costs, and what NaN and bfloat16 do to them."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from workbench.analysis.profile import RowProfile
from workbench.analysis.reference import reference
from workbench.analysis.risk import Risk, risk
from workbench.analysis.verdict import Verdict, judge
from workbench.capture.row import Call, Row
from workbench.numeric.bounds import FLT_MAX
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.paths.model import run_model
from workbench.paths.models.sampled import sample_places, shortest
from workbench.paths.models.streaming import stream
from workbench.paths.models.tape import Tape
from workbench.paths.route_vllm import SAMPLED_FROM
from workbench.paths.selection import UNWRITTEN, Selection

RANDOM = Arrival("random", seed=4)
NAN, INF = math.nan, math.inf


def select(
    path: str, scores: torch.Tensor, k: int, variant: str = "stock", arrival: Arrival = RANDOM
) -> tuple[Selection, Verdict]:
    selection = run_model(get_path(path), scores, k, arrival, variant)
    exact = reference(Row(scores, scores.numel(), call=Call(width=1 << 21)), k).indices
    return selection, judge(scores, exact, selection.indices, UNWRITTEN)


def outlook(path: str, scores: torch.Tensor, k: int, variant: str = "stock") -> Risk:
    of, dtype = get_path(path), str(scores.dtype).removeprefix("torch.")
    return risk(RowProfile(scores, dtype, k), of, of.variant(variant))


def normal(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(seed))


def in_one_bin(length: int, ulps: int = 1 << 16) -> torch.Tensor:
    """Distinct neighbours above 1.0, shuffled: one bin under every fp16 key."""
    places = torch.randperm(length, generator=torch.Generator().manual_seed(1)) % ulps
    return (places.to(torch.int32) + 0x3F800000).view(torch.float32)


# vllm.per_row


@pytest.mark.parametrize(
    ("scores", "digits"),
    [
        (normal(20000), 0),  # few share an fp16 bin
        (torch.linspace(1.0, 1.03, 20000), 2),  # one fp16 bin and one of 11 bits
        (in_one_bin(20000), 2),  # 1024 neighbours share 22 bits
        (in_one_bin(20000, 1000), 3),  # all of it does
        (torch.ones(20000), 3),
    ],
)
def test_per_row_goes_on_by_digits_until_2048_are_left(scores: torch.Tensor, digits: int) -> None:
    selection, verdict = select("vllm.per_row", scores, 512)
    seen = selection.telemetry
    assert verdict.missing == 0
    assert [one.bits for one in seen.passes] == [11, 11, 10][:digits]
    assert all(one.kept > 2048 for one in seen.passes[:-1])
    assert seen.cost.row_passes == 2 * (1 + digits)
    assert seen.cost.bytes_read == seen.cost.row_passes * 80000
    assert bool(seen.cost.fallback) == (digits > 0)


def test_per_row_ties_go_to_the_later_arrival_when_compared_and_to_the_earlier_when_sorted() -> None:
    scores = torch.full((11000,), -1.0)
    scores[:100] = 1.0
    assert select("vllm.per_row", scores, 10, arrival=Arrival("index"))[0].indices.tolist() == [*range(99, 89, -1)]
    longer = torch.cat([scores, torch.full((9000,), -1.0)])
    assert select("vllm.per_row", longer, 10, arrival=Arrival("index"))[0].indices.tolist() == [*range(10)]
    prefill = select("vllm.per_row", longer, 10, "prefill", Arrival("index"))[0]
    assert prefill.indices.tolist() == [*range(99, 89, -1)]


def test_per_row_splits_wide_rows_into_ten_and_merges() -> None:
    scores = normal(200000)
    wide, verdict = select("vllm.per_row", scores, 512)
    assert verdict.kind == "exact"
    assert wide.telemetry.cost.row_passes == 2
    assert wide.telemetry.cost.staged >= 10 * 512
    named = run_model(get_path("vllm.per_row"), scores, 512, RANDOM, "decode_split")
    assert torch.equal(named.indices, wide.indices)


def finite_over_minus_inf(length: int, finite: int) -> torch.Tensor:
    scores = torch.full((length,), -INF)
    scores[:finite] = normal(finite)
    return scores


WIDE, SPLIT = 20000, 200000  # padded columns that are sorted by radix, and split


def padded(scores: torch.Tensor, k: int, width: int, arrival: Arrival = RANDOM) -> Verdict:
    indices = run_model(get_path("vllm.per_row"), scores, k, arrival, width=width).indices
    return judge(
        scores, reference(Row(scores, scores.numel(), call=Call(width=1 << 21)), k).indices, indices, UNWRITTEN
    )


def padded_risk(scores: torch.Tensor, k: int, width: int) -> Risk:
    path = get_path("vllm.per_row")
    return risk(RowProfile(scores, "float32", k, width=width), path)


def test_padding_beats_minus_inf_and_leaves_garbage() -> None:
    """100 numbers, then 2000 -inf of which 412 are wanted: 48 slots of padding come before them."""
    scores = torch.cat([normal(15000).abs() + 1, finite_over_minus_inf(2000, 0)])
    faulty = padded(scores, 15300, WIDE)
    assert (faulty.kind, faulty.missing) == ("invalid", 48)
    assert faulty.duplicates + faulty.out_of_range == 48
    found = padded_risk(scores, 15300, WIDE)
    assert (found.level, found.least_missing, found.most_missing) == ("certain", 48, 48)
    narrow = finite_over_minus_inf(2100, 100)
    assert padded(narrow, 512, narrow.numel()).missing == 0  # compared, not sorted: nothing is padded
    assert padded(narrow, 512, WIDE).missing == 48  # the width decides, not the length
    assert padded_risk(narrow, 512, WIDE).least_missing == 48


def test_padding_stands_between_scores_of_flt_max() -> None:
    """Each of 512 threads holds four cells side by side, of which the first alone has a score."""
    scores = torch.cat([normal(462).abs() + 1, torch.full((51,), -FLT_MAX), torch.full((3000,), -INF)])
    assert padded(scores, 512, WIDE).missing == 37  # 13 of the first 50 cells; so it was observed
    found = padded_risk(scores, 512, WIDE)
    assert (found.least_missing, found.most_missing, found.expected_missing) == (37, 37, 37.0)


@given(st.integers(0, 60), st.integers(0, 40), st.integers(0, 30), st.integers(1, 60), st.integers(0, 9))
@example(better=0, lowest=38, infinite=2, k=1, seed=0)  # whether a slice hands on junk depends on the order in it
@settings(max_examples=200, deadline=None)
def test_padding_loses_what_its_outlook_says(better: int, lowest: int, infinite: int, k: int, seed: int) -> None:
    assume(better + lowest + infinite > k)
    parts = torch.cat([torch.full((better,), -70000.0), torch.full((lowest,), -FLT_MAX), torch.full((infinite,), -INF)])
    scores = parts[torch.randperm(parts.numel(), generator=torch.Generator().manual_seed(seed))]
    for width in (WIDE, SPLIT):
        found = padded_risk(scores, k, width)
        lost = [padded(scores, k, width, Arrival("random", seed=one)).missing for one in range(4)]
        assert found.least_missing <= min(lost)
        assert max(lost) <= found.most_missing
        assert (found.p_clean == 1.0) == (found.level == "safe")


def test_padding_of_short_slices_beats_minus_inf_in_the_merge() -> None:
    scores = finite_over_minus_inf(2100, 100)
    faulty = padded(scores, 512, SPLIT)
    assert (faulty.short, faulty.unwritten, faulty.missing) == (412, 0, 412)
    assert padded_risk(scores, 512, SPLIT).least_missing == 412
    assert padded_risk(normal(2100), 512, SPLIT).level == "safe"


def test_per_row_nan() -> None:
    few = normal(5000)
    few[:100] = -NAN
    assert outlook("vllm.per_row", few, 512).level == "safe"  # NaN has the highest fp16 bin and is taken unseen
    many = torch.cat([torch.full((600,), NAN), normal(5000)])
    compared = select("vllm.per_row", many, 512)[1]
    assert (compared.kind, compared.missing) == ("invalid", 511)
    assert compared.duplicates + compared.out_of_range == 511
    found = outlook("vllm.per_row", many, 512)
    assert (found.level, found.least_missing, found.p_clean) == ("certain", 511, 0.0)
    assert outlook("vllm.per_row", torch.cat([many, normal(9000)]), 512).level == "safe"  # sorted as bits
    digits = torch.cat([torch.full((3000,), -NAN), normal(5000)])
    assert outlook("vllm.per_row", digits, 512).least_missing == 512  # exact digits rank the sign below -inf


# vllm.sampled


def test_the_sample_and_the_shortest_sampled_rows_are_as_described() -> None:
    assert {k: shortest(k) for k in SAMPLED_FROM} == SAMPLED_FROM
    places = sample_places(65536, 4096)
    assert places.tolist() == [i // 32 * (65536 // 128) + i % 32 for i in range(4096)]


def test_survivors_of_the_sampled_cut_off_are_one_pass() -> None:
    selection, verdict = select("vllm.sampled", normal(131072), 2048)
    seen = selection.telemetry
    assert verdict.kind == "exact"
    assert 2048 <= seen.stored <= 8192
    assert (seen.cost.row_passes, seen.cost.staged, seen.cost.fallback) == (1, seen.stored, "")
    assert seen.cost.bytes_read == 4 * (131072 + 4096)


def peaks(length: int) -> torch.Tensor:
    """High scores exactly where the sample looks."""
    scores = normal(length)
    scores[sample_places(length, 4096)] += torch.linspace(100, 1000, 4096)
    return scores


@pytest.mark.parametrize(("scores", "why"), [(peaks(131072), "too few"), (torch.ones(131072), "too many")])
def test_a_cut_off_that_fails_passes_over_the_row_exactly(scores: torch.Tensor, why: str) -> None:
    selection, verdict = select("vllm.sampled", scores, 2048)
    assert verdict.missing == 0
    assert why in selection.telemetry.cost.fallback
    assert selection.telemetry.cost.row_passes == 1 + 5 + 1


def test_short_rows_of_the_sampled_kernel_are_filtered_with_a_check() -> None:
    fits, _ = select("vllm.sampled", normal(60000), 2048)
    assert (fits.telemetry.cost.row_passes, fits.telemetry.cost.fallback) == (2, "")
    overflow, verdict = select("vllm.sampled", in_one_bin(60000), 2048)
    assert verdict.missing == 0
    assert "60000 scores in the threshold bin" in overflow.telemetry.cost.fallback
    assert overflow.telemetry.cost.row_passes == 2 + 5 + 1
    assert outlook("vllm.sampled", torch.cat([torch.tensor([NAN]), normal(60000)]), 2048).level is None


# sglang.bf16_small

SMALL = [
    ([1.0, 1.0078125, 1.015625, 1.0, -2.0, 3.0], 3),
    ([0.0, -0.0, 0.0, -0.0, -1.0, 2.0], 3),
    ([-0.0, -0.0, -1.0, 0.0, -3.0], 4),
    ([1e-6, 2e-6, 3e-6, -1e-6, 5.0], 2),
    ([70144.0, 70656.0, 80000.0, INF, 1.0], 2),
    ([-INF, -INF, 1.0, -70144.0, -80000.0], 3),
    ([1e-7, 1.1e-7, 1.2e-7, 6.1e-5, 6.0e-5], 3),
]


@pytest.mark.parametrize(("values", "k"), SMALL)
def test_bf16_of_every_arrival_order(values: list[float], k: int) -> None:
    """``stock`` loses nothing; the 13-bit placeholder loses exactly what the risk says over all orders."""
    scores = torch.tensor(values, dtype=torch.bfloat16)
    lost = []
    for order in permutations(range(len(values))):
        arrival = Arrival("explicit", order=order)
        assert select("sglang.bf16_small", scores, k, arrival=arrival)[1].kind in ("exact", "ties")
        lost.append(select("sglang.bf16_small", scores, k, "approximate_13_bit", arrival)[1].missing)
    claimed = outlook("sglang.bf16_small", scores, k, "approximate_13_bit")
    assert (claimed.least_missing, claimed.most_missing) == (min(lost), max(lost))
    assert claimed.p_clean == pytest.approx(lost.count(0) / len(lost))
    assert claimed.expected_missing == pytest.approx(sum(lost) / len(lost))


def test_the_placeholder_is_exact_in_fp16_s_normal_range_and_not_beyond() -> None:
    inside = normal(16000).to(torch.bfloat16)
    assert outlook("sglang.bf16_small", inside, 512, "approximate_13_bit").level == "safe"
    for outside in (normal(16000) * 1e-6, 70000 + 1000 * normal(16000).abs()):
        scores = outside.to(torch.bfloat16)
        assert outlook("sglang.bf16_small", scores, 512).level == "safe"
        assert outlook("sglang.bf16_small", scores, 512, "approximate_13_bit").level != "safe"


def test_bf16_reads_the_row_once_in_its_own_dtype_and_two_bytes() -> None:
    scores = normal(16000).to(torch.bfloat16)
    selection, verdict = select("sglang.bf16_small", scores, 512)
    seen = selection.telemetry
    assert verdict.missing == 0
    assert (seen.cost.row_passes, seen.cost.bytes_read) == (1, 32000)
    assert [(one.shift, one.bits) for one in seen.passes] == [(8, 8), (0, 8)]


def test_bf16_nan_of_either_sign() -> None:
    scores = normal(4000).to(torch.bfloat16)
    scores[7] = NAN
    _, verdict = select("sglang.bf16_small", scores, 512)
    assert (verdict.kind, verdict.short, verdict.missing) == ("invalid", 1, 1)
    assert outlook("sglang.bf16_small", scores, 512).level == "certain"
    scores.view(torch.int16)[7] = -64  # the sign of a NaN is lost in a conversion
    _, verdict = select("sglang.bf16_small", scores, 512)
    assert (verdict.kind, verdict.short, verdict.missing) == ("lossy", 0, 1)
    scores[:600] = NAN
    assert select("sglang.bf16_small", scores, 512)[1].short == 512  # nothing is greater than a NaN, or equal to it


# sglang.coop and sglang.rocm_coop


@pytest.mark.parametrize(
    ("scores", "bits"),
    [(normal(40000), [12]), (in_one_bin(40000), [12, 10]), (torch.ones(40000), [12, 10, 10])],
)
def test_coop_stops_once_2048_share_the_prefix(scores: torch.Tensor, bits: list[int]) -> None:
    selection, verdict = select("sglang.coop", scores, 512)
    seen = selection.telemetry
    assert verdict.missing == 0
    assert [one.bits for one in seen.passes if one.bits > 8] == bits
    assert seen.cost.row_passes == len(bits) + 1
    assert seen.cost.staged == seen.stored <= 2048


def test_coop_counts_nan_as_minus_inf() -> None:
    scores = normal(40000)
    scores[:10] = NAN
    selection, verdict = select("sglang.coop", scores, 512)
    assert (verdict.missing, verdict.kind) == (10, "lossy")
    assert not set(selection.indices.tolist()) & set(range(10))
    assert outlook("sglang.coop", scores, 512).level is None  # among -inf it would depend on the order


@pytest.mark.parametrize(
    ("scores", "bits", "passes", "rescans"),
    [
        (normal(40000), [12], 2, False),
        (torch.linspace(1.0, 1.1, 40000), [12, 4], 3, False),
        (torch.ones(40000), [12, 4, 8, 8], 6, True),
    ],
)
def test_rocm_coop_rescans_under_the_prefix(scores: torch.Tensor, bits: list[int], passes: int, rescans: bool) -> None:
    selection, verdict = select("sglang.rocm_coop", scores, 2048)
    seen = selection.telemetry
    assert verdict.missing == 0
    assert [one.bits for one in seen.passes[: len(bits)]] == bits
    assert (seen.cost.row_passes, bool(seen.cost.fallback)) == (passes, rescans)


# sglang.deep_select


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scores", [normal(20000), torch.linspace(0, 1, 20000), torch.ones(20000)])
def test_deep_select_reads_once_and_never_holds_more_than_its_bound(scores: torch.Tensor, dtype: torch.dtype) -> None:
    scores = scores.to(dtype)
    for arrival in (Arrival("index"), Arrival("reverse"), RANDOM):
        selection, verdict = select("sglang.deep_select", scores, 512, arrival=arrival)
        seen = selection.telemetry
        assert verdict.missing == 0
        assert seen.cost.row_passes == 1
        assert seen.stored <= seen.capacity == 512 + 1024 + 1024


def test_deep_select_stages_least_where_the_best_come_first() -> None:
    scores = torch.linspace(0, 1, 20000)
    rising, falling = (
        select("sglang.deep_select", scores, 512, arrival=Arrival(kind))[0] for kind in ("index", "reverse")
    )
    assert rising.telemetry.cost.staged == 20000  # every block beats the threshold
    assert falling.telemetry.cost.staged == 20000 - 18 * 1024  # the short last block and the one before it


@pytest.mark.parametrize("values", [[3.0, 1.0, 2.0, 3.0, 0.5, -INF], [-INF] * 6, [0.0, -0.0, 1.0, -0.0, 0.0, -1.0]])
def test_small_blocks_of_every_arrival_order_lose_nothing(values: list[float]) -> None:
    scores = torch.tensor(values)
    exact = reference(Row(scores, 6), 3).indices
    for order in permutations(range(6)):
        made = stream(Tape(scores, Arrival("explicit", order=order)), 3, 2, 1)
        assert judge(scores, exact, made.indices).kind in ("exact", "ties")


# torch and FlashInfer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("path", ["torch.topk", "flashinfer.radix", "flashinfer.filtered"])
def test_baselines_take_every_dtype(path: str, dtype: torch.dtype) -> None:
    of, bytes_ = get_path(path), torch.finfo(dtype).bits // 8
    for scores in (normal(40000), normal(40000).round(decimals=1), torch.ones(40000)):
        for variant in of.variants:
            selection, verdict = select(path, scores.to(dtype), 2048, variant.name)
            assert verdict.missing == 0
            assert selection.telemetry.cost.row_passes * 40000 * bytes_ <= selection.telemetry.cost.bytes_read
            if variant.name == "deterministic":
                assert verdict.kind == "exact"
    assert select("torch.topk", normal(40000).to(dtype), 2048)[0].telemetry.cost.row_passes == bytes_ + 1


def test_flashinfer_filtered_raises_its_flag_and_scans_in_full() -> None:
    fits = select("flashinfer.filtered", in_one_bin(16384), 512)[0].telemetry.cost
    assert (fits.row_passes, fits.staged, fits.fallback) == (2, 16384, "")
    over, verdict = select("flashinfer.filtered", in_one_bin(16385), 512)
    assert verdict.missing == 0
    assert over.telemetry.cost.fallback == "full scan of the row, digit by digit"
    assert over.telemetry.cost.row_passes == 2 + 4 + 1
    half = select("flashinfer.filtered", torch.ones(16385, dtype=torch.bfloat16), 512)[0].telemetry.cost
    assert half.row_passes == 2 + 1 + 1


def test_nan_on_the_baselines() -> None:
    scores = normal(40000)
    scores[3], scores[4] = NAN, -NAN
    assert outlook("torch.topk", scores, 512).level == "safe"
    assert outlook("flashinfer.filtered", scores, 512).level == "safe"
    lost = outlook("flashinfer.radix", scores, 512)
    assert (lost.level, lost.least_missing, lost.most_missing) == ("certain", 1, 1)
    assert outlook("sglang.rocm_coop", scores, 512).least_missing == 1
