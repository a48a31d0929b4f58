"""Where SGLang's ops send a row."""

from __future__ import annotations

from workbench.paths import sglang
from workbench.paths.conditions import Questions, UnknownFieldError
from workbench.paths.devices import Device
from workbench.paths.plan import MOST_ROWS, cluster_limits, plan_threshold, width_floor
from workbench.paths.releases import Release

EXACT_SINCE = (0, 5, 23)
V1_K = 1024
KPOOL_GROUPS = (256, 512)


def fast_topk(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.fast_topk_v2: one path for every row above k."""
    k = ask.k_among((2048,))
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.fast_topk"), "stock"


def paged_v1(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_paged: one path for every row above k."""
    k = ask.k_up_to(V1_K)
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.v1"), _variant(ask, release)


def kpool(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.kpool_topk_transform: scores, length and k count groups of pooled tokens."""
    k = ask.k_among(KPOOL_GROUPS)
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.kpool"), _variant(ask, release)


def ragged_v2(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_ragged_v2: one block a row, by length and the alignment of its start."""
    k = ask.k_up_to(sglang.V2_K)
    ask.dtype("float32")
    if ask.nothing_to_select(k):
        return "sglang.trivial", _variant(ask, release)
    return _one_block(ask, ask.row.length + ask.row.start % 4), _variant(ask, release)


def paged_v2(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_paged_v2: clusters for wide calls, by the plan; otherwise one block a row."""
    k = ask.k_up_to(sglang.V2_K)
    ask.dtype("float32")
    stride = ask.field("stride", "it must be a multiple of 4")
    ask.require(stride % 4 == 0, f"stride {stride} is a multiple of 4", f"the op takes strides of 4, not {stride}")
    if ask.nothing_to_select(k):
        return "sglang.trivial", _variant(ask, release)
    ranks = _cluster(ask, device)
    if ranks is not None:
        return f"sglang.v2_cluster_{ranks}", "stock"
    return _one_block(ask, ask.row.length), _variant(ask, release)


def _cluster(ask: Questions, device: Device) -> int | None:
    """How wide a cluster takes the row; ``None`` if none does."""
    limits = cluster_limits(device)
    major, minor = device.capability
    if not ask.holds(limits is not None, f"compute capability {major}.{minor} is 9.0 to 10.x (clusters)"):
        return None
    assert limits is not None
    width, rows = (
        ask.field("width", "wide calls use clusters"),
        ask.field("rows", "the cluster's width follows from it"),
    )
    floor = width_floor(limits, rows)
    if not ask.holds(width > floor, f"width {width} > {floor} (clusters, at {rows} rows)"):
        return None
    if not ask.holds(rows <= MOST_ROWS, f"rows {rows} ≤ {MOST_ROWS} (clusters)"):
        return None
    length = ask.row.length
    if rows <= limits.clusters_8:
        ranks = 16 if ask.holds(rows <= limits.clusters_16, f"rows {rows} ≤ {limits.clusters_16} (16 wide)") else 8
        return ranks if ask.holds(length > floor, f"length {length} > {floor}") else None
    batch = ask.row.batch
    if batch is None:
        ask.holds(False, f"rows {rows} ≤ {limits.clusters_8} (no plan)")
        ask.cannot_tell("the plan counts the lengths of all rows of the call, which are not all known")
        raise UnknownFieldError("the lengths of all rows of the call")
    threshold = plan_threshold(batch.tolist(), limits)
    if threshold is None:
        ask.holds(False, "the plan finds a threshold that few enough rows exceed")
        return None
    threshold = max(threshold, floor)
    return 8 if ask.holds(length > threshold, f"length {length} > {threshold}, the plan's threshold") else None


def _one_block(ask: Questions, length: int) -> str:
    up_to = sglang.V2_REGISTER_UP_TO
    return "sglang.v2_register" if ask.holds(length <= up_to, f"length {length} ≤ {up_to}") else "sglang.v2_streaming"


def bf16_small(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_bf16_small: bfloat16 rows of a width up to 16384."""
    k = ask.k_up_to(sglang.V2_K)
    ask.dtype("bfloat16")
    most = sglang.BF16_SMALL_UP_TO
    width = ask.field("width", f"the op takes at most {most}")
    ask.require(width <= most, f"width {width} ≤ {most}", f"the op takes widths up to {most}, not {width}")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.bf16_small"), "stock"


def deep_select(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.deep_select: one path for every row above k."""
    ask.require(release.version >= EXACT_SINCE, f"release {release} ≥ 0.5.23", f"{release} has no deep_select")
    k = ask.k_up_to(4096)
    ask.dtype("float32", "bfloat16")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.deep_select"), "stock"


def flashinfer_ragged(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """flashinfer.top_k_ragged_transform: one path for every row above k."""
    k = ask.k_up_to(2048)
    ask.dtype("float32")
    return ("flashinfer.trivial" if ask.nothing_to_select(k) else "flashinfer.ragged"), "stock"


def _variant(ask: Questions, release: Release) -> str:
    exact = ask.holds(
        release.version >= EXACT_SINCE, f"release {release} ≥ 0.5.23 (nothing is lost here from there on, as observed)"
    )
    return sglang.V0_5_23.name if exact else "stock"
