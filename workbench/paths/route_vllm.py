"""Where vLLM's ops send a row."""

from __future__ import annotations

from workbench.paths import vllm
from workbench.paths.conditions import ROW_NUMBER, Questions, RefusedError
from workbench.paths.devices import Device
from workbench.paths.own_variants import RADIX_FROM, SPLIT_FROM
from workbench.paths.releases import Release

KIB = 1024

# persistent_topk, host side.
FILTERED_ROWS = 32
FILTERED_OPTIN = 128 * KIB
SAMPLED_ROWS = 64
SAMPLED_OPTIN = 144 * KIB
SAMPLED_FROM = {512: 98304, 1024: 65536, 2048: 65536}  # max_seq_len, by k
BLOCK_THREADS = 1024
HEADER_BYTES = 2080
LEAST_BYTES = 35968
FEW_ROWS_BYTES = ((4, 35968), (8, 49152))  # at most so many rows: shared memory a block

SHORT_PATH_SINCE = (0, 24, 0)
COOPERATIVE_SINCE = (0, 24, 0)
MANY_ROWS_SINCE = (0, 29, 0)
SAMPLED_SINCE = (0, 31, 0)
EXACT_SINCE = (0, 33, 0)

# cooperative_topk: at most so many rows take a cluster of so many blocks.
CLUSTERS = ((8, 8), (32, 4), (64, 2))
SMALL_BATCH_ROWS, SMALL_BATCH_CLUSTER = 4, 16  # on compute capability 10 and later

# top_k_per_row
COMPARED_ROWS = 12288  # prefill, by the number of the row within its call
GFX950_K, GFX950_ROWS = 512, 384


def persistent(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.persistent_topk: the host picks a kernel for the call, which picks a path by each row's length."""
    ask.on_cuda(device)
    version, variant = release.version, _variant(ask, release)
    k = ask.k_among(vllm.KS)
    ask.dtype("float32")
    if ask.nothing_to_select(k):
        return "vllm.trivial", variant
    rows = ask.field("rows", f"more than {FILTERED_ROWS} rows take another kernel")
    if version >= SAMPLED_SINCE and ask.holds(
        rows > SAMPLED_ROWS, f"rows {rows} > {SAMPLED_ROWS} (sampled kernel)", rows=SAMPLED_ROWS
    ):
        long = ask.bound_reaches(SAMPLED_FROM[k], f"sampled kernel at k {k}")
        if long and ask.holds(
            device.optin_bytes >= SAMPLED_OPTIN, f"opt-in shared memory {device.optin_bytes} ≥ {SAMPLED_OPTIN} bytes"
        ):
            return "vllm.sampled", variant
    many = ask.holds(rows > FILTERED_ROWS, f"rows {rows} > {FILTERED_ROWS} (filtered kernel)", rows=FILTERED_ROWS)
    if many and ask.holds(
        device.optin_bytes >= FILTERED_OPTIN, f"opt-in shared memory {device.optin_bytes} ≥ {FILTERED_OPTIN} bytes"
    ):
        return _filtered(ask, version), variant
    if not _fits(ask, rows, device) and ask.bound_reaches(
        vllm.HISTOGRAM_256_UP_TO + 1, "all blocks of the grid must be resident at once"
    ):
        if device.optin_bytes >= FILTERED_OPTIN:
            return _filtered(ask, version), variant
        raise RefusedError(
            "the grid does not fit the device; the op raises, or from some release on uses per_row instead"
        )
    return _by_length(ask), variant


def cooperative(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.cooperative_topk: a cluster of blocks a row, its size by rows and device."""
    ask.on_cuda(device)
    variant = _variant(ask, release)
    k = ask.k_among(vllm.KS)
    ask.dtype("float32")
    major = device.capability[0]
    ask.require(
        device.has_clusters,
        f"{device.arch} has clusters (9.0 or later, not 12)",
        f"{device.name} has no clusters that the op can launch",
    )
    stride = ask.field("stride", "it must be a multiple of 4")
    ask.require(stride % 4 == 0, f"stride {stride} is a multiple of 4", f"the op takes strides of 4, not {stride}")
    most = most_rows(release)
    rows = ask.field("rows", f"the op takes at most {most}")
    refusal = f"the op takes at most {most} rows in {release}, not {rows}"
    ask.require(rows <= most, f"rows {rows} ≤ {most}", refusal, rows=most)
    if ask.nothing_to_select(k):
        return "vllm.trivial", variant
    short = vllm.COOPERATIVE_SHORT_UP_TO
    if ask.holds(ask.row.length <= short, f"length {ask.row.length} ≤ {short} (one block)", length=short):
        return "vllm.histogram_4096", variant
    few = f"rows {rows} ≤ {SMALL_BATCH_ROWS} (cluster of {SMALL_BATCH_CLUSTER})"
    if major >= 10 and ask.holds(rows <= SMALL_BATCH_ROWS, few, rows=SMALL_BATCH_ROWS):
        return f"vllm.cooperative_{SMALL_BATCH_CLUSTER}", variant
    for limit, ranks in CLUSTERS[:-1]:
        if ask.holds(rows <= limit, f"rows {rows} ≤ {limit} (cluster of {ranks})", rows=limit):
            return f"vllm.cooperative_{ranks}", variant
    return f"vllm.cooperative_{CLUSTERS[-1][1]}", variant


def most_rows(release: Release) -> int:
    """How many rows cooperative_topk takes."""
    return 64 if release.version >= MANY_ROWS_SINCE else 32


def per_row(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.top_k_per_row_decode: one path for every row above k; the padded width says how it sorts."""
    k = _per_row_k(ask)
    if ask.nothing_to_select(k):
        return "vllm.trivial", "stock"
    length = ask.row.length
    if device.gfx == "gfx950" and k == GFX950_K:
        ask.cannot_tell(
            f"from some release on gfx950 has a selector of its own for k {GFX950_K} and at most {GFX950_ROWS} rows "
            "(vllm-project/vllm#56743), as exact as this one"
        )
    if length >= SPLIT_FROM:
        text = f"width is not below length {length} ≥ {SPLIT_FROM} (the row is split)"
        ask.holds(True, text, length=SPLIT_FROM - 1)
        return "vllm.per_row", "decode_split"
    width = ask.field(
        "width", f"from {RADIX_FROM} on candidates are sorted by radix, from {SPLIT_FROM} the row is split"
    )
    split = f"width {width} ≥ {SPLIT_FROM} (the row is split)"
    if ask.holds(width >= SPLIT_FROM, split, width=SPLIT_FROM - 1, length=SPLIT_FROM - 1):
        return "vllm.per_row", "decode_split"
    sorts = f"width {width} ≥ {RADIX_FROM} (candidates are sorted by radix)"
    radix = ask.holds(width >= RADIX_FROM, sorts, width=RADIX_FROM - 1)
    return "vllm.per_row", "decode_radix" if radix else "stock"


def per_row_prefill(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.top_k_per_row_prefill: the same path over [start, end); the row's number says how it sorts, never split."""
    k = _per_row_k(ask)
    ask.holds(
        True, f"the row is cells {ask.row.start} to {ask.row.start + ask.row.length}; indices count from its start"
    )
    if ask.nothing_to_select(k):
        return "vllm.trivial", "stock"
    return "vllm.per_row", "prefill" if _compared(ask) else "prefill_radix"


def _per_row_k(ask: Questions) -> int:
    k = ask.field("k", "rows up to k need no selection")
    ask.dtype("float32")
    return k


def _compared(ask: Questions) -> bool:
    """Whether the row is among those whose last candidates are sorted by comparing, not by radix."""
    rows, most = ask.field("rows", f"rows from number {COMPARED_ROWS} on are sorted by radix"), COMPARED_ROWS
    if ask.holds(rows <= most, f"rows {rows} ≤ {most} (all of them sort by comparing)", rows=most):
        return True
    if ask.row.batch is None:
        raise ask.stop(
            f"the row's number within its call is unknown, and from {most} on rows are sorted by radix",
            ROW_NUMBER,
        )
    return ask.holds(ask.row.index < most, f"row {ask.row.index} < {most} (sorted by comparing)")


def _variant(ask: Questions, release: Release) -> str:
    exact = ask.holds(
        release.version >= EXACT_SINCE, f"release {release} ≥ 0.33.0 (nothing is lost from there on, as observed)"
    )
    return vllm.V0_33_0.name if exact else "stock"


def _filtered(ask: Questions, version: tuple[int, ...]) -> str:
    length, up_to = ask.row.length, vllm.HISTOGRAM_4096_UP_TO
    if version >= SHORT_PATH_SINCE and ask.holds(
        length <= up_to, f"length {length} ≤ {up_to} (register path, from 0.24.0)", length=up_to
    ):
        return "vllm.histogram_4096"
    return "vllm.filtered"


def _by_length(ask: Questions) -> str:
    """The path of a row inside the persistent kernel, by its own length."""
    length = ask.row.length
    for path, up_to in (
        ("vllm.histogram_2048", vllm.HISTOGRAM_2048_UP_TO),
        ("vllm.histogram_256", vllm.HISTOGRAM_256_UP_TO),
    ):
        if ask.holds(length <= up_to, f"length {length} ≤ {up_to}", length=up_to):
            return path
    if not ask.bound_reaches(vllm.HISTOGRAM_256_UP_TO + 1, "the blocks of a row wait for each other"):
        raise RefusedError(
            f"length {length} is above max_seq_len: outside the op's contract, "
            "reported to hang (vllm-project/vllm#51593)"
        )
    return "vllm.radix"


def _fits(ask: Questions, rows: int, device: Device) -> bool:
    """Whether the persistent grid is resident at once, as the launcher computes it."""
    stride = ask.field("stride", "the blocks a row needs follow from it")
    blocks, shared, resident = persistent_grid(rows, stride, device)
    return ask.holds(
        blocks <= resident,
        f"a row of stride {stride} needs {blocks} blocks of {shared} bytes; {resident} are resident on {device.name}",
    )


def persistent_grid(rows: int, stride: int, device: Device) -> tuple[int, int, int]:
    """Blocks that a row of the persistent kernel takes, their shared memory in bytes, and how many are resident."""
    blocks, chunk = persistent_chunks(rows, stride, device.optin_bytes)
    shared = max(HEADER_BYTES + 4 * chunk, LEAST_BYTES)
    return blocks, shared, device.resident_blocks(BLOCK_THREADS, shared) * device.sms


def persistent_chunks(rows: int, stride: int, optin_bytes: int) -> tuple[int, int]:
    """Blocks that a row of the persistent kernel takes, and the scores that each of them holds."""
    limit = next((limit for most, limit in FEW_ROWS_BYTES if rows <= most), optin_bytes)
    budget = min(optin_bytes, limit)
    vector = 4 if stride % 4 == 0 else 2 if stride % 2 == 0 else 1
    most_held = max((budget - HEADER_BYTES) // 4 // vector * vector, vector * BLOCK_THREADS)
    blocks = max(_ceil(stride, most_held), 1)
    return blocks, _ceil(_ceil(stride, blocks), vector) * vector


def _ceil(number: int, divisor: int) -> int:
    """The quotient rounded up, exact for any integers."""
    return -(-number // divisor)
