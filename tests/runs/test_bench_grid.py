"""What a benchmark measures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.plan import HOPPER_CAPS
from workbench.paths.routing import route
from workbench.runs.bench_grid import Contender, Edges, Shape, boundaries, by_batch, caches, contenders, grid
from workbench.runs.bench_routes import edges_for
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


PERSISTENT = "vllm.persistent_topk"


def edges(release: str, *ks: int, op: str = PERSISTENT, device: str = "h200") -> Mapping[int, Edges]:
    return edges_for([Contender("cuda", op, release), Contender("torch.topk")], device, ks, "float32")


def test_boundaries_lie_on_both_sides() -> None:
    found = boundaries((2048,), edges("vllm==0.31.0", 2048))
    assert {shape.rows for shape in found} == {32, 33, 64, 65}
    near = (8192, 32768, 65535)
    assert {shape.length for shape in found} == {edge + side for edge in near for side in (-1, 0, 1)}
    assert len(found) == 4 * 9
    assert all(shape.width % 32 == 0 and 0 <= shape.width - shape.length < 32 for shape in found)
    assert all(shape.max_seq_len == shape.length for shape in found)
    assert {shape.rows for shape in boundaries((512,), edges("vllm==0.31.0", 512), rows=(7,))} == {7}


def test_edges_are_those_of_every_op_release_and_k() -> None:
    found = edges("vllm==0.32.0", 512, 2048)
    assert found[512] == Edges((32, 64), (8192, 32768, 98303))
    assert found[2048] == Edges((32, 64), (8192, 32768, 65535))
    assert {shape.length for shape in boundaries((512, 2048), found) if shape.k == 512} >= {98303, 98304}
    assert edges("vllm==0.26.0", 512)[512] == Edges((32,), (8192, 32768))
    two = [Contender("model", PERSISTENT, "vllm==0.26.0"), Contender("model", "vllm.cooperative_topk", "vllm==0.26.0")]
    assert edges_for(two, "b200", [512], "float32")[512] == Edges((4, 8, 32), (8192, 16384, 32768))
    plan = edges("sglang==0.5.21", 512, op="sglang.topk_transform_paged_v2")[512]
    assert {15, 30, 512, *(cap for _, cap in HOPPER_CAPS)} <= set(plan.rows)
    assert {16384, 32768, *(threshold for threshold, _ in HOPPER_CAPS)} <= set(plan.lengths)
    bf16 = [Contender("cuda", "sglang.topk_transform_bf16_small", "sglang==0.5.21")]
    assert edges_for(bf16, "h200", [512], "bfloat16")[512] == Edges((), (16384,))


def test_a_release_without_routing_has_no_edges() -> None:
    known, unknown = Contender("vendor", PERSISTENT, "vllm==0.26.0"), Contender("vendor", PERSISTENT, "vllm==0.19.0")
    assert edges_for([unknown, known], "h200", [512], "float32")[512].rows == (32,)
    with pytest.raises(UsageError, match=r"0\.19\.0"):
        edges_for([unknown], "h200", [512], "float32")


@pytest.mark.parametrize(
    ("who", "device", "words"),
    [
        (Contender("torch.topk"), "h200", "give an op, and an engine"),
        (Contender("vendor", PERSISTENT, "vllm==0.26.0"), "", "the device that routing is asked for"),
    ],
)
def test_what_has_no_edges(who: Contender, device: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        edges_for([who], device, [512], "float32")


def test_an_op_that_takes_every_call_the_same_way() -> None:
    found = edges("sglang-kernel==0.4.6", 2048, op="sglang.fast_topk_v2")
    with pytest.raises(UsageError, match="leave --boundaries out"):
        boundaries((2048,), found)
    assert [(one.rows, one.length) for one in boundaries((2048,), found, lengths=(9000,))] == [(1, 9000)]
    assert [(one.rows, one.length) for one in boundaries((2048,), found, rows=(9,))] == [(9, 32768)]


@pytest.mark.parametrize("release", ["vllm==0.26.0", "vllm==0.32.0"])
def test_routes_change_across_them(release: str) -> None:
    """Each change of path of vLLM's persistent op lies between two neighbours of the sweep."""
    taken = {}
    for shape in boundaries((2048,), edges(release, 2048)):
        scores, lengths = make_batch("constant", rows=1, length=shape.length, width=shape.width)
        call = Call(k=2048, rows=shape.rows, width=shape.width, stride=shape.width, max_seq_len=shape.max_seq_len)
        found = route(Row(scores[0], int(lengths[0]), call=call), PERSISTENT, release, "h200")
        taken[shape.rows, shape.length] = found.path
    assert taken[32, 8192] != taken[32, 8193]
    assert taken[32, 32768] != taken[32, 32769]
    assert taken[32, 32769] != taken[33, 32769]
    assert taken[33, 32768] != taken[33, 32769]
    if release == "vllm==0.32.0":
        assert taken[65, 65535] != taken[65, 65536]
        assert taken[64, 65536] != taken[65, 65536]


def test_engines_may_have_other_releases() -> None:
    found = contenders(
        ["cuda", "vendor"], [PERSISTENT], {"cuda": ["vllm==0.26.0"], "vendor": ["vllm==0.26.0", "vllm==0.27.0"]}
    )
    assert [str(one) for one in found] == [
        f"cuda vllm==0.26.0 {PERSISTENT}",
        f"vendor vllm==0.26.0 {PERSISTENT}",
        f"vendor vllm==0.27.0 {PERSISTENT}",
    ]


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
