"""Selector ops by the schemas in a library's bytes."""

from __future__ import annotations

import pytest

from tests.vendor.making import DECODE, FAST, OTHER, PERSISTENT, library
from workbench.engines.vendor.adapters import ADAPTERS
from workbench.paths.ops import OPS
from workbench.vendor.manifest import Registered
from workbench.vendor.schemas import LONGEST, NOT_RUN, find_schemas, known_schemas


def test_schemas_are_found_by_what_the_library_holds() -> None:
    assert find_schemas([library(OTHER, PERSISTENT, DECODE)]) == (
        Registered("vllm.persistent_topk", PERSISTENT),
        Registered("vllm.top_k_per_row_decode", DECODE),
    )
    assert find_schemas([library(OTHER)]) == find_schemas([]) == ()


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 5000])
def test_a_schema_may_lie_across_pieces(size: int) -> None:
    data = library(FAST, filler=2 * LONGEST) + bytes(100)
    assert [one.schema for one in find_schemas(data[at : at + size] for at in range(0, len(data), size))] == [FAST]


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("sgl_kernel::fast_topk(Tensor score) -> ()", "sglang.fast_topk_v2"),
        ("fast_topk(Tensor score)->()", "sglang.fast_topk_v2"),
        (
            "fast_topk_transform_ragged_fused(Tensor score, Tensor ? row_starts) -> ()",
            "sglang.fast_topk_transform_ragged_fused",
        ),
        ("topk(Tensor input, int topk, Tensor? begin, Tensor? end) -> ()", "vllm.deep_select"),
        ("topk(Tensor self, int k) -> (Tensor, Tensor)", None),
        ("very_fast_topk(Tensor score) -> ()", None),
        ("fast_topk: k is too large -> (see above)", None),
        ("fast_topk(Tensor score)", None),
        ("call fast_topk(Tensor score) -> ()", None),
        ("fast_topk(" + "Tensor a, " * 1000 + "Tensor b) -> ()", None),
    ],
)
def test_only_a_whole_schema_counts(text: str, op: str | None) -> None:
    found = find_schemas([b"\0" + text.encode() + b"\0"])
    assert [one.op for one in found] == ([] if op is None else [op])
    if found:
        assert found[0].schema == text.removeprefix("sgl_kernel::")


def test_known_schemas_name_ops_of_the_workbench() -> None:
    ops = {op for *_, op in known_schemas()}
    assert ops <= {op.name for op in OPS}
    assert ops - ADAPTERS.keys() == NOT_RUN.keys()
    assert {"vllm.persistent_topk", "vllm.cooperative_topk", "sglang.fast_topk_v2"} <= ops
