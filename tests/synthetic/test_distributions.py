"""Named distributions: the same bits from a name and a seed, and what each of them is for."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch

import workbench as wb
from workbench.analysis.profile import RowProfile
from workbench.errors import UsageError
from workbench.numeric.keys import coarse_keys
from workbench.synthetic.distributions import DISTRIBUTIONS

# sha256 over rows 0 and 1 of seed 7, length 5000, first 16 digits. A change here breaks everybody's reproducers.
DIGESTS = {
    "random": "6a10ae2166d0af48",
    "10LSBits": "aa7b6d598d69c17e",
    "ascending": "16be7b34df4447cc",
    "descending": "cdbfa6d9c75abc86",
    "constant": "c29707cc9550b230",
    "many_ties": "47c21f9b8fa8a05b",
    "small_differences": "31fcbb59e4725901",
    "sampled_peaks": "48efec8290467546",
    "cluster": "32850e198837a1b9",
    "negative_cluster": "b3288061458a08a4",
    "relu_zeros": "722b6db960a6eb16",
    "signed_zeros": "076b742abc8d4261",
    "infinite_ties": "168c0b1b4194e94d",
    "around_fp16_max": "f2214aa7cec9780c",
    "over_fp16": "acc44a188b0aed80",
}


def scores(name: str, length: int = 5000, seed: int = 7, row: int = 0) -> torch.Tensor:
    return wb.make(name, length=length, k=1, rows=row + 1, seed=seed)[row].valid


def digest(name: str) -> str:
    rows = wb.make(name, length=5000, k=512, rows=2, seed=7)
    return hashlib.sha256(b"".join(row.valid.numpy().tobytes() for row in rows)).hexdigest()[:16]


def test_every_distribution_is_reproducible_bit_for_bit() -> None:
    assert {one.name: digest(one.name) for one in DISTRIBUTIONS} == DIGESTS


@pytest.mark.parametrize("name", [one.name for one in DISTRIBUTIONS])
def test_a_row_of_a_seed_does_not_depend_on_how_many_are_made(name: str) -> None:
    assert torch.equal(wb.make(name, length=600, k=5, rows=3)[1].valid, wb.make(name, length=600, k=5, rows=2)[1].valid)


def test_seeds_and_rows_have_streams_of_their_own() -> None:
    made = [scores("random", seed=seed, row=row) for seed in (0, 1, 1 << 32) for row in (0, 1)]
    assert len({row.numpy().tobytes() for row in made}) == 6


@pytest.mark.parametrize("name", [one.name for one in DISTRIBUTIONS])
@pytest.mark.parametrize("length", [1, 2, 31, 127])
def test_short_rows_can_be_made_of_all(name: str, length: int) -> None:
    assert scores(name, length).numel() == length


@pytest.mark.parametrize(
    ("name", "bits"), [("10LSBits", 12), ("cluster", 8), ("negative_cluster", 8), ("over_fp16", 12)]
)
def test_these_lie_in_one_bin(name: str, bits: int) -> None:
    assert len(set(coarse_keys(scores(name, 9000), bits).tolist())) == 1


def test_what_the_others_hold() -> None:
    assert scores("10LSBits").unique().numel() > 900
    assert scores("many_ties").unique().numel() == 10
    assert scores("constant").unique().tolist() == [1.0]
    assert torch.equal(scores("ascending"), scores("descending").flip(0))
    assert (scores("relu_zeros") == 0).sum() == 4900
    zeros = scores("signed_zeros")[scores("signed_zeros") == 0]
    assert 0 < int(torch.signbit(zeros).sum()) < zeros.numel() == 4900
    assert (scores("infinite_ties") == -math.inf).sum() == 4900
    assert set(coarse_keys(scores("around_fp16_max"), 16).tolist()) >= {0xFBFF, 0xFC00}
    assert 1.2e-6 > float(scores("small_differences").std()) > 0.8e-6


def test_sampled_peaks_are_all_that_the_sample_sees() -> None:
    from workbench.paths.models.sampled import sample_places

    row = scores("sampled_peaks", 98304)
    places = sample_places(98304, 4096)
    assert float(row[places].min()) >= 8
    assert int((row > 7).sum()) == 4096


@pytest.mark.parametrize(
    ("name", "longest"), [("ascending", 2**24 + 1), ("descending", 2**24 + 1), ("over_fp16", 2**24 - 65535)]
)
def test_integers_that_float32_would_round_are_refused(name: str, longest: int) -> None:
    made = wb.make(name, length=longest, k=1)[0].scores
    assert made.max() == 2**24
    assert bool((made.diff().abs() == 1).all())
    with pytest.raises(UsageError, match=f"{name} has rows of at most {longest} scores"):
        wb.make(name, length=longest + 1, k=1)


def test_a_call_says_what_the_row_is() -> None:
    row = wb.make("random", length=700, k=9, rows=2, call=wb.Call(op="vllm.persistent_topk"))[1]
    call = row.call
    assert (call.k, call.rows, call.width, call.stride, call.max_seq_len, call.op) == (
        9,
        2,
        700,
        700,
        700,
        "vllm.persistent_topk",
    )
    assert RowProfile(row.valid, row.dtype, 9).length == 700


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"distribution": "normal"}, "unknown distribution 'normal'; known: random, 10LSBits"),
        ({"distribution": "random", "length": 5, "k": 6}, "k 6 is no integer from 1 to the length, 5"),
        ({"distribution": "random", "length": 0}, "length 0 is no integer from 1"),
        ({"distribution": "random", "rows": 0}, "rows 0"),
        ({"distribution": "random", "seed": -1}, "seed -1"),
        ({"distribution": "random", "population": 5}, "population: these shape the rows against a path"),
        ({"distribution": "random", "path": "vllm.filtered"}, "name one of the two"),
        ({}, "name one of the two"),
    ],
)
def test_what_cannot_be_made_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wb.make(**given)
