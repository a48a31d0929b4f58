"""Selectors of other projects, as baselines."""

from __future__ import annotations

from workbench.paths.own_variants import (
    FLASHINFER_FILTERED,
    FLASHINFER_FILTERED_NAN,
    FLASHINFER_RADIX,
    TORCH_TOPK,
    UNGUARDED,
)
from workbench.paths.shared import BYTES, NAN_SIGNED, NAN_TOP, NAN_UNKNOWN, exact_inside_unknown, trivial
from workbench.paths.spec import Buffer, Contract, Determinism, Evidence, OutputOrdering, Path

EVERY_DTYPE = ("float32", "bfloat16", "float16")

PATHS: tuple[Path, ...] = (
    Path(
        name="torch.topk",
        summary="exact bytes of every score, a pass over the row for each",
        family="own",
        source="torch, topk on CUDA, several blocks a row",
        releases="described, no release was run",
        digits=BYTES,
        longer_than="k",
        dtypes=EVERY_DTYPE,
        row_passes=5,
        contract=Contract(
            Determinism.NOT_GUARANTEED, output_ordering=OutputOrdering.SORTED, nan="ranks above +inf, whatever its sign"
        ),
        variants=(TORCH_TOPK,),
        evidence=Evidence.READ,
    ),
    Path(
        name="tilelang.topk_selector",
        summary="one block a row, 8-bit fp16 bins, then exact bytes over 4096 candidates that nothing counts",
        family="stash",
        source="tilelang examples/deepseek_v32/topk_selector.py",
        releases="described, no release was run",
        key_bits=8,
        buffer=Buffer(4096),
        digits=BYTES,
        longer_than="k",
        row_passes=2,
        contract=Contract(nan=NAN_TOP),
        variants=(UNGUARDED,),
        unreached="an example of its project; no serving engine calls it",
        evidence=Evidence.READ,
    ),
    trivial("flashinfer", "topk.cuh, length <= k"),
    Path(
        name="flashinfer.ragged",
        summary="flashinfer.filtered or flashinfer.radix, by width and rows: the bounds differ between commits",
        family="own",
        source="flashinfer topk.cuh, TopKRaggedTransform",
        releases="flashinfer at commit fb28d724",
        references=("flashinfer-ai/flashinfer#2604",),
        k_up_to=2048,
        longer_than="k",
        contract=Contract(nan=NAN_UNKNOWN),
        variants=(exact_inside_unknown("lost no winner on any observed row; which of the two ran is not established"),),
    ),
    Path(
        name="flashinfer.filtered",
        summary="one block a row, 8-bit bins, a buffer of 16384 candidates, a full scan where it overflows",
        family="own",
        source="flashinfer topk.cuh, FilteredTopK",
        releases="flashinfer, read at a later commit than fb28d724",
        references=("flashinfer-ai/flashinfer#2604",),
        key_bits=8,
        digits=BYTES,
        k_up_to=2048,
        longer_than="k",
        dtypes=EVERY_DTYPE,
        row_passes=2,
        contract=Contract(nan=FLASHINFER_FILTERED_NAN),
        variants=FLASHINFER_FILTERED,
        unreached="behind flashinfer.ragged; where a commit changes from one to the other is not established",
        evidence=Evidence.READ,
    ),
    Path(
        name="flashinfer.radix",
        summary="several blocks a row, exact 8-bit digits, no candidate buffer",
        family="own",
        source="flashinfer topk.cuh, RadixTopKMultiCTA",
        releases="flashinfer, read at a later commit than fb28d724",
        references=("flashinfer-ai/flashinfer#2604",),
        digits=BYTES,
        longer_than="k",
        dtypes=EVERY_DTYPE,
        contract=Contract(nan=NAN_SIGNED),
        variants=FLASHINFER_RADIX,
        evidence=Evidence.READ,
    ),
)
