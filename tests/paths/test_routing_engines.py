"""Engines' own choices of an op, by release, device and setup."""

from __future__ import annotations

import pytest
import torch

from workbench.capture.row import Call, Row
from workbench.paths.conditions import Setup
from workbench.paths.routing import Route, route

INDEXER = "vllm.sparse_indexer_topk"
DSA = "sglang.dsa_topk_transform"


def taken(op: str, release: str, device: str = "h200", setup: Setup | None = None, **call: int | None) -> Route:
    length = call.pop("length", 20000) or 0
    known = {"k": 2048, "rows": 8, "width": 20480, "stride": 20480, "max_seq_len": 20000} | call
    return route(Row(torch.zeros(length), length, call=Call(**known)), op, release, device, setup=setup)


@pytest.mark.parametrize(
    ("release", "device", "call", "called"),
    [
        ("0.23.0", "h200", {}, "vllm.persistent_topk"),  # no cooperative_topk yet
        ("0.24.0", "h200", {}, "vllm.cooperative_topk"),
        ("0.24.0", "a100", {}, "vllm.persistent_topk"),
        ("0.28.0", "h200", {"rows": 32}, "vllm.cooperative_topk"),
        ("0.28.0", "h200", {"rows": 33}, "vllm.persistent_topk"),
        ("0.29.0", "h200", {"rows": 64}, "vllm.cooperative_topk"),
        ("0.32.0", "h200", {"rows": 65}, "vllm.persistent_topk"),
        ("0.32.0", "h200", {"stride": 20481}, "vllm.persistent_topk"),
        ("0.32.0", "gb10", {}, "vllm.persistent_topk"),
        ("0.32.0", "b300", {"k": 1000}, "vllm.top_k_per_row_decode"),
        ("0.20.2", "h200", {"k": 1000}, "vllm.top_k_per_row_decode"),
        ("0.32.0", "mi300x", {}, "vllm.top_k_per_row_decode"),
    ],
)
def test_the_chain_by_release_device_and_call(release: str, device: str, call: dict[str, int], called: str) -> None:
    one = taken(INDEXER, f"vllm=={release}", device, **call)
    assert one.calls == called
    assert one.path is not None


def test_one_release_tries_clusters_where_they_cannot_be_launched() -> None:
    one = taken(INDEXER, "vllm==0.24.0", "gb10")
    assert one.calls == "vllm.cooperative_topk"
    assert "gb10 has no clusters" in one.refused
    assert taken(INDEXER, "vllm==0.25.1", "gb10").calls == "vllm.persistent_topk"


def test_every_unmet_constraint_is_told() -> None:
    one = taken(INDEXER, "vllm==0.32.0", "gb10", k=1000, rows=65, stride=20481)
    unmet = [reason.text for reason in one.reasons if reason.met is False and reason.text.startswith("cooperative")]
    assert [text.split(",")[0] for text in unmet] == [
        "cooperative needs k 512",
        "cooperative needs rows ≤ 64",
        "cooperative needs a stride that is a multiple of 4",
        "cooperative needs compute capability 9.0 or later",
    ]


def test_a_named_backend_raises_with_all_of_them() -> None:
    one = taken(INDEXER, "vllm==0.32.0", "h200", Setup(backend="deep_select"), k=5000, stride=20481)
    assert one.path is None
    for said in ("compute capability 10", "k ≤ 4096, k is 5000", "multiple of 1024 bytes"):
        assert said in one.refused


@pytest.mark.parametrize(
    ("backend", "device", "path"),
    [
        ("auto", "h200", "vllm.cooperative_8"),
        ("persistent", "h200", "vllm.histogram_256"),
        ("per_row", "h200", "vllm.per_row"),
        ("deep_select", "b200", "sglang.deep_select"),
        ("flashinfer", "h200", "flashinfer.ragged"),
        ("torch", "h200", "torch.topk"),
    ],
)
def test_backends_by_name(backend: str, device: str, path: str) -> None:
    assert taken(INDEXER, "vllm==0.30.0", device, Setup(backend=backend)).path == path


def test_backends_belong_to_releases() -> None:
    early = taken(INDEXER, "vllm==0.29.0", setup=Setup(backend="per_row"))
    assert early.refused == "vllm==0.29.0 has no sparse_indexer_topk_backend; leave the backend as it is"
    assert "has no backend 'aiter'" in taken(INDEXER, "vllm==0.31.0", "mi355x", Setup(backend="aiter")).refused
    assert "needs ROCm" in taken(INDEXER, "vllm==0.32.0", "h200", Setup(backend="aiter")).refused
    assert taken(INDEXER, "vllm==0.32.0", "mi355x", Setup(backend="aiter")).unknown == ("AITER's selector",)
    assert "has no backend 'gvr'" in taken(INDEXER, "vllm==0.32.0", setup=Setup(backend="gvr")).refused


def test_an_empty_backend_is_none_that_exists() -> None:
    assert "has no backend ''" in taken(INDEXER, "vllm==0.32.0", setup=Setup(backend="")).refused
    assert "has no top-k backend ''" in taken(DSA, "sglang==0.5.21", setup=Setup(backend="")).refused


def test_the_width_stands_for_the_bound_in_some_releases() -> None:
    """The sampled kernel of 65 rows hangs on the bound, from 0.31.0 on the host's own."""
    call = {"rows": 65, "width": 163840, "stride": 163840, "max_seq_len": None, "length": 20000}
    assert taken(INDEXER, "vllm==0.31.0", "h200", **call).unknown == ("max_seq_len",)
    assert taken(INDEXER, "vllm==0.31.0", "h200", **call | {"max_seq_len": 20000}).path == "vllm.histogram_4096"
    odd = {"rows": 8, "width": 40001, "stride": 40001, "length": 40001, "max_seq_len": 20000}
    assert taken(INDEXER, "vllm==0.31.0", "h200", **odd).refused  # past the bound
    assert taken(INDEXER, "vllm==0.30.0", "h200", **odd).path == "vllm.radix"
    told = [reason.text for reason in taken(INDEXER, "vllm==0.30.0", "h200", **call).reasons]
    assert "max_seq_len is the width, 163840" in told
    vast = {"rows": 1, "width": None, "stride": 2**31 - 256, "max_seq_len": 20000}
    nowhere = taken(INDEXER, "vllm==0.30.0", "h200", setup=Setup(backend="persistent"), **call | vast)
    assert nowhere.unknown == ("width",)
    assert nowhere.reasons[-1].text.startswith("max_seq_len is the width, which is unknown, and 32769 or more decides")
    assert nowhere.reasons[-1].edges == (("width", 32768),)


def test_what_is_unknown_stops_the_chain_only_where_it_decides() -> None:
    assert taken(INDEXER, "vllm==0.32.0", rows=None).unknown == ("rows",)
    assert taken(INDEXER, "vllm==0.32.0", rows=None, k=1000).path == "vllm.per_row"


@pytest.mark.parametrize(
    ("release", "layout", "called", "path"),
    [
        ("0.5.18", "paged", "sglang.topk_transform_paged_v2", "sglang.v2_streaming"),
        ("0.5.18", "prefill", "sglang.fast_topk_transform_fused", "sglang.fast_topk"),
        ("0.5.18", "ragged", "sglang.fast_topk_transform_ragged_fused", "sglang.fast_topk"),
        ("0.5.21", "paged", "sglang.topk_transform_paged_v2", "sglang.v2_streaming"),
        ("0.5.21", "prefill", "sglang.fast_topk_transform_fused", "sglang.fast_topk"),
        ("0.5.21", "ragged", "sglang.topk_transform_ragged_v2", "sglang.v2_streaming"),
    ],
)
def test_sglang_by_layout_and_release(release: str, layout: str, called: str, path: str) -> None:
    one = taken(DSA, f"sglang=={release}", setup=Setup(layout=layout))
    assert (one.calls, one.path) == (called, path)


def test_the_gate_of_v2() -> None:
    off = taken(DSA, "sglang==0.5.21", setup=Setup(layout="paged", topk_v2=False))
    assert (off.calls, off.path) == ("sglang.fast_topk_transform_fused", "sglang.fast_topk")
    wide = taken(DSA, "sglang==0.5.21", setup=Setup(layout="paged"), k=4096)
    assert wide.refused == "the op takes k 2048 only, not k 4096"
    both = taken(DSA, "sglang==0.5.21", setup=Setup(layout="prefill", topk_v2=False))
    assert sum(reason.met is False for reason in both.reasons[:5]) == 2  # every part of the gate is told


def test_sglang_s_other_backends() -> None:
    assert taken(DSA, "sglang==0.5.21").unknown == ("layout",)
    assert "SGLANG_DSA_FUSE_TOPK" in taken(DSA, "sglang==0.5.21", setup=Setup(backend="torch")).refused
    for backend, path in (
        ("sgl-kernel", "sglang.fast_topk"),
        ("torch", "torch.topk"),
        ("flashinfer", "flashinfer.ragged"),
    ):
        assert taken(DSA, "sglang==0.5.21", setup=Setup(backend=backend, fused=False)).path == path
    assert taken(DSA, "sglang==0.5.21", setup=Setup(backend="flashinfer")).path == "flashinfer.ragged"
    assert "has no top-k backend 'tile'" in taken(DSA, "sglang==0.5.21", setup=Setup(backend="tile")).refused
