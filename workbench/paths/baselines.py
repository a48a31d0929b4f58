"""Selectors of other projects, as baselines."""

from __future__ import annotations

from workbench.paths.shared import NAN_UNKNOWN, exact_inside_unknown, trivial
from workbench.paths.spec import Contract, Path

PATHS: tuple[Path, ...] = (
    trivial("flashinfer", "topk.cuh, length <= k"),
    Path(
        name="flashinfer.ragged",
        summary="radix or filtered selection with an overflow flag that sends the row through an exact scan",
        family="opaque",
        source="flashinfer topk.cuh, TopKRaggedTransform",
        releases="flashinfer at commit fb28d724",
        references=("flashinfer-ai/flashinfer#2604",),
        k_up_to=2048,
        longer_than="k",
        contract=Contract(nan=NAN_UNKNOWN),
        variants=(exact_inside_unknown("lost no winner on any observed row"),),
    ),
)
