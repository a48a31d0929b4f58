"""Where the ops of SGLang's v2 send a row: registers, a stream, or a cluster of blocks."""

from __future__ import annotations

from workbench.paths import sglang
from workbench.paths.conditions import ALL_LENGTHS, Questions, UnknownFieldError
from workbench.paths.devices import Device
from workbench.paths.plan import (
    FEW_ROWS,
    MOST_ROWS,
    Arch,
    Text,
    arch_of,
    heuristic_range,
    make_plan,
    most_clusters,
    pool_of,
    text_of,
)
from workbench.paths.releases import Release

EXACT_SINCE = (0, 5, 23)
VECTOR = 4  # scores that are loaded at once, from an aligned cell on
WIDE = 16  # blocks of the cluster for the fewest rows, one block a multiprocessor
SPLIT_SINCE = (0, 5, 23)  # ROCm builds
SPLIT_LEAST = 4
SPLIT_FLOORS = ((8, 40960), (16, 49152), (32, 65536))  # at most so many rows: lengths above which a row is split
SPLIT_FLOOR = 114688


def paged(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_paged_v2: clusters for wide calls, by the plan; otherwise one block a row."""
    return _paged(ask, release, device, pooled=False)


def pooled(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_kpool_v2: as paged, where scores, length, width and k count groups of pooled tokens."""
    return _paged(ask, release, device, pooled=True)


def ragged(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_ragged_v2 and its pooled form: one block a row, by length and where it starts."""
    k = ask.k_up_to(sglang.V2_K)
    ask.dtype("float32")
    if ask.nothing_to_select(k):
        return "sglang.trivial", exact_variant(ask, release)
    return _one_block(ask, ask.row.start % VECTOR), exact_variant(ask, release)


def exact_variant(ask: Questions, release: Release) -> str:
    """The variant of a path that lost nothing from 0.5.23 on."""
    exact = ask.holds(
        release.version >= EXACT_SINCE, f"release {release} ≥ 0.5.23 (nothing is lost here from there on, as observed)"
    )
    return sglang.V0_5_23.name if exact else "stock"


def _paged(ask: Questions, release: Release, device: Device, pooled: bool) -> tuple[str, str]:
    k = ask.k_up_to(sglang.V2_K)
    ask.dtype("float32")
    stride = ask.field("stride", "it must be a multiple of 4")
    ask.require(stride % 4 == 0, f"stride {stride} is a multiple of 4", f"the op takes strides of 4, not {stride}")
    text = text_of(release)
    _note_plan(ask, text, device)
    if ask.nothing_to_select(k):
        return "sglang.trivial", exact_variant(ask, release)
    if device.platform == "rocm" and not pooled:
        _not_split(ask, release, device)
    blocks = _cluster(ask, text, device)
    if blocks is not None:
        own = ask.holds(release.version >= EXACT_SINCE, f"release {release} ≥ 0.5.23 (its rules for zeros and NaN)")
        variant = sglang.V0_5_23.name if own else "stock"
        return f"sglang.v2_cluster_{blocks}", "contiguous_ranks" if text.sliced else variant
    return _one_block(ask), exact_variant(ask, release)


def _note_plan(ask: Questions, text: Text, device: Device) -> None:
    """Keep the plan of the call for whoever asks, as far as the capture tells it."""
    batch, rows = ask.row.batch, ask.known("rows")
    if batch is None and rows is None:
        return
    lengths = None if batch is None else batch.tolist()
    count = len(lengths) if lengths is not None else rows
    assert count is not None
    ask.plan = make_plan(lengths, count, text, device, ask.setup.static_threshold, ask.setup.clusters_8)


def _cluster(ask: Questions, text: Text, device: Device) -> int | None:
    """How wide a cluster takes the row; ``None`` if none does."""
    arch = arch_of(text, device)
    if not text.streams_elsewhere and arch is None:
        raise ask.stop(
            f"what this release does on {device.arch}, without clusters, is not established",
            "how this release is built",
        )
    if not ask.holds(arch is not None, f"{device.arch} has clusters that v2 is built for (9.0 to 10.x)"):
        return None
    assert arch is not None
    width, rows = (
        ask.field("width", "wide calls use clusters"),
        ask.field("rows", "the cluster's width follows from it"),
    )
    floor = arch.width_floor(rows)
    wider = f"width {width} > {floor} (clusters, at {rows} rows)"
    if not ask.holds(width > floor, wider, width=floor, rows=FEW_ROWS):
        return None
    if not ask.holds(rows <= MOST_ROWS, f"rows {rows} ≤ {MOST_ROWS} (clusters)", rows=MOST_ROWS):
        return None
    length = ask.row.length
    least = min(floor, text.least_threshold)
    if not ask.holds(length > least, f"length {length} > {least} (no cluster takes shorter rows)", length=least):
        return None
    wide = ask.holds(text.widest == WIDE, "the release has clusters of 16 blocks")
    if wide and _at_most(ask, rows, device, WIDE, 1, ask.setup.clusters_16, device.clusters_16):
        return WIDE if ask.holds(length > floor, f"length {length} > {floor}", length=floor) else None
    resident = pool_of(text, device, ask.setup.clusters_8)
    if resident == 0:
        ask.holds(False, "clusters of 8 blocks are resident (with none, one block takes each row)")
        return None
    if _at_most(ask, rows, device, 8, 2, resident, None):
        return 8 if ask.holds(length > floor, f"length {length} > {floor}", length=floor) else None
    return _by_plan(ask, arch, rows)


def _at_most(
    ask: Questions, rows: int, device: Device, blocks: int, occupancy: int, given: int | None, measured: int | None
) -> bool:
    """Whether clusters of so many blocks are resident for all rows at once, which the launcher asks the driver."""
    resident = measured if given is None else given
    if resident is not None:
        enough = f"rows {rows} ≤ {resident} resident clusters of {blocks} blocks"
        return ask.holds(rows <= resident, enough, rows=resident)
    most = most_clusters(device, blocks, occupancy)
    if rows > most:
        enough = f"rows {rows} ≤ {most}, as many clusters of {blocks} blocks as {device.sms} SMs can hold"
        return ask.holds(False, enough, rows=most)
    raise ask.stop(
        f"how many clusters of {blocks} blocks are resident at once decides for {rows} rows; the launcher asks the "
        f"driver, and the answer on {device.name} was not measured",
        f"clusters_{blocks}",
    )


def _by_plan(ask: Questions, arch: Arch, rows: int) -> int | None:
    """Whether the plan's threshold lets a cluster take the row."""
    plan, length = ask.plan, ask.row.length
    assert plan is not None
    if plan.threshold is not None:
        text = f"length {length} > {plan.threshold}, the plan's threshold ({plan.why})"
        return 8 if ask.holds(length > plan.threshold, text, length=plan.threshold) else None
    least, most = heuristic_range(rows, arch.caps)
    if length <= least:
        ask.holds(False, f"length {length} > {least}, below which the plan's heuristic never goes", length=least)
        return None
    if length > most:
        text = f"length {length} > {most}, above which the plan's heuristic never goes for {rows} rows"
        ask.holds(True, text, length=most)
        return 8
    ask.cannot_tell("the plan counts the lengths of all rows of the call, which are not all known", length=most)
    raise UnknownFieldError(ALL_LENGTHS)


def _not_split(ask: Questions, release: Release, device: Device) -> None:
    """ROCm builds divide long rows of few among blocks, a selection that has no record here."""
    if release.version < SPLIT_SINCE:
        return
    rows = ask.field("rows", "ROCm builds divide long rows of few among blocks")
    most = max(device.sms // SPLIT_LEAST, 1)
    if not ask.holds(rows <= most, f"rows {rows} ≤ {most} (rows divided among blocks)", rows=most):
        return
    floor = next((floor for limit, floor in SPLIT_FLOORS if rows <= limit), SPLIT_FLOOR)
    width = ask.field("width", "ROCm builds divide rows of wide calls among blocks")
    wide = ask.holds(width > floor, f"width {width} > {floor} (rows divided among blocks, at {rows} rows)", width=floor)
    if wide and ask.holds(ask.row.length > floor, f"length {ask.row.length} > {floor}", length=floor):
        raise ask.stop(
            f"{release} divides such rows among blocks on ROCm, a selection that has no record here",
            "the ROCm build's divided rows",
        )


def _one_block(ask: Questions, before: int = 0) -> str:
    """By the row's length and how many cells lie between the start of a vector and its first."""
    length, up_to = ask.row.length + before, sglang.V2_REGISTER_UP_TO
    registers = ask.holds(length <= up_to, f"length {length} ≤ {up_to}", length=up_to - before)
    return "sglang.v2_register" if registers else "sglang.v2_streaming"
