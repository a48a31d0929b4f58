"""What a benchmark measures."""

from __future__ import annotations

import pytest

from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.routing import route
from workbench.runs.bench_grid import ROW_EDGES, Contender, Shape, boundaries, by_batch, caches, contenders, grid
from workbench.synthetic.batches import make_batch


def test_a_grid_is_every_combination() -> None:
    found = grid((1, 2), (100, 200), (10, 20), "both", 300)
    assert len(found) == len(set(found)) == 16
    assert found[0] == Shape(1, 100, 300, 10, "full", 300)
    assert found[1].k == 20
    assert grid((1,), (100,), (10,)) == [Shape(1, 100, 100, 10, "full", 100)]
    assert [len(same) for same in by_batch(found)] == [2] * 8


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (((), (1,), (1,)), "no rows are given"),
        (((1,), (), (1,)), "no widths are given"),
        (((0,), (1,), (1,)), "rows: 0 is no integer from 1"),
        (((1,), (2**31,), (1,)), "widths: 2147483648 is no integer"),
        (((1,), (1,), (True,)), "k: True is no integer"),
        (((1, 1), (1,), (1,)), "name one twice"),
        (((1,), (10,), (1,), "full", 9), "capacity of 9 is below"),
        (((1,), (10,), (1,), "short"), "no kind of lengths"),
    ],
)
def test_what_is_no_grid(given: tuple[object, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        grid(*given)  # type: ignore[arg-type]


def test_boundaries_lie_on_both_sides() -> None:
    found = boundaries((2048,))
    assert {shape.rows for shape in found} == {15, 16, 30, 31, 32, 33, 64, 65, 512, 513}
    for kib in (8, 16, 24, 30, 32, 64, 96):
        assert {kib * 1024 - 1, kib * 1024, kib * 1024 + 1} <= {shape.length for shape in found}
    assert len(found) == 10 * 21
    assert all(shape.width % 32 == 0 and 0 <= shape.width - shape.length < 32 for shape in found)
    assert all(shape.max_seq_len == shape.length for shape in found)
    assert {shape.rows for shape in boundaries((512,), rows=(7,))} == {7}


@pytest.mark.parametrize("release", ["vllm==0.26.0", "vllm==0.32.0"])
def test_routes_change_across_them(release: str) -> None:
    """Each change of path of vLLM's persistent op lies between two neighbours of the sweep."""
    taken = {}
    for shape in boundaries((2048,)):
        scores, lengths = make_batch("constant", rows=1, length=shape.length, width=shape.width)
        call = Call(k=2048, rows=shape.rows, width=shape.width, stride=shape.width, max_seq_len=shape.max_seq_len)
        found = route(Row(scores[0], int(lengths[0]), call=call), "vllm.persistent_topk", release, "h200")
        taken[shape.rows, shape.length] = found.path
    assert taken[32, 8192] != taken[32, 8193]
    assert taken[32, 32768] != taken[32, 32769]
    assert taken[32, 32769] != taken[33, 32769]
    assert taken[33, 32768] != taken[33, 32769]
    if release == "vllm==0.32.0":
        assert taken[65, 65535] != taken[65, 65536]
        assert taken[64, 65536] != taken[65, 65536]
    assert len(ROW_EDGES) == 5


def test_who_is_timed_stands_side_by_side() -> None:
    found = contenders(
        ["torch.topk", "my.module:select", "vendor", "cuda"],
        ["vllm.persistent_topk", "sglang.fast_topk_v2"],
        ["vllm==0.26.0", "vllm==0.33.0", "sglang-kernel==0.4.6"],
    )
    assert found == [
        Contender("vendor", "vllm.persistent_topk", "vllm==0.26.0"),
        Contender("cuda", "vllm.persistent_topk", "vllm==0.26.0"),
        Contender("vendor", "vllm.persistent_topk", "vllm==0.33.0"),
        Contender("cuda", "vllm.persistent_topk", "vllm==0.33.0"),
        Contender("vendor", "sglang.fast_topk_v2", "sglang-kernel==0.4.6"),
        Contender("cuda", "sglang.fast_topk_v2", "sglang-kernel==0.4.6"),
        Contender("torch.topk"),
        Contender("my.module:select"),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (([], [], []), "no engine is given"),
        ((["model", "model"], ["vllm.persistent_topk"], ["vllm==0.26.0"]), "give each engine once"),
        ((["model"], [], []), "model needs an op"),
        ((["model"], ["vllm.persistent_topk"], []), "no release of vllm is given"),
        ((["model"], ["vllm.persistent_topk"], ["sglang==0.5.21"]), "no op of its package"),
        ((["torch.topk"], ["vllm.persistent_topk"], []), "no engine that runs one"),
        ((["model"], ["vllm.topk"], ["vllm==0.26.0"]), "unknown op"),
    ],
)
def test_who_cannot_be_timed(given: tuple[list[str], list[str], list[str]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        contenders(*given)


def test_states_of_the_cache() -> None:
    assert caches("both") == ("warm", "cold")
    assert caches("cold") == ("cold",)
    with pytest.raises(UsageError, match="warm, cold or both"):
        caches("hot")
