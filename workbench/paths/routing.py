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
    """

    name: str
    package: str
    source: str
    router: Callable[[Questions, Release, Device], tuple[str, str]]

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases whose routing is known, oldest first, as in ``vllm==0.26.0``."""
        return tuple(f"{self.package}=={version}" for version in OBSERVED[self.package])


OPS: tuple[Op, ...] = (
    Op("vllm.persistent_topk", "vllm", "torch.ops._C.persistent_topk", route_vllm.persistent),
    Op("vllm.cooperative_topk", "vllm", "torch.ops._C.cooperative_topk", route_vllm.cooperative),
    Op("vllm.top_k_per_row_decode", "vllm", "torch.ops._C.top_k_per_row_decode", route_vllm.per_row),
    Op("sglang.fast_topk_v2", "sglang-kernel", "torch.ops.sgl_kernel.fast_topk", route_sglang.fast_topk),
    Op("sglang.topk_transform_paged", "sglang", "topk_transform_paged", route_sglang.paged_v1),
    Op("sglang.topk_transform_paged_v2", "sglang", "topk_transform_paged_v2", route_sglang.paged_v2),
    Op("sglang.topk_transform_ragged_v2", "sglang", "topk_transform_ragged_v2", route_sglang.ragged_v2),
    Op("sglang.kpool_topk_transform", "sglang", "fast_kpool_topk_transform_fused", route_sglang.kpool),
    Op("sglang.topk_transform_bf16_small", "sglang", "topk_transform_bf16_small", route_sglang.bf16_small),
    Op("sglang.deep_select", "sglang", "deep_select", route_sglang.deep_select),
    Op("flashinfer.top_k_ragged_transform", "flashinfer", "TopKRaggedTransform", route_sglang.flashinfer_ragged),
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
