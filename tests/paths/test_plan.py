"""SGLang's v2: floors, the cluster probe and the plan, by release and architecture."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.conditions import Setup
from workbench.paths.plan import plan_topk_v2
from workbench.paths.routing import Route, route

V2 = "sglang.topk_transform_paged_v2"
OLD, NEW = "sglang==0.5.18", "sglang==0.5.21"


def taken(
    length: int,
    rows: int,
    device: str = "h200",
    release: str = NEW,
    width: int | None = None,
    lengths: list[int] | None = None,
    **setup: int,
) -> Route:
    wide = length if width is None else width
    call = Call(k=512, rows=rows, width=wide, stride=-(-wide // 4) * 4)
    made = Row(torch.zeros(1).expand(length), length, call=call)
    if lengths is not None:
        made = replace(made, batch=torch.tensor(lengths))
    return route(made, V2, release, device, setup=Setup(**setup))


@pytest.mark.parametrize(
    ("device", "rows", "floor"),
    [
        ("h200", 15, 32768),
        ("h200", 16, 65536),
        ("b200", 15, 24576),
        ("b300", 16, 30720),
    ],
)
def test_clusters_start_above_a_width_by_architecture_and_rows(device: str, rows: int, floor: int) -> None:
    pools = {"clusters_8": 30, "clusters_16": 7}
    assert taken(floor, rows, device, **pools).path == "sglang.v2_streaming"
    assert taken(floor + 1, rows, device, **pools).path == "sglang.v2_cluster_8"
    assert taken(20000, rows, device, width=floor + 1, **pools).path == "sglang.v2_streaming"


@pytest.mark.parametrize("device", ["gb10", "l20", "a100", "v100", "mi300x"])
def test_other_architectures_never_use_clusters(device: str) -> None:
    for rows in (1, 20, 100):
        one = taken(100_000, rows, device, lengths=[100_000] * rows, clusters_8=30, clusters_16=7)
        assert one.path == "sglang.v2_streaming"
        assert one.plan is not None
        assert one.plan.written is False


def test_the_probe_of_the_h200() -> None:
    assert [taken(70_000, rows).path for rows in (7, 8, 30)] == [f"sglang.v2_cluster_{n}" for n in (16, 8, 8)]
    assert taken(70_000, 31).unknown == ("the lengths of all rows of the call",)


def test_a_pool_of_none_falls_back() -> None:
    assert taken(70_000, 5, clusters_16=0).path == "sglang.v2_cluster_8"
    assert taken(70_000, 5, clusters_8=0).path == "sglang.v2_cluster_16"
    assert taken(70_000, 8, clusters_8=0).path == "sglang.v2_streaming"
    assert taken(70_000, 31, clusters_8=0, clusters_16=0).path == "sglang.v2_streaming"


def test_a_probe_that_was_not_measured_is_unknown_where_it_decides() -> None:
    assert taken(70_000, 5, "h100").unknown == ("clusters_16",)
    assert taken(70_000, 9, "h100").unknown == ("clusters_8",)  # 132 SMs hold 8 clusters of 16 at most
    assert taken(70_000, 34, "h100", lengths=[70_000] * 34).path == "sglang.v2_streaming"  # and 33 of 8
    assert taken(20_000, 5, "h100", width=70_000).path == "sglang.v2_streaming"
    assert taken(70_000, 5, "h100", clusters_8=30, clusters_16=7).path == "sglang.v2_cluster_16"


def test_the_older_text_knows_one_width_of_cluster_and_slices_the_row() -> None:
    one = taken(70_000, 5, release=OLD)
    assert (one.path, one.variant) == ("sglang.v2_cluster_8", "contiguous_ranks")
    assert taken(70_000, 5, "b200", release=OLD).path == "sglang.v2_cluster_8"
    assert taken(32_768, 5, "b200", release=OLD).path == "sglang.v2_streaming"
    assert taken(70_000, 5, "l20", release=OLD).unknown == ("how this release is built",)


@pytest.mark.parametrize(
    ("device", "above", "caps"),
    [
        ("h200", 65537, [(30, 65536), (31, 98304)]),
        ("h200", 98305, [(30, 65536), (45, 98304), (46, 131072)]),
        ("h200", 131073, [(60, 131072), (61, 196608)]),
        ("h200", 196609, [(80, 196608), (81, 262144)]),
        ("h200", 262145, [(112, 262144), (113, 393216)]),
        ("b200", 32769, [(48, 32768), (49, 131072)]),
        ("b200", 131073, [(66, 131072), (67, 163840)]),
        ("b200", 393217, [(48, 32768), (231, 393216), (232, 524288)]),
    ],
)
def test_the_plan_lets_as_many_rows_to_the_clusters_as_its_caps(
    device: str, above: int, caps: list[tuple[int, int]]
) -> None:
    for rows, threshold in caps:
        lengths = [above] * rows + [10] * 20
        plan = plan_topk_v2(lengths, NEW, device, clusters_8=30)
        assert (plan.written, plan.threshold) == (True, threshold), rows
        assert plan.rows == (tuple(range(rows)) if above > threshold else ())


def test_old_and_new_caps_differ_at_98304() -> None:
    lengths = [100_000] * 46
    assert plan_topk_v2(lengths, OLD, "h200").threshold == 98304
    assert plan_topk_v2(lengths, NEW, "h200").threshold == 131072


def test_the_greatest_threshold_stands_where_even_its_cap_is_exceeded() -> None:
    plan = plan_topk_v2([400_000] * 129, NEW, "h200")
    assert plan.threshold == 393216
    assert plan.rows == tuple(range(129))
    assert taken(400_000, 129, lengths=[400_000] * 129).path == "sglang.v2_cluster_8"
    assert taken(100_000, 130, width=400_000, lengths=[400_000] * 129 + [100_000]).path == "sglang.v2_streaming"


def test_lengths_of_other_rows_are_not_needed_where_they_cannot_decide() -> None:
    """For 31 rows on an H200 the heuristic chooses 65536 or 98304, for 200 rows up to 393216."""
    assert taken(65_536, 31, width=500_000).path == "sglang.v2_streaming"
    assert taken(65_537, 31).unknown == ("the lengths of all rows of the call",)
    assert taken(98_304, 31).unknown == ("the lengths of all rows of the call",)
    assert taken(98_305, 31).path == "sglang.v2_cluster_8"
    assert taken(98_305, 200).unknown == ("the lengths of all rows of the call",)
    assert taken(393_217, 200).path == "sglang.v2_cluster_8"


def test_static_thresholds() -> None:
    lengths = [40_000] * 20 + [70_000] * 20
    assert plan_topk_v2(lengths, NEW, "h200").threshold == 65536
    assert plan_topk_v2(lengths, NEW, "h200", 0).threshold == 32768  # taken as it is, raised to the least
    assert plan_topk_v2(lengths, NEW, "h200", 0).rows == tuple(range(40))
    assert plan_topk_v2(lengths, NEW, "h200", 69_999).threshold == 69_999
    assert plan_topk_v2(lengths, OLD, "h200", 0).threshold == 65536  # the heuristic
    assert plan_topk_v2(lengths, OLD, "h200", 40_000).threshold == 65536  # raised to the least
    assert plan_topk_v2(None, NEW, "h200", 50_000, rows=31).threshold == 50_000  # needs no lengths


def test_a_static_threshold_decides_the_route() -> None:
    wide = {"width": 70_000, "rows": 40}
    assert taken(40_000, lengths=[40_000] * 40, **wide).path == "sglang.v2_streaming"
    static = taken(40_000, **wide, static_threshold=0)
    assert static.path == "sglang.v2_cluster_8"
    assert static.plan is not None
    assert static.plan.threshold == 32768


@pytest.mark.parametrize(
    ("rows", "release", "written"),
    [(30, NEW, False), (31, NEW, True), (512, NEW, True), (513, NEW, False), (1, OLD, True), (513, OLD, True)],
)
def test_when_a_plan_is_written(rows: int, release: str, written: bool) -> None:
    plan = plan_topk_v2([100] * rows, release, "h200")
    assert plan.written is written
    assert (plan.threshold is not None) is written


def test_a_plan_that_hangs_on_an_unmeasured_probe_is_unknown() -> None:
    assert plan_topk_v2([100] * 33, NEW, "h100").written is None
    assert plan_topk_v2([100] * 34, NEW, "h100").written is True
    assert plan_topk_v2([100] * 33, NEW, "h100", clusters_8=0).written is False


def test_what_a_plan_cannot_be_made_of_is_an_error() -> None:
    with pytest.raises(UsageError, match="negative"):
        plan_topk_v2([100, -4], NEW, "h200")
    with pytest.raises(UsageError, match="how many rows"):
        plan_topk_v2(None, NEW, "h200")
    with pytest.raises(UsageError, match="30 clusters of 8 blocks built in, not 33"):
        plan_topk_v2([1], OLD, "h200", clusters_8=33)
    with pytest.raises(UsageError, match="30 clusters of 8 blocks built in, not 0"):
        taken(70_000, 5, release=OLD, clusters_8=0)
    with pytest.raises(UsageError, match="belongs to sglang"):
        plan_topk_v2([1], "vllm==0.26.0", "h200")


def test_rocm_builds_divide_long_rows_of_few() -> None:
    assert taken(40_961, 8, "mi300x", release="sglang==0.5.23").unknown == ("the ROCm build's divided rows",)
    assert taken(40_960, 8, "mi300x", release="sglang==0.5.23").path == "sglang.v2_streaming"
    assert taken(40_961, 9, "mi300x", release="sglang==0.5.23").path == "sglang.v2_streaming"
    assert taken(200_000, 77, "mi300x", release="sglang==0.5.23").path == "sglang.v2_streaming"  # more than 304 / 4
    assert taken(200_000, 8, "mi300x").path == "sglang.v2_streaming"
