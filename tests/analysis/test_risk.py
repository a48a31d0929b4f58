"""Risk at real capacities: the boundaries that public reports give, ties, NaN and refusals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from workbench.analysis import profile
from workbench.analysis.profile import Cut, RowProfile
from workbench.analysis.risk import Risk, census, risk
from workbench.analysis.survival import Outlook, Part, outlook
from workbench.paths.catalog import find_paths, get_path


def one_bin(population: int, length: int, above: int = 0) -> torch.Tensor:
    """``population`` distinct neighbours of 1.0 over a low floor."""
    scores = torch.full((length,), -3.0)
    near = (torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000).view(torch.float32)
    scores[torch.randperm(length, generator=torch.Generator().manual_seed(0))[:population]] = near
    scores[scores == -3.0] = torch.cat([torch.full((above,), 9.0), torch.full((length - population - above,), -3.0)])
    return scores


def of(path: str, scores: torch.Tensor, k: int = 512, dtype: str = "float32") -> Risk:
    return risk(RowProfile(scores, dtype, k), get_path(path))


@pytest.mark.parametrize(
    ("path", "capacity", "length"),
    [
        ("vllm.histogram_2048", 3708, 8192),
        ("vllm.histogram_256", 4096, 20000),
        ("vllm.histogram_4096", 512, 20000),
        ("vllm.filtered", 16384, 40000),
    ],
)
def test_the_capacity_itself_is_safe_and_one_more_is_not(path: str, capacity: int, length: int) -> None:
    clean, breach = of(path, one_bin(capacity, length)), of(path, one_bin(capacity + 1, length))
    assert (clean.level, clean.breach, clean.population) == ("safe", False, capacity)
    assert (breach.level, breach.breach, breach.population) == ("at risk", True, capacity + 1)
    # One of the members is dropped: the chance that it is one of the 512 winners.
    assert breach.p_clean == pytest.approx(1 - 512 / (capacity + 1))
    assert breach.expected_missing == pytest.approx(512 / (capacity + 1))
    assert (breach.least_missing, breach.most_missing) == (0, 1)


def test_sglang_takes_k_2048_only() -> None:
    assert of("sglang.fast_topk", one_bin(4097, 20000), 512).refused == ("k is 512, the path takes 2048",)
    assert of("sglang.fast_topk", one_bin(4097, 20000), 2048).expected_missing == pytest.approx(2048 / 4097)


def test_the_published_boundary_at_16385() -> None:
    """U[1.0, 1.245) has every score in one 8-bit bin; a public report counts shifted positions, not losses."""
    uniform = 1.0 + 0.245 * torch.rand(16385, generator=torch.Generator().manual_seed(1))
    found = of("vllm.filtered", uniform, 2048)
    assert (found.population, found.level, found.most_missing) == (16385, "at risk", 1)


def test_a_plateau_of_zeros_overflows_without_losing() -> None:
    scores = torch.zeros(8000)
    scores[:100] = torch.linspace(1, 2, 100)
    found = of("vllm.histogram_2048", scores, 512)
    assert (found.breach, found.level, found.expected_missing) == (True, "safe", 0.0)


def test_order_correlation_marks_rows_that_fall_along_the_row() -> None:
    falling = torch.arange(806736, 806736 - 4096, -1, dtype=torch.float32)
    found = of("vllm.histogram_2048", falling)
    assert found.order_correlation == pytest.approx(-1)
    assert found.population == 4096
    assert found.most_missing == 388
    shuffled = falling[torch.randperm(4096, generator=torch.Generator().manual_seed(0))]
    assert abs(of("vllm.histogram_2048", shuffled).order_correlation) < 0.1


@pytest.mark.parametrize("whole", [profile.WHOLE, 1])
def test_order_correlation_is_spearmans(whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal scores share their mean rank; more members than whole numbers can be summed for give the same."""
    monkeypatch.setattr(profile, "WHOLE", whole)
    generator = torch.Generator().manual_seed(2)
    for scores in (
        torch.rand(301, generator=generator),
        torch.randint(0, 4, (300,), generator=generator).float() + torch.arange(300) / 200,
        torch.randint(0, 3, (300,), generator=generator).float(),
        torch.tensor([2.0, 1.0]),
        torch.arange(50.0) // 7,
    ):
        ranks = pd.Series(scores.numpy()).rank()
        expected = np.corrcoef(ranks, np.arange(len(ranks)))[0, 1]
        found = Cut(torch.arange(len(ranks)), scores, 1).order_correlation
        assert found == pytest.approx(expected, abs=1e-12)
    assert Cut(torch.arange(9), torch.ones(9), 1).order_correlation == 0.0


def test_nan() -> None:
    scores = torch.linspace(0, 1, 40000)
    assert of("vllm.radix", scores).level == "safe"
    scores[3] = math.nan
    assert of("vllm.radix", scores).level == "safe"
    scores[4] = -math.nan
    lost = of("vllm.radix", scores)
    assert (lost.level, lost.least_missing, lost.most_missing, lost.p_clean) == ("certain", 1, 1, 0.0)
    unknown = of("vllm.sampled", scores)
    assert unknown.level is None
    assert "holds 2 NaN" in unknown.note
    many = torch.cat([torch.full((6000,), math.nan), torch.rand(20000)])
    assert of("vllm.filtered", many).level == "safe"
    assert of("vllm.histogram_256", many).level == "safe"


def test_what_a_variant_without_a_model_does_with_nan_is_not_known() -> None:
    scores = torch.linspace(0, 1, 40000)
    path = get_path("vllm.radix")
    assert risk(RowProfile(scores, "float32", 512), path, path.variant("v0.33.0")).level == "safe"
    scores[4] = -math.nan
    found = risk(RowProfile(scores, "float32", 512), path, path.variant("v0.33.0"))
    assert (found.level, found.p_clean) == (None, None)
    assert "holds 1 NaN; what vllm.radix v0.33.0 does" in found.note


def test_the_buffer_of_the_stock_path_is_not_that_of_a_release_without_loss() -> None:
    path = get_path("vllm.histogram_256")
    found = risk(RowProfile(one_bin(5000, 20000), "float32", 512), path, path.variant("v0.33.0"))
    assert (found.level, found.capacity, found.breach) == ("safe", None, False)


def test_refusals_give_every_reason_and_the_population_where_it_can_be_counted() -> None:
    found = of("vllm.histogram_2048", one_bin(5000, 20000), 100)
    assert found.refused == (
        "k is 100, the path takes 512, 1024 or 2048",
        "length 20000 is above 8192",
    )
    assert (found.level, found.population, found.capacity, found.breach) == (None, 5000, 3708, True)
    half = of("vllm.filtered", torch.ones(40000, dtype=torch.bfloat16), 512, "bfloat16")
    assert half.refused == ("scores are bfloat16, the path takes float32",)
    assert half.population is None


def test_a_census_covers_every_path_whatever_the_row() -> None:
    for scores in (torch.empty(0), torch.zeros(1), torch.full((5000,), -math.inf), torch.full((600,), math.nan)):
        assert len(census(RowProfile(scores, "float32", 512))) == len(find_paths())


def test_a_correlation_is_never_beyond_one() -> None:
    """A million members in order, two of them equal: sums of that size are rounded."""
    scores = torch.arange(1_000_058, dtype=torch.float32)
    scores[1] = 0
    found = [Cut(torch.arange(scores.numel()), one, 1).order_correlation for one in (scores, -scores)]
    assert found == [1.0, -1.0]


def test_a_chance_is_never_above_one_by_rounding() -> None:
    """An order that loses is all but impossible: the chances of the others, summed, were an ULP above 1."""
    found = outlook([Part(3000, 2694, 0, 895)], 2694, 590)
    assert (found.least, found.most, found.p_clean) == (0, 1, 1.0)


def drawn(random: np.random.Generator, most: int) -> Part:
    members = int(random.integers(1, most + 1))
    better = int(random.integers(0, members + 1))
    equal = int(random.integers(0, members - better + 1))
    return Part(members, int(random.integers(0, members + 1)), better, equal)


@pytest.mark.parametrize("seed", range(8))
def test_chances_and_means_are_within_their_bounds(seed: int) -> None:
    """Whatever the parts: sums of rounded chances are no chances above 1, no means beyond the least and the most."""
    random = np.random.default_rng(seed)
    for most in (3, 8, 40, 300, 3000) * 12:
        parts = [drawn(random, most) for _ in range(random.integers(1, 5))]
        stored = sum(part.stored for part in parts)
        if not stored:
            continue
        room, need = random.integers(1, stored + 1), random.integers(0, sum(part.equal for part in parts) + 1)
        found = outlook(parts, int(room), int(need))
        assert 0 <= found.p_clean <= 1, (parts, room, need)
        assert found.least <= found.expected <= found.most, (parts, room, need)
        assert 1 - found.p_clean <= found.expected + 1e-9, (parts, room, need)  # who loses, loses one at least


@pytest.mark.parametrize("seed", range(4))
def test_padding_takes_chances_within_their_bounds(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    path = get_path("vllm.per_row")
    for length in (600, 2100, 5000):
        scores = torch.randn(length, generator=random)
        scores[torch.rand(length, generator=random) < 0.9] = -3.4028234663852886e38
        scores[torch.rand(length, generator=random) < 0.3] = -torch.inf
        found = risk(RowProfile(scores, "float32", 512), path)
        assert found.p_clean is None or 0 <= found.p_clean <= 1
        assert found.expected_missing is None or found.least_missing <= found.expected_missing <= found.most_missing


def test_what_rounding_did_not_do_is_no_chance() -> None:
    with pytest.raises(AssertionError):
        Outlook(0, 1, 1.1, 0.5)
    with pytest.raises(AssertionError):
        Outlook(2, 3, 0.0, 1.0)
