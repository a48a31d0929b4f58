"""Which path each row of a call takes, for an op, a release and a device, with every condition that decided it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths import catalog
from workbench.paths.devices import Device, get_device
from workbench.paths.releases import OBSERVED, Release, parse_release
from workbench.words import listed

KIB = 1024

# vLLM's persistent_topk, host side.
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
SAMPLED_SINCE = (0, 31, 0)
EXACT_SINCE = (0, 33, 0)


@dataclass(frozen=True)
class Condition:
    """One condition of a route, in words, and whether it holds; ``None`` if the capture does not say enough."""

    text: str
    met: bool | None


@dataclass(frozen=True)
class Route:
    """Where a row goes.

    Attributes:
        path, variant: their names; ``None`` where the route cannot be told or the op refuses the call.
        op, release, device: what was asked.
        reasons: every condition in the order it was tested.
        unknown: fields of the call that decide and are not known. refused: why the op does not take the call.
    """

    path: str | None
    variant: str | None
    op: str
    release: str
    device: str
    reasons: tuple[Condition, ...]
    unknown: tuple[str, ...] = ()
    refused: str = ""


class _UnknownFieldError(Exception):
    """A field of the call decides and is not known."""


class _RefusedError(Exception):
    """The op does not take the call."""


class _Questions:
    """The conditions as they are asked, with their answers."""

    def __init__(self, row: Row, k: int | None) -> None:
        self.row, self.asked, self._k = row, list[Condition](), k

    def field(self, name: str, why: str) -> int:
        """A field of the call that is needed to go on."""
        value = self._k if name == "k" and self._k is not None else getattr(self.row.call, name)
        if value is None:
            self.asked.append(Condition(f"{name} is unknown, and {why}", None))
            raise _UnknownFieldError(name)
        return int(value)

    def holds(self, met: bool, text: str) -> bool:
        self.asked.append(Condition(text, met))
        return met

    def bound_reaches(self, least: int, consequence: str) -> bool:
        """Whether max_seq_len is at least ``least``; the row's own length bounds it from below by the op's contract."""
        bound, length = self.row.call.max_seq_len, self.row.length
        if bound is not None:
            return self.holds(bound >= least, f"max_seq_len {bound} ≥ {least} ({consequence})")
        if length >= least:
            return self.holds(True, f"max_seq_len is unknown but not below length {length} ≥ {least} ({consequence})")
        return self.field("max_seq_len", f"{least} or more decides ({consequence})") >= least

    def require(self, met: bool, text: str, refusal: str) -> None:
        if not self.holds(met, text):
            raise _RefusedError(refusal)


def _persistent(ask: _Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.persistent_topk: the host picks a kernel for the call, which picks a path by each row's length."""
    version = release.version
    variant = "stock"
    if ask.holds(version >= EXACT_SINCE, f"release {release} ≥ 0.33.0, which lost nothing on any observed row"):
        variant = "v0.33.0"
    k, length = _vllm_k(ask), ask.row.length
    _float32(ask)
    if ask.holds(length <= k, f"length {length} ≤ k {k}: nothing to select"):
        return "vllm.trivial", variant
    rows = ask.field("rows", f"more than {FILTERED_ROWS} rows take another kernel")
    if version >= SAMPLED_SINCE and ask.holds(rows > SAMPLED_ROWS, f"rows {rows} > {SAMPLED_ROWS} (sampled kernel)"):
        long = ask.bound_reaches(SAMPLED_FROM[k], f"sampled kernel at k {k}")
        if long and ask.holds(
            device.optin_bytes >= SAMPLED_OPTIN, f"opt-in shared memory {device.optin_bytes} ≥ {SAMPLED_OPTIN} bytes"
        ):
            return "vllm.sampled", variant
    if ask.holds(rows > FILTERED_ROWS, f"rows {rows} > {FILTERED_ROWS} (filtered kernel)") and ask.holds(
        device.optin_bytes >= FILTERED_OPTIN, f"opt-in shared memory {device.optin_bytes} ≥ {FILTERED_OPTIN} bytes"
    ):
        return _filtered(ask, version), variant
    if not _fits(ask, rows, device) and ask.bound_reaches(
        catalog.HISTOGRAM_256_UP_TO + 1, "all blocks of the grid must be resident at once"
    ):
        if device.optin_bytes >= FILTERED_OPTIN:
            return _filtered(ask, version), variant
        raise _RefusedError(
            "the grid does not fit the device; the op raises, or from some release on uses per_row instead"
        )
    return _persistent_kernel(ask), variant


def _vllm_k(ask: _Questions) -> int:
    k = ask.field("k", "the op takes 512, 1024 or 2048 only")
    ask.require(k in catalog.PERSISTENT_KS, f"k {k} is 512, 1024 or 2048", f"the op raises on k {k}")
    return k


def _float32(ask: _Questions) -> None:
    dtype = ask.row.dtype
    ask.require(dtype == "float32", f"scores are {dtype}, the op takes float32", f"the op takes float32, not {dtype}")


def _filtered(ask: _Questions, version: tuple[int, ...]) -> str:
    length, up_to = ask.row.length, catalog.HISTOGRAM_4096_UP_TO
    if version >= SHORT_PATH_SINCE and ask.holds(
        length <= up_to, f"length {length} ≤ {up_to} (register path, from 0.24.0)"
    ):
        return "vllm.histogram_4096"
    return "vllm.filtered"


def _persistent_kernel(ask: _Questions) -> str:
    """The path of a row inside the persistent kernel, by its own length."""
    length = ask.row.length
    if ask.holds(length <= catalog.HISTOGRAM_2048_UP_TO, f"length {length} ≤ {catalog.HISTOGRAM_2048_UP_TO}"):
        return "vllm.histogram_2048"
    if ask.holds(length <= catalog.HISTOGRAM_256_UP_TO, f"length {length} ≤ {catalog.HISTOGRAM_256_UP_TO}"):
        return "vllm.histogram_256"
    if not ask.bound_reaches(catalog.HISTOGRAM_256_UP_TO + 1, "the blocks of a row wait for each other"):
        raise _RefusedError(
            f"length {length} is above max_seq_len: outside the op's contract, "
            "reported to hang (vllm-project/vllm#51593)"
        )
    return "vllm.radix"


def _fits(ask: _Questions, rows: int, device: Device) -> bool:
    """Whether the persistent grid is resident at once, as the launcher computes it."""
    stride = ask.field("stride", "the blocks a row needs follow from it")
    limit = next((limit for most, limit in FEW_ROWS_BYTES if rows <= most), device.optin_bytes)
    budget = min(device.optin_bytes, limit)
    vector = 4 if stride % 4 == 0 else 2 if stride % 2 == 0 else 1
    chunk = max((budget - HEADER_BYTES) // 4 // vector * vector, vector * BLOCK_THREADS)
    blocks = ceil(stride / chunk)
    used = ceil(ceil(stride / blocks) / vector) * vector
    shared = max(HEADER_BYTES + 4 * used, LEAST_BYTES)
    resident = device.resident_blocks(BLOCK_THREADS, shared) * device.sms
    return ask.holds(
        blocks <= resident,
        f"a row of stride {stride} needs {blocks} blocks of {shared} bytes; {resident} are resident on {device.name}",
    )


def _per_row(ask: _Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.top_k_per_row_decode: one exact path for every row above k."""
    k, length = ask.field("k", "rows up to k need no selection"), ask.row.length
    _float32(ask)
    if ask.holds(length <= k, f"length {length} ≤ k {k}: nothing to select"):
        return "vllm.trivial", "stock"
    return "vllm.per_row", "stock"


def _fast_topk(ask: _Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.fast_topk_v2: one path for every row above k."""
    k, length = ask.field("k", "the op takes 2048 only"), ask.row.length
    ask.require(k == 2048, f"k {k} is 2048", f"the op takes k 2048 only, not {k}")
    _float32(ask)
    if ask.holds(length <= k, f"length {length} ≤ k {k}: nothing to select"):
        return "sglang.trivial", "stock"
    return "sglang.fast_topk", "stock"


@dataclass(frozen=True)
class Op:
    """What a serving engine calls.

    Attributes:
        name: as in ``vllm.persistent_topk``. package: the package that ships it. source: its upstream name.
    """

    name: str
    package: str
    source: str
    router: Callable[[_Questions, Release, Device], tuple[str, str]]

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases whose routing is known, oldest first, as in ``vllm==0.26.0``."""
        return tuple(f"{self.package}=={version}" for version in OBSERVED[self.package])


OPS: tuple[Op, ...] = (
    Op("vllm.persistent_topk", "vllm", "torch.ops._C.persistent_topk", _persistent),
    Op("vllm.top_k_per_row_decode", "vllm", "torch.ops._C.top_k_per_row_decode", _per_row),
    Op("sglang.fast_topk_v2", "sglang-kernel", "torch.ops.sgl_kernel.fast_topk", _fast_topk),
)


def get_op(name: str) -> Op:
    """The op of that name; UsageError lists the known ones."""
    for op in OPS:
        if op.name == name:
            return op
    raise UsageError(f"unknown op {name!r}; known ops: {', '.join(op.name for op in OPS)}")


def route(
    row: Row,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
) -> Route:
    """The path that an op sends a row to.

    Args:
        row: the row, with its call. op, release, device, k: those of the call where not given.

    Returns:
        The route; its ``path`` is ``None`` where the capture does not say enough or the op refuses the call.

    Raises:
        UsageError: op, release or device is not given anywhere, or is not known.
    """
    given = {"op": op or row.call.op, "release": release or row.call.release, "device": device or row.call.device}
    absent = [name for name, value in given.items() if not value]
    if absent:
        raise UsageError(f"the capture does not name {listed(absent)}; give {'it' if len(absent) == 1 else 'them'}")
    known_op = get_op(str(given["op"]))
    known_release = parse_release(str(given["release"]), known_op.package)
    known_device = get_device(str(given["device"]))
    ask = _Questions(row, k)
    path = variant = None
    unknown: tuple[str, ...] = ()
    refused = ""
    try:
        path, variant = known_op.router(ask, known_release, known_device)
    except _UnknownFieldError as field:
        unknown = (str(field),)
    except _RefusedError as why:
        refused = str(why)
    return Route(
        path, variant, known_op.name, str(known_release), known_device.name, tuple(ask.asked), unknown, refused
    )
