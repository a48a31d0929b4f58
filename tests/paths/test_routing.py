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
        (PERSISTENT, "vllm==0.26.0", "h9000", "known devices: h200, h100, b300, l20, v100"),
        (None, None, "h200", "does not name op and release"),
    ],
)
def test_unknown_names_list_the_known(op: str | None, release: str | None, device: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        route(row(20000), op, release, device)


def test_every_op_release_and_device_routes_to_a_known_path() -> None:
    names = {spec.name for spec in find_paths()}
    reached: dict[str, set[str | None]] = {op.name: set() for op in OPS}
    for op, length, rows, k in product(OPS, (100, 5000, 20000, 40000, 100000), (1, 6, 20, 33, 65), (512, 2048)):
        dtype = torch.bfloat16 if "bf16" in op.name else torch.float32
        made = row(length, dtype, rows=rows, k=k, stride=ceil(length / 4) * 4)
        made = replace(made, batch=torch.full((rows,), length))
        for release, device in product(op.releases, DEVICES):
            taken = route(made, op.name, release, device.name)
            assert (taken.path is None) == bool(taken.refused), taken
            assert taken.unknown == ()
            reached[op.name].add(taken.path)
    for op in OPS:
        assert reached[op.name] - {None} == set(op.reaches), op.name
    assert names - set().union(*reached.values()) == {  # no release that was run
        "sglang.v4_aot",
        "sglang.qsa",
        "sglang.coop",
        "sglang.rocm_coop",
        "torch.topk",
        "tilelang.topk_selector",
        "flashinfer.filtered",  # which of the two an op takes is not established
        "flashinfer.radix",
    }
