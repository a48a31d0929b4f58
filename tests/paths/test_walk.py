"""Walks: orders of the whole row that follow how threads are described to walk it."""

from __future__ import annotations

import pytest
import torch

from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.spec import Path, Ranks, Walk
from workbench.paths.walk import SCHEDULERS, WALKS, WARP, walk_of, walked

SLICES = Ranks(4, 1024, "contiguous", 4, in_order=True)
DEALT = Ranks(8, 2048, "interleaved", 512, in_order=False)
SHAPES = [
    Walk(load=1),
    Walk(load=2, threads=256),
    Walk(),
    Walk(threads=512),
    Walk(ranks=SLICES),
    Walk(load=1, ranks=DEALT),
]


@pytest.mark.parametrize("length", [1, 3, 31, 129, 4096, 4097, 70001])
@pytest.mark.parametrize("walk", SHAPES, ids=str)
def test_a_walk_is_an_order_of_the_whole_row(walk: Walk, length: int) -> None:
    order = Arrival("walk", seed=5, walk=walk)
    whole = order.sort(torch.arange(length), length)
    assert torch.equal(whole, walked(walk, length, 5))
    assert torch.equal(whole.sort().values, torch.arange(length))
    for step in (3, 50):  # picked out of the order, and sorted by rank
        some = torch.arange(0, length, step)
        assert torch.equal(order.sort(some, length), whole[whole % step == 0])


def test_seeds_repeat_and_differ() -> None:
    first, again, other = (walked(Walk(), 4096, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("load", "threads"), [(1, 1024), (2, 256), (4, 1024), (4, 512)])
def test_loads_follow_each_other_and_so_do_their_scores(load: int, threads: int) -> None:
    """After every step all threads have handed over one more score: one round of loads, one place within the load."""
    length, span = 16384, load * threads
    for step, arrived in enumerate(walked(Walk(load=load, threads=threads), length, 0).split(threads)):
        assert (arrived // span == step // load).all()
        assert (arrived % load == step % load).all()
        lanes = arrived.view(-1, WARP)
        assert (lanes.diff() == load).all()  # a warp's lanes together, in order
        warps = lanes[:, 0] % span // (load * WARP)
        for scheduler in range(SCHEDULERS):
            mine = warps[warps % SCHEDULERS == scheduler]
            assert (mine.diff() == -SCHEDULERS).all()  # each scheduler its youngest warp first


def test_schedulers_keep_no_pace() -> None:
    last = torch.stack([walked(Walk(), 4096, seed)[-WARP:] for seed in range(40)])
    assert set((last[:, 0] // 128).tolist()) == set(range(SCHEDULERS))  # the oldest warp of any scheduler ends


def test_blocks_of_a_cluster_come_one_after_the_other() -> None:
    owners = SLICES.owners(walked(Walk(ranks=SLICES), 40000, 0), 40000)
    assert owners.unique_consecutive().tolist() == [0, 1, 2, 3]
    seen = [DEALT.owners(walked(Walk(ranks=DEALT), 40000, seed), 40000) for seed in range(9)]
    turns = {tuple(owners.unique_consecutive().tolist()) for owners in seen}
    assert {turn[0] for turn in turns} == {0}
    assert {tuple(sorted(turn)) for turn in turns} == {tuple(range(8))}
    assert len(turns) > 5


def test_walks_of_paths_are_their_familys_unless_they_say_otherwise() -> None:
    assert walk_of(get_path("vllm.histogram_256")) == walk_of(get_path("sglang.fast_topk")) == Walk(load=1)
    assert walk_of(get_path("vllm.histogram_2048")) == walk_of(get_path("sglang.v2_register")) == Walk(load=4)
    assert walk_of(get_path("vllm.cooperative_8")).ranks == get_path("vllm.cooperative_8").buffer.ranks
    cluster = get_path("sglang.v2_cluster_8")
    sliced = cluster.as_variant(cluster.variant("contiguous_ranks"))
    assert walk_of(cluster).ranks.layout == "interleaved"
    assert walk_of(sliced).ranks.layout == "contiguous"


@pytest.mark.parametrize("path", [path for path in find_paths() if path.walk], ids=lambda path: path.name)
def test_no_record_repeats_the_walk_of_its_family(path: Path) -> None:
    assert path.walk != WALKS[path.family]


@pytest.mark.parametrize("arguments", [{"load": 3}, {"load": 0}, {"threads": 0}, {"threads": 100}, {"threads": -128}])
def test_a_walk_is_checked_when_made(arguments: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="no walk"):
        Walk(**arguments)


def test_only_a_walk_has_one() -> None:
    with pytest.raises(UsageError, match="how the threads walk"):
        Arrival("walk")
    with pytest.raises(UsageError, match="how the threads walk"):
        Arrival("random", walk=Walk())
