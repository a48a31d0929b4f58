"""The models on rows of real size: exact where nothing is dropped, and telemetry that adds up."""

from __future__ import annotations

import math

import pytest
import torch

from workbench.analysis.reference import reference
from workbench.analysis.verdict import judge
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.model import run_model
from workbench.paths.selection import Selection
from workbench.paths.spec import Path, Walk

MODELLED = [
    path
    for path in find_paths()
    if path.variant("stock").modelled and path.family != "identity" and path.name != "tilelang.topk_selector"
]
ORDERS = [
    Arrival("index"),
    Arrival("reverse"),
    Arrival("random", "element", 7),
    Arrival("random", "warp", 7),
    Arrival("reverse", "warp"),
    Arrival("walk", seed=7, walk=Walk()),
]


def length_for(path: Path) -> int:
    return 40000 if path.name == "vllm.radix" else 20000 if path.name != "vllm.histogram_2048" else 8000


def run(path: Path, scores: torch.Tensor, arrival: Arrival, k: int = 2048) -> tuple[Selection, str, int]:
    scores = scores.to(getattr(torch, path.dtypes[0]))
    selection = run_model(path, scores, k, arrival)
    verdict = judge(scores, reference(Row(scores, scores.numel()), k).indices, selection.indices)
    return selection, verdict.kind, verdict.missing


@pytest.mark.parametrize("arrival", ORDERS, ids=lambda order: f"{order.kind}-{order.unit}")
@pytest.mark.parametrize("path", MODELLED, ids=lambda path: path.name)
def test_normal_scores_are_selected_exactly(path: Path, arrival: Arrival) -> None:
    scores = torch.randn(length_for(path), generator=torch.Generator().manual_seed(1))
    kind, missing = run(path, scores, arrival)[1:]
    assert missing == 0
    assert kind in (("exact",) if path.dtypes[0] == "float32" else ("exact", "ties"))  # bfloat16 rounds to ties


@pytest.mark.parametrize("path", MODELLED, ids=lambda path: path.name)
def test_equal_scores_are_ties_never_losses(path: Path) -> None:
    scores = torch.ones(length_for(path))
    assert run(path, scores, Arrival("random", seed=3))[1:] == ("ties", 0)
    # In index order one block takes the smallest indices; the blocks of a cluster each take some of their own.
    in_order = run(path, scores, Arrival("index"))[1:]
    assert in_order == ("ties" if path.buffer and path.buffer.ranks and path.buffer.ranks.in_order else "exact", 0)


@pytest.mark.parametrize("path", [path for path in MODELLED if path.buffer], ids=lambda path: path.name)
def test_telemetry_adds_up_where_the_buffer_overflows(path: Path) -> None:
    k, capacity = 2048, path.buffer.slots(2048)
    population, length = capacity + 100, 2 * capacity + 4000
    scores = torch.full((length,), -3.0)
    near_one = torch.arange(1, population + 1, dtype=torch.int32) + 0x3F800000
    where = torch.randperm(length, generator=torch.Generator().manual_seed(2))
    scores[where[:population]] = near_one.view(torch.float32)
    scores[where[population : population + 48]] = 9.0
    selection, kind, missing = run(path, scores, Arrival("random", seed=5))
    seen = selection.telemetry
    assert (seen.above, seen.population, seen.need, seen.capacity) == (48, population, k - 48, capacity)
    assert int(seen.histogram.sum()) == length
    assert int(seen.histogram[seen.threshold_bin]) == population
    assert int(seen.histogram[seen.threshold_bin + 1 :].sum()) == 48
    assert (seen.buffered, seen.stored, seen.dropped.numel()) == (True, capacity, 100)
    # What was lost is what was dropped of the exact winners.
    winners = reference(Row(scores, length), k).indices.long()
    assert missing == int(torch.isin(winners, seen.dropped).sum()) > 0
    assert kind == "lossy"
    for before, after in zip(seen.passes, seen.passes[1:], strict=False):
        assert after.seen == before.kept
        assert after.need == before.need - before.above
    if seen.passes:
        assert (seen.passes[0].seen, seen.passes[0].need) == (capacity, k - 48)


def test_radix_ranks_a_signed_nan_below_everything() -> None:
    scores = torch.linspace(0, 1, 40000)
    scores[5] = -math.nan
    scores[6] = math.nan
    selection = run_model(get_path("vllm.radix"), scores, 512, Arrival("index"))
    assert 5 not in selection.indices.tolist()
    assert 6 in selection.indices.tolist()
    assert judge(scores, reference(Row(scores, 40000), 512).indices, selection.indices).missing == 1


def test_a_path_without_a_model_says_so() -> None:
    with pytest.raises(UsageError, match=r"vllm\.sampled v0\.33\.0 has no model"):
        run_model(get_path("vllm.sampled"), torch.zeros(4096), 512, Arrival(), "v0.33.0")


def test_arrival_orders_are_orders_of_the_whole_row() -> None:
    everything, some = torch.arange(100), torch.arange(0, 100, 3)
    for arrival in ORDERS:
        whole = arrival.sort(everything, 100)
        assert sorted(whole.tolist()) == everything.tolist()
        assert arrival.sort(some, 100).tolist() == [i for i in whole.tolist() if i % 3 == 0]
    warps = Arrival("random", "warp", 1).sort(torch.arange(128), 128).view(4, 32)
    assert (warps.diff() == 1).all()
    assert (
        Arrival("random", seed=1).sort(everything, 100).tolist()
        != Arrival("random", seed=2).sort(everything, 100).tolist()
    )


def test_an_explicit_order_must_be_one() -> None:
    with pytest.raises(UsageError, match=r"must hold each of 0\.\.2 once"):
        Arrival("explicit", order=(0, 1, 1)).sort(torch.arange(3), 3)


@pytest.mark.parametrize("arguments", [{"kind": "bogus"}, {"unit": "lane"}, {"seed": -1}, {"seed": 2**63}])
def test_an_arrival_order_is_checked_when_made(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Arrival(**arguments)


def test_scaled_paths_keep_what_they_need_and_check_their_numbers() -> None:
    assert get_path("vllm.trivial").scaled(3) == get_path("vllm.trivial")
    assert get_path("vllm.radix").scaled(3).unmet(k=2, length=5, dtype="float32") == []
    for number in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="no capacity"):
            get_path("vllm.filtered").scaled(number)


@pytest.mark.parametrize(
    ("path", "variant"),
    [
        (path, variant.name)
        for path in find_paths()
        for variant in path.variants
        if variant.modelled and path.buffer is not None and path.buffer.ranks is not None
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_what_each_block_of_a_cluster_did_adds_up(path: Path, variant: str) -> None:
    buffer = path.as_variant(path.variant(variant)).buffer
    assert buffer is not None
    assert buffer.ranks is not None
    length, ranks = 40000, buffer.ranks
    one_bin = 1 + 0.05 * torch.rand(length, generator=torch.Generator().manual_seed(2))
    spread = torch.randn(length, generator=torch.Generator().manual_seed(2))
    for scores in (one_bin, spread):
        told = run_model(path, scores, 512, Arrival("random", seed=1), variant).telemetry
        assert told is not None
        population, stored, dropped = (
            [getattr(one, name) for one in told.shares] for name in ("population", "stored", "dropped")
        )
        assert (sum(population), sum(stored), sum(dropped)) == (told.population, told.stored, told.dropped.numel())
        assert len(told.shares) == ranks.count
        assert all(one <= min(seen, ranks.capacity) for one, seen in zip(stored, population, strict=True))
        members = torch.nonzero(scores >= 1).flatten()
        if scores is one_bin:
            assert population == torch.bincount(ranks.owners(members, length), minlength=ranks.count).tolist()
    assert run_model(get_path("vllm.filtered"), one_bin, 512, Arrival()).telemetry.shares == ()
