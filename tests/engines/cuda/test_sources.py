"""Build options are the numbers of the path's record and of its model."""

from __future__ import annotations

import pytest

from workbench.engines.cuda.compile import capability_of, source_digest
from workbench.engines.cuda.grid import Grid, Shape
from workbench.engines.cuda.reports import FIELDS, MOST_PASSES, PASS_FIELDS, REPORT_INTS, read_report, report_ints
from workbench.engines.cuda.sources import (
    CLUSTER_KERNELS,
    KERNELS,
    build_options,
    grid_of,
    kernel_of,
    report_ints_of,
    source_of,
    telemetry_of,
)
from workbench.engines.cuda.support_sources import SUPPORT, support_options
from workbench.errors import UsageError
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.devices import resident_threads
from workbench.paths.model import MODELS
from workbench.paths.models import recovery, rescans, sglang_v2
from workbench.paths.selection import Pass, Share, Telemetry
from workbench.resources import kernels_dir

HEADERS = "".join(one.read_text() for one in kernels_dir().glob("*.cuh"))


def options(name: str, variant: str = "stock", **more: int) -> dict[str, str]:
    pairs = (one.removeprefix("-DWORKBENCH_").split("=", 1) for one in build_options(get_path(name), variant, **more))
    return dict(pairs)


def test_a_stash_path() -> None:
    found = options("vllm.histogram_256")
    assert {name: found[name] for name in ("KEY_BITS", "CAPACITY", "THREADS", "LOAD", "ITEMS", "DIGITS", "MODEL")} == {
        "KEY_BITS": "8",
        "CAPACITY": "4096",
        "THREADS": "1024",
        "LOAD": "1",
        "ITEMS": "0",
        "DIGITS": "8,8,8,8",
        "MODEL": "stash",
    }


def test_two_blocks_where_a_multiprocessor_has_as_many_threads() -> None:
    """Builds that tell nothing keep registers for them; launch bounds past the device's are an error of ptxas."""
    quiet = {"telemetry": False, "maps": False}
    assert options("sglang.fast_topk", **quiet)["RESIDENT"] == "2"
    assert options("sglang.fast_topk", **quiet, sm_threads=resident_threads((12, 0)))["RESIDENT"] == "1"
    for more in ({"telemetry": True}, {"telemetry": False, "maps": True}):
        assert options("sglang.fast_topk", **more)["RESIDENT"] == "1"
    assert options("sglang.v2_register", **quiet)["RESIDENT"] == "1"
    told = {arch: resident_threads(capability_of(arch)) for arch in ("sm_75", "sm_80", "sm_90a", "sm_110", "sm_121")}
    assert told == {"sm_75": 1024, "sm_80": 2048, "sm_90a": 2048, "sm_110": 1536, "sm_121": 1536}
    assert capability_of("sm_1") == capability_of("gfx942") == (0, 0)


@pytest.mark.parametrize(
    ("name", "variant", "expected"),
    [
        ("vllm.histogram_2048", "stock", {"CAPACITY": "3708", "WHOLE_BIN": "1", "ITEMS": "8", "LOAD": "4"}),
        (
            "vllm.histogram_4096",
            "stock",
            {"CAPACITY": "0", "CAPACITY_MOST": "2048", "ITEMS": "32", "RANKED_TIES": "32"},
        ),
        ("vllm.histogram_4096", "recovery", {"RANKED_TIES": "64", "OFFSET_DIGITS": "11,11", "BELOW_BIN": "8192"}),
        ("vllm.filtered", "wide_rescan", {"KEY_BITS": "11", "EXACT_BINS": "1", "RESCAN_DIGITS": "11,10"}),
        ("sglang.fast_topk", "build_16384", {"CAPACITY": "16384"}),
        ("sglang.v4_aot", "stock", {"THREADS": "512", "CAPACITY": "6144"}),
        ("sglang.v2_register", "v0.5.23", {"BOUND": "stepped", "FALLBACK": "digits", "RESCAN_DIGITS": "12,12,8"}),
        ("vllm.per_row", "stock", {"RADIX_FROM": "12288", "SORT_THREADS": "512", "ITEMS": "0", "CAPACITY": "2048"}),
        ("vllm.per_row", "prefill", {"RADIX_FROM": str(2**31 - 1)}),
        (
            "vllm.radix",
            "stock",
            {"DIGITS": "8,8,8,8", "BY_INDEX": "0", "GROUP_BINS": "256", "GROUP_CELLS": "769", "ZEROED": "2"},
        ),
        ("sglang.coop", "stock", {"PREFIX_DIGITS": "12,10,10", "REST_DIGITS": "0", "NAN_IS_LEAST": "1"}),
        ("sglang.rocm_coop", "stock", {"PREFIX_DIGITS": "12,4", "REST_DIGITS": "8,8", "CAPACITY": "4096"}),
        ("vllm.sampled", "stock", {"CAPACITY": "8192", "CAPACITY_MOST": "16384", "CAPACITIES_SPECIAL": "12"}),
        ("sglang.bf16_small", "approximate_13_bit", {"KEY_BITS": "13", "ITEMS": "16", "MODEL": "approximate"}),
        (
            "vllm.cooperative_4",
            "stock",
            {"RANKS": "4", "RANK_CAPACITY": "1024", "RANK_UNIT": "4", "LAYOUT": "contiguous", "LEAVES_UNWRITTEN": "1"},
        ),
        (
            "vllm.cooperative_16",
            "recovery",
            {"RANKS": "16", "CAPACITY": "2048", "RANK_CAPACITY": "2048", "SNIFF": "32"},
        ),
        ("sglang.v2_cluster_8", "stock", {"LAYOUT": "interleaved", "RANK_UNIT": "512", "FALLBACK": "none"}),
        ("sglang.v2_cluster_8", "contiguous_ranks", {"LAYOUT": "contiguous", "RANK_UNIT": "128"}),
        ("sglang.v2_cluster_16", "tie_cap_1024", {"RANKS": "16", "CAPACITY": "1024", "RANK_CAPACITY": "1024"}),
        ("sglang.v2_cluster_8", "clamped_tie_count", {"FALLBACK": "clamped"}),
        ("sglang.v2_streaming", "tie_cap_1024", {"CAPACITY": "1024", "LEAVES_UNWRITTEN": "1", "ITEMS": "0"}),
    ],
)
def test_variants(name: str, variant: str, expected: dict[str, str]) -> None:
    found = options(name, variant)
    assert {one: found[one] for one in expected} == expected


def test_numbers_come_from_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = options("vllm.filtered", "wide_rescan_sampled")
    assert sampled["SAMPLED_FROM"] == str(rescans.SAMPLED_FROM)
    assert options("vllm.histogram_4096", "recovery")["OFFSET_BITS"] == str(recovery.OFFSET_BITS)
    assert options("sglang.v2_register", "v0.5.23")["BOUND"] == sglang_v2.RULES["v2_0.5.23"].bound
    small = get_path("vllm.histogram_256").scaled(capacity=3)
    assert "-DWORKBENCH_CAPACITY=3" in build_options(small, "stock")


def test_telemetry_is_a_build() -> None:
    told, quiet = options("vllm.filtered"), options("vllm.filtered", telemetry=False)
    assert {name for name in told if told[name] != quiet[name]} == {"TELEMETRY"}


def test_every_option_is_used_by_its_source() -> None:
    """An option that no source reads says nothing; what a source reads and nobody sets does not compile."""
    for path in find_paths():
        for variant in path.variants:
            if kernel_of(path, variant.name) is None:
                continue
            text = HEADERS + (kernels_dir() / source_of(path, variant.name)).read_text()
            for option in build_options(path, variant.name):
                assert option.removeprefix("-D").split("=")[0] in text, option


def test_every_kernel_belongs_to_a_model() -> None:
    assert KERNELS.keys() | CLUSTER_KERNELS.keys() <= MODELS.keys()
    selectors = {kernel.file for kernels in (KERNELS, CLUSTER_KERNELS) for kernel in kernels.values()}
    assert selectors | SUPPORT.keys() == {one.name for one in kernels_dir().glob("*.cu")}
    assert not selectors & SUPPORT.keys()
    for source in SUPPORT:
        for option in support_options(source):
            assert option.removeprefix("-D").split("=")[0] in (kernels_dir() / source).read_text() + HEADERS, option


def test_what_has_no_kernel() -> None:
    assert kernel_of(get_path("vllm.radix"), "ring_reuse") is None
    assert kernel_of(get_path("vllm.histogram_256"), "v0.33.0") is None
    assert kernel_of(get_path("sglang.deep_select"), "stock") is None
    assert kernel_of(get_path("vllm.cooperative_8"), "v0.33.0") is None
    with pytest.raises(UsageError, match=r"v0\.33\.0 has no CUDA kernel: what it does inside is not established"):
        build_options(get_path("vllm.histogram_256"), "v0.33.0")
    with pytest.raises(UsageError, match="no variant 'x'"):
        build_options(get_path("vllm.histogram_256"), "x")


def test_digests_name_sources_and_headers() -> None:
    assert source_digest("stash.cu") != source_digest("v2.cu")
    assert len(source_digest("stash.cu")) == 64


def test_reports_are_read() -> None:
    given = {"threshold_bin": 188, "above": 5, "population": 90, "need": 7, "buffered": 1, "stored": 60, "dropped": 30}
    head = dict.fromkeys(FIELDS, 0) | given | {"passes": 1}
    step = list(range(len(PASS_FIELDS)))
    ints = [*head.values(), *step, *[0] * (MOST_PASSES - 1) * len(PASS_FIELDS)]
    assert len(ints) == REPORT_INTS
    report = read_report(ints, telemetry_of(get_path("vllm.histogram_4096"), "stock", 512))
    assert report.dropped == 30
    assert report.telemetry.capacity == 512
    assert report.telemetry.passes == (Pass(0, 1, 2, 3, 4, 5, 6),)
    assert (report.telemetry.buffered, report.telemetry.stored) == (True, 60)
    assert report.telemetry.shares == ()
    assert read_report([0] * REPORT_INTS, Telemetry(8, capacity=9)).telemetry.threshold_bin is None
    shared = read_report([*ints, 50, 40, 10, 40, 20, 20], Telemetry(10, capacity=1024)).telemetry
    assert shared.shares == (Share(50, 40, 10), Share(40, 20, 20))
    assert shared.passes == report.telemetry.passes
    assert report_ints(2) == len(ints) + 6 == report_ints_of(get_path("vllm.cooperative_2"), "stock")


def test_the_blocks_of_a_row() -> None:
    assert grid_of(get_path("vllm.histogram_256"), "stock", Shape(3, 9000, 512)) == Grid()
    cooperative = get_path("vllm.cooperative_4")
    ties = {512: 1024, 1024: 1024, 2048: 2048}  # of a row in the workspace, an index and a key each
    for k, each in ties.items():
        assert grid_of(cooperative, "stock", Shape(3, 20000, k)) == Grid(4, cells=2 * each)
        assert grid_of(cooperative, "recovery", Shape(3, 20000, k)) == Grid(4, cells=2 * 2048)
    assert grid_of(get_path("sglang.v2_cluster_16"), "stock", Shape(3, 20000, 100)) == Grid(16)


def test_registers_are_kept_for_two_blocks_where_both_have_room() -> None:
    """Of a build that is timed: neither is the row in registers, nor does the buffer take most of shared memory."""
    assert options("sglang.fast_topk", "stock", telemetry=False)["RESIDENT"] == "2"
    assert options("sglang.v2_streaming", "stock", telemetry=False)["RESIDENT"] == "2"
    for name, variant in [
        ("vllm.filtered", "stock"),  # 16384 slots
        ("sglang.fast_topk", "build_16384"),
        ("vllm.histogram_4096", "stock"),  # in registers
        ("sglang.v2_cluster_8", "stock"),
        ("sglang.kpool", "unique_key"),  # registers would spill
    ]:
        assert options(name, variant, telemetry=False)["RESIDENT"] == "1", (name, variant)
    assert options("sglang.fast_topk", "stock")["RESIDENT"] == "1"
    assert options("sglang.fast_topk", "stock", telemetry=False, maps=True)["RESIDENT"] == "1"
