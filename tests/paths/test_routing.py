"""Routes by release and device, with the conditions in words."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil

import pytest
import torch

from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.catalog import find_paths
from workbench.paths.conditions import LAYOUTS, Setup
from workbench.paths.devices import DEVICES
from workbench.paths.routing import OPS, route

PERSISTENT = "vllm.persistent_topk"


def row(length: int, dtype: torch.dtype = torch.float32, **call: int | None) -> Row:
    width = max(length, 1)
    known = {"k": 2048, "rows": 1, "width": width, "stride": width, "max_seq_len": width} | call
    return Row(torch.zeros(width, dtype=dtype), length, call=Call(**known))


def path(length: int, release: str, device: str = "h200", op: str = PERSISTENT, **call: int | None) -> str | None:
    return route(row(length, **call), op, release, device).path


@pytest.mark.parametrize(
    ("length", "call", "release", "expected"),
    [
        (2048, {}, "vllm==0.26.0", "vllm.trivial"),
        (2049, {}, "vllm==0.26.0", "vllm.histogram_2048"),
        (8192, {"rows": 32}, "vllm==0.26.0", "vllm.histogram_2048"),
        (8193, {}, "vllm==0.26.0", "vllm.histogram_256"),
        (32768, {}, "vllm==0.26.0", "vllm.histogram_256"),
        (32769, {}, "vllm==0.26.0", "vllm.radix"),
        (2049, {"rows": 33}, "vllm==0.23.0", "vllm.filtered"),
        (2049, {"rows": 33}, "vllm==0.24.0", "vllm.histogram_4096"),
        (32768, {"rows": 33}, "vllm==0.32.0", "vllm.histogram_4096"),
        (32769, {"rows": 33}, "vllm==0.24.0", "vllm.filtered"),
        (70000, {"rows": 65}, "vllm==0.30.0", "vllm.filtered"),
        (70000, {"rows": 65}, "vllm==0.31.0", "vllm.sampled"),
        (70000, {"rows": 64}, "vllm==0.31.0", "vllm.filtered"),
        (70000, {"rows": 65, "k": 512}, "vllm==0.31.0", "vllm.filtered"),
        (98304, {"rows": 65, "k": 512}, "vllm==0.31.0", "vllm.sampled"),
        (3000, {"rows": 65, "max_seq_len": 65536, "stride": 65536}, "vllm==0.32.0", "vllm.sampled"),
        (3000, {"rows": 65, "max_seq_len": 65535, "stride": 65536}, "vllm==0.32.0", "vllm.histogram_4096"),
    ],
)
def test_persistent_topk_on_an_h200(length: int, call: dict[str, int], release: str, expected: str) -> None:
    assert path(length, release, **call) == expected


def test_the_exact_release_is_a_variant() -> None:
    taken = route(row(20000), PERSISTENT, "vllm==0.33.0", "h200")
    assert (taken.path, taken.variant) == ("vllm.histogram_256", "v0.33.0")
    assert route(row(20000), PERSISTENT, "vllm==0.32.0", "h200").variant == "stock"


@pytest.mark.parametrize("device", ["l20", "v100"])
def test_small_shared_memory_has_no_filtered_path(device: str) -> None:
    assert path(20000, "vllm==0.26.0", device, rows=33) == "vllm.histogram_256"


def test_the_public_boundary_of_the_l20() -> None:
    fits = route(row(40000, stride=779424), PERSISTENT, "vllm==0.26.0", "l20")
    assert fits.path == "vllm.radix"
    too_wide = route(row(40000, stride=779425), PERSISTENT, "vllm==0.26.0", "l20")
    assert too_wide.path is None
    assert "does not fit" in too_wide.refused
    assert route(row(40000, stride=779425), PERSISTENT, "vllm==0.26.0", "h200").path == "vllm.radix"


def test_the_v100_row_of_the_public_report() -> None:
    wide = row(4096, k=512, width=806736, stride=806736, max_seq_len=806736)
    assert route(wide, PERSISTENT, "vllm==0.26.0", "v100").path == "vllm.histogram_2048"


def test_other_ops() -> None:
    assert path(40000, "vllm==0.26.0", op="vllm.top_k_per_row_decode", k=3000) == "vllm.per_row"
    assert path(100, "vllm==0.26.0", op="vllm.top_k_per_row_decode", k=3000) == "vllm.trivial"
    assert path(40000, "sglang-kernel==0.4.6", op="sglang.fast_topk_v2") == "sglang.fast_topk"
    assert path(2048, "sglang-kernel==0.4.2", op="sglang.fast_topk_v2") == "sglang.trivial"


def test_conditions_are_told_met_and_unmet() -> None:
    taken = route(row(20000, rows=33), PERSISTENT, "vllm==0.26.0", "v100")
    assert [(reason.text.split(" (")[0], reason.met) for reason in taken.reasons] == [
        ("v100 runs CUDA", True),
        ("release vllm==0.26.0 ≥ 0.33.0", False),
        ("k 2048 is 512, 1024 or 2048", True),
        ("scores are float32, the op takes float32", True),
        ("length 20000 ≤ k 2048: nothing to select", False),
        ("rows 33 > 32", True),
        ("opt-in shared memory 98304 ≥ 131072 bytes", False),
        ("a row of stride 20000 needs 1 blocks of 82080 bytes; 80 are resident on v100", True),
        ("length 20000 ≤ 8192", False),
        ("length 20000 ≤ 32768", True),
    ]


@pytest.mark.parametrize(
    ("call", "unknown"),
    [
        ({"rows": None}, "rows"),
        ({"k": None}, "k"),
        ({"stride": None}, "stride"),
        ({"rows": 65, "max_seq_len": None}, "max_seq_len"),
    ],
)
def test_what_the_capture_does_not_say_is_unknown_not_guessed(call: dict[str, None], unknown: str) -> None:
    taken = route(row(20000, **call), PERSISTENT, "vllm==0.32.0", "h200")
    assert taken.path is None
    assert taken.unknown == (unknown,)
    assert taken.reasons[-1].met is None


def test_a_row_s_own_length_bounds_max_seq_len() -> None:
    assert path(70000, "vllm==0.32.0", rows=65, max_seq_len=None) == "vllm.sampled"
    assert path(40000, "vllm==0.32.0", max_seq_len=None) == "vllm.radix"


@pytest.mark.parametrize(
    ("made", "op", "reason"),
    [
        (row(20000, k=100), PERSISTENT, "k 512, 1024 or 2048 only, not k 100"),
        (row(20000, dtype=torch.bfloat16), PERSISTENT, "bfloat16"),
        (row(20000, k=512), "sglang.fast_topk_v2", "k 2048 only"),
        (row(40000, max_seq_len=1000), PERSISTENT, "above max_seq_len"),
    ],
)
def test_refused_calls_say_why(made: Row, op: str, reason: str) -> None:
    release = "sglang-kernel==0.4.6" if op.startswith("sglang") else "vllm==0.26.0"
    taken = route(made, op, release, "h200")
    assert taken.path is None
    assert reason in taken.refused


@pytest.mark.parametrize(
    ("op", "release", "device", "message"),
    [
        ("vllm.topk", "vllm==0.26.0", "h200", "known ops: vllm.persistent_topk"),
        (PERSISTENT, "vllm==0.26.1", "h200", "was not observed"),
        (PERSISTENT, "0.26.0", "h200", "write it as in vllm==0.26.0"),
        (PERSISTENT, "sglang-kernel==0.4.6", "h200", "belongs to vllm"),
        (
            PERSISTENT,
            "vllm==0.26.0",
            "h9000",
            "known devices: h200, h100, b200, b300, a100, gb10, l20, v100, mi300x, mi355x",
        ),
        (None, None, "h200", "does not name op and release"),
    ],
)
def test_unknown_names_list_the_known(op: str | None, release: str | None, device: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        route(row(20000), op, release, device)


MEASURED = {"clusters_8": 30, "clusters_16": 7}
SETUPS = {
    "sglang.topk_transform_paged_v2": [Setup(**MEASURED)],
    "sglang.topk_transform_kpool_v2": [Setup(**MEASURED)],
    "vllm.sparse_indexer_topk": [Setup(backend=name) for name in (None, "deep_select", "flashinfer", "torch", "aiter")],
    "sglang.dsa_topk_transform": [
        *(Setup(layout=layout, **MEASURED) for layout in LAYOUTS),
        *(Setup(backend=name, fused=False) for name in ("sgl-kernel", "flashinfer", "torch")),
    ],
}
# What stays open although all of the call is known.
OPEN = {
    "which selector the ROCm build has",
    "the ROCm build's divided rows",
    "how this release is built",
    "AITER's selector",
}


def test_every_op_release_and_device_routes_to_a_known_path() -> None:
    """Each op reaches what it says, and every path is reached or says why not."""
    reached: dict[str, set[str | None]] = {op.name: set() for op in OPS}
    for op, length, rows, k in product(OPS, (100, 5000, 20000, 40000, 100000), (1, 6, 20, 33, 65), (512, 2048)):
        dtype = torch.bfloat16 if "bf16" in op.name else torch.float32
        made = row(length, dtype, rows=rows, k=k, stride=ceil(length / 256) * 256)
        made = replace(made, batch=torch.full((rows,), length))
        for release, device, setup in product(op.releases, DEVICES, SETUPS.get(op.name, [Setup()])):
            taken = route(made, op.name, release, device.name, setup=setup)
            assert (taken.path is None) == (taken.variant is None) == bool(taken.refused or taken.unknown), taken
            assert set(taken.unknown) <= OPEN, taken
            if taken.path is not None:
                assert find_paths(taken.path)[0].variant(taken.variant or "")
                reached[op.name].add(taken.path)
    for op in OPS:
        assert reached[op.name] == set(op.reaches), op.name
    everywhere = set().union(*reached.values())
    for path in find_paths():
        assert (path.name in everywhere) != bool(path.unreached), path.name
    assert sum(bool(path.unreached) for path in find_paths()) == 4


def test_a_release_that_lacks_the_op_is_refused_and_says_so() -> None:
    for op in OPS:
        for release in set(op.package_releases) - set(op.releases):
            taken = route(row(20000), op.name, release, "h200")
            assert taken.refused == f"{release} has no {op.name.split('.')[1]}"
    assert "sglang.kpool_topk_transform" in {op.name for op in OPS if len(op.releases) < len(op.package_releases)}


def test_devices_without_what_an_op_needs_are_refused_in_words() -> None:
    coop = "vllm.cooperative_topk"
    assert "no clusters" in route(row(20000), coop, "vllm==0.26.0", "gb10").refused
    assert "no clusters" in route(row(20000), coop, "vllm==0.26.0", "a100").refused
    assert "CUDA only; mi300x runs ROCm" in route(row(20000), coop, "vllm==0.26.0", "mi300x").refused
    assert "CUDA only" in route(row(20000), PERSISTENT, "vllm==0.26.0", "mi355x").refused
    v4 = "sglang.deepseek_v4_topk_transform_512"
    assert "built for ROCm" in route(row(20000, k=512), v4, "sglang-kernel==0.4.6", "h200").refused
    assert path(20000, "sglang-kernel==0.4.6", "mi300x", v4, k=512) == "sglang.v4_aot"


def test_v1_is_another_op_on_rocm() -> None:
    taken = route(row(20000, k=512), "sglang.topk_transform_paged", "sglang==0.5.21", "mi300x")
    assert (taken.path, taken.calls) == ("sglang.v4_aot", "sglang.deepseek_v4_topk_transform_512")


PER_ROW = "vllm.top_k_per_row_decode"
PREFILL = "vllm.top_k_per_row_prefill"


@pytest.mark.parametrize(
    ("length", "width", "variant"),
    [
        (5000, 12287, "stock"),
        (5000, 12288, "decode_radix"),
        (5000, 199999, "decode_radix"),
        (5000, 200000, "decode_split"),
        (200000, None, "decode_split"),  # the row's own length bounds the width
        (5000, None, None),
    ],
)
def test_the_padded_width_splits_a_decode_row(length: int, width: int | None, variant: str | None) -> None:
    taken = route(row(length, width=width), PER_ROW, "vllm==0.32.0", "h200")
    assert taken.variant == variant
    assert taken.unknown == (() if variant else ("width",))


@pytest.mark.parametrize(
    ("rows", "index", "whole", "variant"),
    [
        (12288, 12287, False, "prefill"),
        (12289, 12287, True, "prefill"),
        (12289, 12288, True, "prefill_radix"),
        (12289, 5, False, None),  # a file that lacks rows of the call does not number them
        (None, 5, False, None),
    ],
)
def test_the_row_s_number_says_how_prefill_sorts(
    rows: int | None, index: int, whole: bool, variant: str | None
) -> None:
    made = replace(row(5000, rows=rows), index=index, batch=torch.full((rows or 1,), 5000) if whole else None)
    taken = route(made, PREFILL, "vllm==0.20.2", "h200")
    assert taken.variant == variant
    assert taken.path == ("vllm.per_row" if variant else None)


def test_prefill_counts_from_the_start_of_the_row() -> None:
    made = Row(torch.zeros(4000), 2049, 1000, call=Call(k=2048, rows=1))
    taken = route(made, PREFILL, "vllm==0.20.2", "h200")
    assert taken.path == "vllm.per_row"
    assert any("cells 1000 to 3049" in reason.text for reason in taken.reasons)
    assert route(replace(made, length=2048), PREFILL, "vllm==0.20.2", "h200").path == "vllm.trivial"


def test_small_shared_memory_leaves_flashinfer_its_radix_path() -> None:
    op, release = "flashinfer.top_k_ragged_transform", "flashinfer==fb28d724"
    assert path(20000, release, "l20", op) == "flashinfer.radix"
    taken = route(row(40000, rows=3), op, release, "h200")
    assert taken.path == "flashinfer.ragged"
    assert "takes flashinfer.filtered" in taken.reasons[-1].text
    assert taken.reasons[-1].met is None
    assert "takes flashinfer.radix" in route(row(40000, rows=1, width=70000), op, release, "h200").reasons[-1].text


def test_a_setup_that_cannot_be_is_an_error() -> None:
    for wrong in ({"layout": "packed"}, {"clusters_8": -1}, {"static_threshold": -2}, {"clusters_16": True}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            Setup(**wrong)


def test_a_setup_that_decides_nothing_is_an_error_and_never_passed_over() -> None:
    with pytest.raises(
        UsageError, match=r"persistent_topk does not depend on backend; .*sparse_indexer_topk and .*dsa"
    ):
        route(row(20000), PERSISTENT, "vllm==0.26.0", "h200", setup=Setup(backend="torch"))
    with pytest.raises(UsageError, match="does not depend on static_threshold"):
        route(row(20000), PERSISTENT, "vllm==0.26.0", "h200", static_threshold=0)
    heeded = {name for op in OPS for name in op.heeds}
    assert heeded == set(vars(Setup()))
