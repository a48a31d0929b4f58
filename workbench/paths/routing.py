"""Which path each row of a call takes, for an op, a release and a device, with every condition that decided it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths import route_sglang, route_vllm
from workbench.paths.conditions import Condition, Questions, RefusedError, UnknownFieldError
from workbench.paths.devices import Device, get_device
from workbench.paths.releases import OBSERVED, Release, parse_release
from workbench.words import listed


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


@dataclass(frozen=True)
class Op:
    """What a serving engine calls.

    Attributes:
        name: as in ``vllm.persistent_topk``. package: the package that ships it. source: its upstream name.
        reaches: every path that it takes on some release and device.
        transforms: what it can return, by the names of ``workbench.paths.transforms.MODES``.
    """

    name: str
    package: str
    source: str
    reaches: tuple[str, ...]
    router: Callable[[Questions, Release, Device], tuple[str, str]]
    transforms: tuple[str, ...] = ()

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases whose routing is known, oldest first, as in ``vllm==0.26.0``."""
        return tuple(f"{self.package}=={version}" for version in OBSERVED[self.package])


OPS: tuple[Op, ...] = (
    Op(
        "vllm.persistent_topk",
        "vllm",
        "torch.ops._C.persistent_topk",
        (
            "vllm.trivial",
            "vllm.histogram_2048",
            "vllm.histogram_256",
            "vllm.histogram_4096",
            "vllm.filtered",
            "vllm.radix",
            "vllm.sampled",
        ),
        route_vllm.persistent,
        ("raw",),
    ),
    Op(
        "vllm.cooperative_topk",
        "vllm",
        "torch.ops._C.cooperative_topk",
        (
            "vllm.trivial",
            "vllm.histogram_4096",
            "vllm.cooperative_2",
            "vllm.cooperative_4",
            "vllm.cooperative_8",
            "vllm.cooperative_16",
        ),
        route_vllm.cooperative,
        ("raw",),
    ),
    Op(
        "vllm.top_k_per_row_decode",
        "vllm",
        "torch.ops._C.top_k_per_row_decode",
        ("vllm.trivial", "vllm.per_row"),
        route_vllm.per_row,
        ("raw",),
    ),
    Op(
        "sglang.fast_topk_v2",
        "sglang-kernel",
        "torch.ops.sgl_kernel.fast_topk",
        ("sglang.trivial", "sglang.fast_topk"),
        route_sglang.fast_topk,
        ("raw",),
    ),
    Op(
        "sglang.topk_transform_paged",
        "sglang",
        "topk_transform_paged",
        ("sglang.trivial", "sglang.v1"),
        route_sglang.paged_v1,
        ("page table", "page table + raw"),
    ),
    Op(
        "sglang.topk_transform_paged_v2",
        "sglang",
        "topk_transform_paged_v2",
        (
            "sglang.trivial",
            "sglang.v2_register",
            "sglang.v2_streaming",
            "sglang.v2_cluster_8",
            "sglang.v2_cluster_16",
        ),
        route_sglang.paged_v2,
        ("raw", "page table", "page table + raw"),
    ),
    Op(
        "sglang.topk_transform_ragged_v2",
        "sglang",
        "topk_transform_ragged_v2",
        ("sglang.trivial", "sglang.v2_register", "sglang.v2_streaming"),
        route_sglang.ragged_v2,
        ("offset",),
    ),
    Op(
        "sglang.kpool_topk_transform",
        "sglang",
        "fast_kpool_topk_transform_fused",
        ("sglang.trivial", "sglang.kpool"),
        route_sglang.kpool,
        ("k-pool", "k-pool + page table", "k-pool + offset"),
    ),
    Op(
        "sglang.topk_transform_bf16_small",
        "sglang",
        "topk_transform_bf16_small",
        ("sglang.trivial", "sglang.bf16_small"),
        route_sglang.bf16_small,
        ("page table",),
    ),
    Op(
        "sglang.deep_select",
        "sglang",
        "deep_select",
        ("sglang.trivial", "sglang.deep_select"),
        route_sglang.deep_select,
        ("raw",),
    ),
    Op(
        "flashinfer.top_k_ragged_transform",
        "flashinfer",
        "TopKRaggedTransform",
        ("flashinfer.trivial", "flashinfer.ragged"),
        route_sglang.flashinfer_ragged,
        ("offset",),
    ),
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
    asked = {"op": op, "release": release, "device": device}
    given = {name: getattr(row.call, name) if one is None else one for name, one in asked.items()}
    absent = [name for name, value in given.items() if value is None]
    if absent:
        raise UsageError(
            f"the capture does not name {listed(absent)}; give {'it' if len(absent) == 1 else 'them'} "
            f"({', '.join(f'--{name}' for name in absent)}; on the command line, route --list shows the known ones)"
        )
    known_op = get_op(str(given["op"]))
    known_release = parse_release(str(given["release"]), known_op.package)
    known_device = get_device(str(given["device"]))
    ask = Questions(row, k)
    path = variant = None
    unknown: tuple[str, ...] = ()
    refused = ""
    try:
        path, variant = known_op.router(ask, known_release, known_device)
    except UnknownFieldError as field:
        unknown = (str(field),)
    except RefusedError as why:
        refused = str(why)
    return Route(
        path, variant, known_op.name, str(known_release), known_device.name, tuple(ask.asked), unknown, refused
    )
