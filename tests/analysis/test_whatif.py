"""What-if against brute force: every arrival order of altered paths, and the risk of rows that were really altered."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.paths.test_enumerated import ROWS, STEP, outcomes
from workbench.analysis.curves import PARAMETERS_DRAWN, against, curve, own_value, parameter_named
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import risk
from workbench.analysis.whatif import (
    Alteration,
    Enough,
    Setting,
    altered_path,
    altered_row,
    altered_scores,
    fitting_scale,
    in_dtype,
    overflowing,
    ties_made,
    unalterable,
)
from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.numeric.keys import coarse_keys, value_keys
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.spec import Path

NONE = Alteration()
SMALL = {
    path.name: path.scaled(3, rank_capacity=2, rank_unit=1, variants=True)
    for path in PATHS
    if path.buffer is not None and path.name not in ("vllm.cooperative_4", "vllm.cooperative_16", "sglang.qsa")
}


def setting(values: list[float] | torch.Tensor, k: int, path: Path, variant: str = "stock") -> Setting:
    scores = torch.as_tensor(values, dtype=torch.float32)
    return Setting(Row(scores, scores.numel(), call=Call(k=k)), k, path, path.variant(variant))


def crowded(population: int, length: int = 20000, above: int = 100) -> torch.Tensor:
    """Distinct neighbours of 1.0 over a low floor, some scores above them."""
    near = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores = torch.cat([near, torch.full((above,), 9.0), torch.full((length - population - above,), -3.0)])
    return scores[torch.randperm(length, generator=torch.Generator().manual_seed(0))]


FIVE = ("distinct, all in the bin", "past fp16", "the bin fits")  # scores: 120 orders
ALTERATIONS = {
    "capacity 2": Alteration(capacity=2),
    "capacity 4": Alteration(capacity=4),
    "7 bits": Alteration(key_bits=7),
    "14 bits": Alteration(key_bits=14),
    "k 1": Alteration(k=1),
    "length 5": Alteration(length=5, capacity=2),
    "scaled and shifted": Alteration(scale=0.3, shift=-0.3, capacity=2),
}


@pytest.mark.parametrize("altered", ALTERATIONS)
@pytest.mark.parametrize("name", ["vllm.histogram_2048", "vllm.histogram_4096", "sglang.v2_register"])
def test_an_altered_risk_is_that_of_all_arrival_orders(name: str, altered: str) -> None:
    asked, small = ALTERATIONS[altered], SMALL[name]
    for one in FIVE:
        values, k = ROWS[one]
        found = setting(values, k, small)
        claimed = found.risk(asked)
        path, _ = altered_path(small, small.variant("stock"), asked)
        row = altered_row(found.row, asked)
        seen = outcomes(path, row.valid, asked.k or k)
        assert (claimed.least_missing, claimed.most_missing) == (min(seen), max(seen))
        assert claimed.p_clean == pytest.approx(seen[0] / seen.total())
        assert claimed.expected_missing == pytest.approx(sum(lost * n for lost, n in seen.items()) / seen.total())


@pytest.mark.parametrize("name", ["vllm.cooperative_2", "sglang.v2_cluster_8"])
def test_blocks_of_a_cluster_are_altered_too(name: str) -> None:
    small = SMALL[name]
    for asked in (Alteration(rank_capacity=1, capacity=4), Alteration(rank_capacity=3), Alteration(key_bits=8)):
        for row in ("distinct, all in the bin", "past fp16"):
            values, k = ROWS[row]
            found = setting(values, k, small)
            claimed = found.risk(asked)
            seen = outcomes(altered_path(small, small.variant("stock"), asked)[0], found.row.valid, k)
            assert (claimed.least_missing, claimed.most_missing) == (min(seen), max(seen))
            assert claimed.p_clean == pytest.approx(seen[0] / seen.total())


@pytest.mark.parametrize("name", SMALL)
def test_the_least_buffer_is_the_first_that_every_capacity_from_there_on_is_safe_with(name: str) -> None:
    small = SMALL[name]
    for variant in small.variants:
        if unalterable(small, variant, "capacity"):
            continue
        for values, k in ROWS.values():
            found = setting(values, k, small, variant.name)
            for p_clean in (1.0, 0.4):
                each = [found.risk(Alteration(capacity=capacity)) for capacity in range(1, len(values) + 1)]
                does = [one.level == "safe" if p_clean == 1 else (one.p_clean or 0) >= p_clean for one in each]
                enough = found.enough(NONE, p_clean)
                if any(does):
                    assert enough == Enough(does.index(True) + 1)
                    assert all(does[does.index(True) :])
                elif enough is not None:  # a block of the cluster decides, not the whole buffer
                    asked = Alteration(capacity=len(values), rank_capacity=enough.rank_capacity)
                    assert (found.risk(asked).p_clean or 0) >= p_clean
                    assert enough.rank_capacity is not None
                    if enough.rank_capacity > 1:
                        fewer = found.risk(replace(asked, rank_capacity=enough.rank_capacity - 1))
                        assert (fewer.p_clean or 0) < p_clean


def test_would_a_6144_buffer_have_held() -> None:
    """One member more than the buffer holds: an order loses one of 412 with the chance 412 / 5000."""
    found = setting(crowded(5000), 512, get_path("vllm.histogram_256"))
    assert found.risk(NONE).level == "at risk"
    assert found.risk(Alteration(capacity=6144)).level == "safe"
    assert found.enough(NONE) == Enough(5000)
    one_short = found.risk(Alteration(capacity=4999))
    assert one_short.p_clean == pytest.approx(1 - 412 / 5000)
    likely = found.enough(NONE, 0.99)
    assert likely == Enough(5000)
    half = found.enough(NONE, 0.5)
    assert half is not None
    least = half.capacity
    assert math.prod((least - i) / (5000 - i) for i in range(412)) >= 0.5
    assert math.prod((least - 1 - i) / (5000 - i) for i in range(412)) < 0.5


def test_ties_that_can_be_spared_need_less_than_the_whole_bin() -> None:
    scores = torch.zeros(8000)
    scores[:100] = torch.linspace(1, 2, 100)
    found = setting(scores, 512, get_path("vllm.histogram_2048"))
    assert found.enough(NONE) == Enough(412)
    assert found.risk(Alteration(capacity=411)).level == "certain"


@pytest.mark.parametrize("bits", [1, 6, 9, 13, 16])
def test_another_key_makes_the_bins_of_that_key(bits: int) -> None:
    scores = torch.randn(20000, generator=torch.Generator().manual_seed(3))
    found = setting(scores, 512, get_path("vllm.histogram_256")).risk(Alteration(key_bits=bits))
    keys = coarse_keys(scores, bits)
    kth = int(keys[torch.topk(scores, 512).indices[-1]])
    assert (found.threshold_bin, found.population, found.above) == (
        kth,
        int((keys == kth).sum()),
        int((keys > kth).sum()),
    )


@pytest.mark.parametrize("parameter", PARAMETERS_DRAWN)
@pytest.mark.parametrize("name", ["vllm.histogram_256", "vllm.cooperative_8", "sglang.v2_streaming", "sglang.v1"])
def test_every_point_of_a_curve_is_the_risk_of_the_really_altered_row(name: str, parameter: str) -> None:
    path = get_path(name)
    found = setting(crowded(5000, 17000), 512, path)
    others = Alteration(scale=2.0, capacity=4100)
    asked = parameter_named(parameter)
    if unalterable(path, found.variant, asked):
        with pytest.raises(UsageError, match="there is no curve against"):
            curve(found, asked, others)
        return
    drawn = curve(found, asked, others)
    assert list(drawn.at) == sorted(set(drawn.at))
    assert own_value(found, asked, others) in drawn.at
    for value, claimed in zip(drawn.at, drawn.risks, strict=True):
        kind = float if parameter in ("scale", "shift") else int
        altered = others.with_(asked, kind(value))
        row = altered_row(found.row, altered)
        other, variant = altered_path(path, found.variant, altered)
        fresh = risk(RowProfile(row.valid, "float32", altered.k or 512), other, variant, ordered=False)
        assert claimed == fresh
    frame = drawn.to_pandas()
    assert (set(frame["parameter"]), frame["value"].tolist()) == ({parameter}, list(drawn.at))
    assert frame["population"].tolist() == [one.population for one in drawn.risks]


def test_a_curve_against_the_capacity_is_close_where_it_begins_to_fit() -> None:
    drawn = curve(setting(crowded(5000), 512, get_path("vllm.histogram_256")), "capacity", Alteration(capacity=6144))
    assert {103, 4096, 4999, 5000, 6144, 4998, 4996, 4992} <= set(drawn.at)
    assert drawn.enough == Enough(5000)
    chances = [one.p_clean for one in drawn.risks]
    assert chances == sorted(chances)
    assert {one.population for one in drawn.risks} == {5000}


def test_k_and_lengths_are_those_that_the_path_takes() -> None:
    found = setting(crowded(5000, 20000), 512, get_path("vllm.histogram_256"))
    assert curve(found, "k", NONE).at == (512, 1024, 2048)
    lengths = curve(found, "length", NONE)
    assert (lengths.at[0], lengths.at[-1]) == (8193, 20000)
    assert not any(one.refused for one in lengths.risks)
    free = curve(setting(crowded(5000), 512, get_path("sglang.v1")), "k", NONE)
    assert (free.at[0], free.at[-1]) == (1, 1024)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_are_scaled_in_their_own_dtype_with_two_roundings(dtype: torch.dtype) -> None:
    scores = torch.randn(200, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = altered_scores(scores, 0.3, -1.1)
    scale, shift = (Fraction(float(torch.tensor(one, dtype=torch.float64).to(dtype))) for one in (0.3, -1.1))
    for score, made in zip(scores.tolist(), found.tolist(), strict=True):
        product = rounded(Fraction(score) * scale, dtype)
        assert made == rounded(Fraction(product) + shift, dtype)


def rounded(number: Fraction, dtype: torch.dtype) -> float:
    """The nearest number of the dtype, the even one of two: by exact arithmetic."""
    digits = {torch.float32: 24, torch.bfloat16: 8, torch.float16: 11}[dtype]
    if not number:
        return 0.0
    exponent = math.floor(math.log2(abs(number)))
    unit = Fraction(2) ** (exponent - digits + 1)
    return float(round(number / unit) * unit)  # Python rounds halves to even


def test_a_scale_of_one_and_a_shift_of_zero_leave_every_bit() -> None:
    scores = torch.tensor([-0.0, 0.0, math.nan, -math.inf, 1e-45])
    assert altered_scores(scores, 1.0, 0.0) is scores
    assert altered_row(Row(scores, 5), Alteration(scale=1.0, shift=0.0)).scores is scores


def test_scores_beyond_fp16_and_what_brings_them_within() -> None:
    scores = torch.tensor([65503.0, 65504.0, 65519.9, 65520.0, -70000.0, math.inf, math.nan, 3e38])
    assert overflowing(scores) == 3
    fits = fitting_scale(scores)
    assert math.log2(fits) == int(math.log2(fits))
    assert float(torch.tensor(3e38)) * fits <= 65504 < float(torch.tensor(3e38)) * fits * 2
    assert overflowing(altered_scores(scores, fits)) == 0
    assert fitting_scale(scores[:2]) == 1.0
    assert fitting_scale(torch.tensor([math.inf, math.nan])) == fitting_scale(torch.empty(0)) == 1.0
    for greatest in (65505.0, 131008.0, 131009.0, 65504.0 * 4):
        assert (
            greatest * fitting_scale(torch.tensor([greatest]))
            <= 65504
            < greatest * fitting_scale(torch.tensor([greatest])) * 2
        )


def test_staying_below_65504_would_have_helped() -> None:
    """Scores past fp16 share the bin of +inf; brought within, they have bins of their own again."""
    scores = torch.linspace(60000, 200000, 20000)
    found = setting(scores, 512, get_path("vllm.histogram_2048").scaled(3708))
    assert (found.risk(NONE).population, found.risk(NONE).level) == (int((scores >= 65520).sum()), "at risk")
    within = found.risk(Alteration(scale=fitting_scale(scores)))
    assert within.level == "safe"
    # A power of two moves bins that are already within along, and changes nothing else.
    assert found.risk(Alteration(scale=fitting_scale(scores) / 4)).population == within.population


def test_ties_that_rounding_makes_are_counted() -> None:
    scores = torch.tensor([1.0, 1.0 + STEP, 1.0 + 2 * STEP, 2.0, 3.0])
    after = altered_scores(scores, None, 2.0**13)  # steps of 2^-12 are lost beyond 4096
    assert ties_made(scores, after, 3) == int((value_keys(after) == value_keys(after)[2]).sum()) - 1 == 2
    assert ties_made(scores, scores, 3) == ties_made(scores[:3], after[:3], 3) == 0


def test_a_row_is_altered_within_its_padding() -> None:
    row = Row(torch.tensor([7.0, 1, 2, 3, 7]), 3, 1, Call(k=2), indices=torch.tensor([2, 1], dtype=torch.int32))
    other = altered_row(row, Alteration(scale=2, shift=1, length=2, k=1))
    assert (other.length, other.k, other.indices) == (2, 1, None)
    assert other.scores.tolist() == [7, 3, 5, 7, 7]
    assert altered_row(row, Alteration(capacity=3)) is row


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"capacity": 0}, "capacity is 0; a whole number from 1"),
        ({"capacity": 2**31}, "capacity is 2147483648"),
        ({"capacity": 1.5}, "capacity is 1.5"),
        ({"key_bits": 17}, "key_bits is 17; a whole number from 1 to 16 is needed; a coarse key is the top of an fp16"),
        ({"k": -1}, "k is -1"),
        ({"length": True}, "length is True"),
        ({"scale": 0}, "scale is 0; it must be above 0"),
        ({"scale": -2.0}, "scale is -2; it must be above 0"),
        ({"scale": math.nan}, "scale is nan; a finite number is needed"),
        ({"shift": math.inf}, "shift is inf; a finite number"),
        ({"shift": 10**400}, "shift is an integer of"),
    ],
)
def test_arbitrary_numbers_are_refused_in_words(wrong: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Alteration(**wrong)


def test_numbers_beyond_the_dtype_are_refused() -> None:
    with pytest.raises(UsageError, match="scale 1e-30 rounds to 0 in float16, which would make all scores equal"):
        in_dtype(1e-30, torch.float16, "scale")
    with pytest.raises(UsageError, match="shift 1e\\+39 is beyond the greatest float32"):
        in_dtype(1e39, torch.float32, "shift")
    row = Row(torch.zeros(5), 4)
    with pytest.raises(UsageError, match="length is 5, and the row holds 4 valid scores; a prefix has no more"):
        altered_row(row, Alteration(length=5))


@pytest.mark.parametrize(
    ("path", "variant", "parameter", "said"),
    [
        ("vllm.radix", "stock", "capacity", "vllm.radix has no candidate buffer"),
        ("vllm.radix", "stock", "key_bits", "vllm.radix has no coarse key"),
        ("vllm.per_row", "stock", "capacity", "its model has its own digits"),
        ("vllm.filtered", "wide_rescan", "capacity", "drops no winner whatever its buffer holds"),
        ("vllm.filtered", "v0.33.0", "key_bits", "no model runs vllm.filtered v0.33.0"),
        ("vllm.filtered", "stock", "rank_capacity", "runs in one block"),
        ("sglang.v2_cluster_8", "clamped_tie_count", "capacity", "more capacity is not always safer"),
        ("sglang.bf16_small", "stock", "capacity", "has no candidate buffer"),
    ],
)
def test_what_a_path_cannot_take_is_said(path: str, variant: str, parameter: str, said: str) -> None:
    spec = get_path(path)
    assert said in unalterable(spec, spec.variant(variant), parameter_named(parameter))
    with pytest.raises(UsageError, match="cannot be altered: "):
        altered_path(spec, spec.variant(variant), NONE.with_(parameter_named(parameter), 4))
    assert parameter_named(parameter) not in against(Setting(Row(torch.zeros(3), 3), 1, spec, spec.variant(variant)))


def test_a_variants_own_buffer_is_the_one_that_is_altered() -> None:
    path = get_path("sglang.fast_topk")
    other, variant = altered_path(path, path.variant("build_6144"), Alteration(capacity=99))
    assert (other.as_variant(variant).buffer.capacity, other.buffer.capacity) == (99, 4096)
    assert other.variant("build_6144") is variant


def test_every_nan_row_and_short_row_has_an_answer() -> None:
    for scores in (torch.full((9000,), math.nan), torch.full((9000,), -math.inf), torch.zeros(100), torch.empty(0)):
        found = setting(scores, 512, get_path("vllm.histogram_256"))
        for parameter in against(found):
            drawn = curve(found, parameter, Alteration(capacity=7))
            assert len(drawn.at) == len(drawn.risks) > 0


def test_population_is_counted_by_hand() -> None:
    scores = np.random.default_rng(0).standard_normal(9000, dtype=np.float32)
    found = setting(torch.from_numpy(scores), 512, get_path("vllm.histogram_256")).risk(
        Alteration(scale=3.0, shift=-1.0, length=8500)
    )
    prefix = (scores * np.float32(3) + np.float32(-1))[:8500].astype(np.float16)
    bins = (np.where(prefix.view(np.int16) < 0, ~prefix.view(np.uint16), prefix.view(np.uint16) + 0x8000)) >> 8
    kth = np.sort(bins)[-512]
    assert (found.threshold_bin, found.population) == (kth, int((bins == kth).sum()))
