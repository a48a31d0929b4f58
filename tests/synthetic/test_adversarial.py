"""Rows against a path: the population asked for, on every path with a buffer, and what it does there."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk, risk
from workbench.errors import UsageError
from workbench.numeric.keys import ordered_keys
from workbench.paths.catalog import PATHS, get_path
from workbench.synthetic.adversarial import room, usual_k

BUFFERED = [path.name for path in PATHS if path.buffer is not None]


def judged(row: wb.Row, path: str) -> Risk:
    spec = get_path(path)
    return risk(RowProfile(row.valid, row.dtype, row.k), spec, spec.variant("stock"))


@pytest.mark.parametrize("path", BUFFERED)
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_buffer_holds_its_capacity_and_loses_from_one_more_on(path: str, more: int) -> None:
    spec = get_path(path)
    population = room(spec, usual_k(spec)) + more
    row = wb.make(path=path, population=population)[0]
    found = judged(row, path)
    assert not found.refused
    assert found.population == population
    assert found.above + found.need == row.k
    assert found.breach == (more > 0 or path == "vllm.cooperative_2")  # one of two blocks of 1024 sees more than that
    assert (found.level == "safe") != found.breach


@pytest.mark.parametrize("path", [name for name in BUFFERED if "cooperative" in name])
def test_a_cluster_of_scores_lies_in_one_block_which_overflows(path: str) -> None:
    for seed in range(4):
        row = wb.make(path=path, positions="clustered", seed=seed)[0]
        found = judged(row, path)
        assert (found.population, found.stored) == (1025, 1024)
        assert found.level == "certain"
    line = wb.run(row, paths=path).to_pandas().iloc[0]
    assert line["verdict"] == "invalid"
    assert line["unwritten"] == 1


@pytest.mark.parametrize("cut_byte", [24, 16, 8, 0])
def test_one_byte_alone_parts_winners_from_losers(cut_byte: int) -> None:
    row = wb.make(path="vllm.histogram_256", cut_byte=cut_byte)[0]
    found = judged(row, "vllm.histogram_256")
    assert (found.population, found.above) == (4097, 0)
    keys = torch.sort(ordered_keys(row.valid), descending=True).values
    winners, losers = keys[: row.k] >> cut_byte, keys[row.k : 4097] >> cut_byte
    assert winners.unique().numel() == losers.unique().numel() == 1
    assert int(winners[0] - losers[0]) == 1


@pytest.mark.parametrize(("values", "sign"), [("forward", 1), ("reversed", -1)])
def test_values_run_along_the_row(values: str, sign: int) -> None:
    row = wb.make(path="vllm.filtered", values=values, above=7)[0].valid
    inside = row[(row > 0) & (row < 2)]
    assert inside.numel() == 16385
    assert bool((sign * inside.diff() > 0).all())


def test_clustered_scores_stand_side_by_side() -> None:
    row = wb.make(path="sglang.v1", positions="clustered")[0].valid
    held = (row > 0).nonzero().flatten()
    assert int(held[-1] - held[0]) + 1 == held.numel() == 8193


def test_a_variant_has_its_own_buffer() -> None:
    spec = get_path("sglang.fast_topk")
    own = next(one for one in spec.variants if one.buffer is not None and one.buffer.capacity == 16384)
    row = wb.make(path="sglang.fast_topk", variant=own.name)[0]
    assert judged(row, "sglang.fast_topk").population == 16385


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "vllm.radix"}, "buffers no coarse bin"),
        ({"path": "nosuch"}, "no path matches"),
        ({"path": "vllm.filtered", "variant": "nosuch"}, "has no variant 'nosuch'; known: stock"),
        ({"path": "vllm.histogram_2048", "length": 8193}, "length 8193 is above 8192"),
        ({"path": "vllm.histogram_2048", "population": 9000}, "length 9000 is above 8192"),
        ({"path": "vllm.histogram_2048", "population": 9000, "length": 8192}, "do not fit in length 8192"),
        ({"path": "vllm.histogram_256", "k": 7}, "k is 7, the path takes 512, 1024 or 2048"),
        ({"path": "vllm.histogram_256", "above": 2048}, "from 0 to k - 1"),
        ({"path": "vllm.histogram_256", "population": 100, "above": 3}, "the cut-off lies elsewhere"),
        ({"path": "vllm.histogram_256", "above": 1, "cut_byte": 24}, "no score lies above it"),
        ({"path": "vllm.histogram_256", "cut_byte": 5}, "unknown cut byte 5"),
        ({"path": "vllm.histogram_256", "positions": "here"}, "unknown positions 'here'"),
        ({"path": "vllm.histogram_256", "colour": "red"}, "fields of a recipe"),
    ],
)
def test_what_cannot_be_made_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wb.make(**given)
