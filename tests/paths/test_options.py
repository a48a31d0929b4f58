"""Options of engines lead where they say, and ops that stand for each other return the same kind of indices."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from workbench.capture.row import Call, Row
from workbench.paths.ops import get_op
from workbench.paths.options import ALIKE, LED_TO, OPTIONS, Option, alike, options_of
from workbench.paths.releases import parse_release
from workbench.paths.routing import route


def row(k: int = 2048) -> Row:
    call = Call(k=k, rows=4, width=8192, stride=8192, max_seq_len=8192)
    return Row(torch.randn(8192, generator=torch.Generator().manual_seed(0)), 8192, call=call)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.spelled)
def test_an_option_is_heeded_from_its_release_on_and_not_before(option: Option) -> None:
    engine = get_op(option.engine)
    assert set(option.setup.given) <= set(engine.heeds)
    for release in engine.releases:
        found = route(row(), engine.name, release, "h200", setup=option.setup)
        if parse_release(release).version < option.since:
            assert found.refused
            continue
        assert found.path or found.unknown or "needs" in found.refused, (release, found)


def test_what_each_option_calls() -> None:
    calls = {}
    for option in OPTIONS:
        release = get_op(option.engine).releases[-2]
        found = route(row(), option.engine, release, "h200", setup=option.setup)
        calls[option.spelled.removeprefix("--sparse-indexer-topk-backend ")] = found.calls or found.unknown
    assert calls == {
        "deep_select": (),  # not on this device
        "cooperative": "vllm.cooperative_topk",
        "persistent": "vllm.persistent_topk",
        "per_row": "vllm.top_k_per_row_decode",
        "flashinfer": "flashinfer.top_k_ragged_transform",
        "torch": "torch.topk",
        "aiter": (),
        "SGLANG_OPT_USE_TOPK_V2=1": ("layout",),
        "SGLANG_OPT_USE_TOPK_V2=0": ("layout",),
        "SGLANG_DSA_FUSE_TOPK=0": "sglang.fast_topk_v2",
        "--dsa-topk-backend flashinfer": "FlashInfer's top-k",
        "--dsa-topk-backend torch with SGLANG_DSA_FUSE_TOPK=0": "torch.topk",
    }


def test_the_layouts_of_ops_are_those_that_lead_to_them() -> None:
    for engine, ops in LED_TO.items():
        for op, layout in ops.items():
            if layout is None or "fused" in op:
                continue
            option = next(one for one in OPTIONS if one.spelled == "SGLANG_OPT_USE_TOPK_V2=1")
            setup = replace(option.setup, layout=layout)
            assert route(row(), engine, "sglang==0.5.23", "h200", setup=setup).calls == op


def test_ops_that_are_alike_return_alike() -> None:
    for group in ALIKE:
        ops = [get_op(name) for name in group]
        assert set.intersection(*(set(op.transforms) for op in ops)), group
        assert len({op.name.split(".")[0] for op in ops}) == 1
        for op in ops:
            assert set(alike(op.name)) == set(group) - {op.name}
    assert alike("vllm.top_k_per_row_prefill") == ()
    assert options_of("vllm.top_k_per_row_prefill") == ()
    assert {one.engine for one in options_of("vllm.persistent_topk")} == {"vllm.sparse_indexer_topk"}
