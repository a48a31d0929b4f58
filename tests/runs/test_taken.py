"""Where a row may go while not everything is known: no path is left out, none is made up."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from workbench.capture.row import Call, Row
from workbench.paths.catalog import PATHS
from workbench.paths.ops import get_op
from workbench.paths.routing import route
from workbench.runs.taken import Where, own_variant, taken

ROWS = (1, 2, 4, 7, 8, 9, 15, 16, 30, 31, 32, 33, 64, 65, 100, 512, 513, 2000)
LENGTHS = (700, 8192, 8193, 20000, 32768, 32769, 140000)
DECODE = (
    ("vllm.persistent_topk", "vllm==0.32.0"),
    ("vllm.persistent_topk", "vllm==0.20.2"),
    ("vllm.cooperative_topk", "vllm==0.29.0"),
    ("vllm.top_k_per_row_decode", "vllm==0.26.0"),
    ("vllm.sparse_indexer_topk", "vllm==0.31.0"),
    ("sglang.topk_transform_paged_v2", "sglang==0.5.23"),
)


def row(length: int, **call: int | None) -> Row:
    return Row(torch.empty(1).expand(length), length, call=Call(k=512, **call))


@pytest.mark.parametrize(("op", "release"), DECODE)
@pytest.mark.parametrize("length", LENGTHS)
def test_every_path_that_a_known_call_takes_is_among_those_of_an_unknown_one(
    op: str, release: str, length: int
) -> None:
    where = Where(op, release, "h200")
    found = set(taken(row(length), where, 512).pairs)
    wide = -(-length // 256) * 256
    known = set()
    for rows, more, bound in product(ROWS, (0, 256, 200000), (0, 100000)):
        width = wide + more
        at = row(length, rows=rows, width=width, stride=width, max_seq_len=min(width, length + bound))
        one = route(at, op, release, "h200")
        if one.path is not None:
            known.add((one.path, one.variant))
            assert taken(at, where, 512).pairs == ((one.path, one.variant),)
    assert known <= found
    assert {path for path, _ in found} <= set(get_op(op).reaches)


def test_what_is_known_narrows_where_a_row_may_go() -> None:
    where = Where("vllm.persistent_topk", "vllm==0.32.0", "h200")
    assert {path for path, _ in taken(row(20000), where, 512).pairs} >= {"vllm.histogram_256", "vllm.histogram_4096"}
    found = taken(row(20000, rows=33), where, 512)
    assert found.pairs == (("vllm.histogram_4096", "stock"),)
    assert not found.unknown
    assert found.calls == "vllm.persistent_topk"


def test_an_unknown_layout_is_each_of_them() -> None:
    where = Where("sglang.dsa_topk_transform", "sglang==0.5.23", "h200")
    at = row(20000, rows=64, width=20000, stride=20000)
    found = taken(replace(at, call=replace(at.call, k=2048)), where, 2048)
    assert {path for path, _ in found.pairs} == {"sglang.v2_streaming", "sglang.fast_topk"}
    assert found.unknown == ("layout",)


def test_a_refusal_is_that_of_the_call_as_it_is_known() -> None:
    found = taken(row(20000, rows=33), Where("vllm.cooperative_topk", "vllm==0.26.0", "h200"), 512)
    assert not found.pairs
    assert found.refused == "the op takes at most 32 rows in vllm==0.26.0, not 33"
    found = taken(row(20000), Where("vllm.persistent_topk", "vllm==0.26.0", "mi300x"), 512)
    assert "CUDA only" in found.refused


def test_a_variant_named_after_a_release_holds_from_there_on() -> None:
    releases = {"vllm": ("vllm==0.32.0", "vllm==0.33.0"), "sglang": ("sglang==0.5.21", "sglang==0.5.23")}
    for path in PATHS:
        if path.system not in releases:
            continue
        before, since = releases[path.system]
        assert own_variant(path, before) == "stock"
        named = [one.name for one in path.variants if one.name[:1] == "v" and one.name[1:2].isdigit()]
        assert own_variant(path, since) == (named[0] if named else "stock")
