"""Variants of the paths whose models are their own, and the faults that were reported of them."""

from __future__ import annotations

from dataclasses import replace

from workbench.paths.shared import NAN_SIGNED, NAN_TOP
from workbench.paths.spec import Buffer, Contract, Determinism, Evidence, Variant

SORTED = Buffer(2048)  # candidates that per_row sorts in the end
SURVIVORS = Buffer(8192)
FLASHINFER = Buffer(16384)


def _exact(note: str, model: str, evidence: Evidence = Evidence.OBSERVED, buffer: Buffer | None = None) -> Variant:
    return Variant("stock", True, True, evidence, f"as released: {note}", model=model, buffer=buffer, order_free=True)


def _fault(name: str, note: str, model: str, *references: str) -> Variant:
    """A reported fault that only other rows or the call bring about: told, never run."""
    return Variant(name, False, False, Evidence.REPORTED, note, model=model, references=references)


# vllm.radix
RING_REUSE = _fault(
    "ring_reuse",
    "depends on the rows before: a row of this path after shorter ones can choose its first digit on a histogram that "
    "was not cleared",
    "ring_reuse",
    "vllm-project/vllm#49139",
)
NEGATIVE_LENGTH = _fault(
    "negative_length",
    "a length of -1 is read as 4294967295: hangs where max_seq_len is at most 32768 and a row takes several blocks",
    "negative_length",
    "vllm-project/vllm#51593",
)

# vllm.per_row. Decode calls choose by the padded width how the last candidates are sorted.
RADIX_FROM, SPLIT_FROM = 12288, 200000
_PER_ROW = Variant(
    "stock",
    False,
    True,
    Evidence.OBSERVED,
    "as released: at most 2048 candidates are sorted in the end, by comparing below 12288 padded columns, by radix "
    "below 200000, else in ten slices: padding of -FLT_MAX then outranks -inf",
    model="per_row",
    buffer=SORTED,
    references=("vllm-project/vllm#49896",),
)
PER_ROW = (
    _PER_ROW,
    replace(
        _PER_ROW,
        name="decode_radix",
        note="as for 12288 to 199999 padded columns: the last candidates are sorted by radix among padding of -FLT_MAX",
        model="per_row_radix",
    ),
    replace(
        _PER_ROW,
        name="decode_split",
        note="as for 200000 padded columns and more: ten slices give k each, one block selects from those",
        model="per_row_split",
    ),
    replace(
        _PER_ROW,
        name="prefill",
        lossless=True,
        note="the first 12288 rows of a prefill call: the last candidates are always sorted by comparing",
        model="per_row_prefill",
    ),
    replace(
        _PER_ROW,
        name="prefill_radix",
        evidence=Evidence.READ,
        note="rows of a prefill call from number 12288 on: the last candidates are always sorted by radix",
        model="per_row_prefill_radix",
    ),
)

SAMPLED = replace(
    _exact("counts past its capacity, then passes over the row exactly", "sampled", buffer=SURVIVORS), order_free=False
)

# sglang.bf16_small
BF16_SMALL = (
    _exact("two exact bytes of bfloat16, no candidate buffer, nothing is dropped", "bf16_exact"),
    Variant(
        "approximate_13_bit",
        False,
        True,
        Evidence.READ,
        "a placeholder before it: 13-bit fp16 bins without a closer look, exact only in fp16's normal range",
        model="bf16_approximate",
    ),
)

COOP = replace(
    _exact("exact digits until at most 2048 scores share the prefix", "coop", Evidence.READ), order_free=False
)
ROCM_COOP = _exact("exact prefixes, a rescan under the prefix where ties overflow", "rocm_coop", Evidence.READ)
DEEP_SELECT = replace(
    _exact(
        "a running threshold over blocks; rows with fewer than k finite scores can get indices past the length",
        "deep_select",
    ),
    order_free=False,
)

# Other projects.
TORCH_TOPK = _exact("exact; which of equal scores are taken is not promised", "torch_topk", Evidence.READ)
UNGUARDED = Variant(
    "stock",
    False,
    True,
    Evidence.READ,
    "as published: nothing checks the buffer, past it other memory is written",
    model="unguarded",
)


def _flashinfer(note: str, model: str, nan: str, buffer: Buffer | None = None) -> tuple[Variant, Variant]:
    """``stock`` and its deterministic mode, with ties to the smaller index.

    That promise is of equal bits: it ranks -0.0 below +0.0, so that the contract cannot name it for equal values.
    """
    stock = _exact(note, model, Evidence.READ, buffer)
    return stock, replace(
        stock,
        name="deterministic",
        note="deterministic mode with tie_break small: equal bits to the smaller index, -0.0 below +0.0",
        model=f"{model}_by_index",
        contract=Contract(Determinism.RUN_TO_RUN, nan=nan),
        references=("flashinfer-ai/flashinfer#2584",),
    )


FLASHINFER_FILTERED_NAN = f"float32: {NAN_TOP}; 16-bit: {NAN_SIGNED}"
FLASHINFER_RADIX = _flashinfer("exact bytes, no candidate buffer, nothing is dropped", "flashinfer_radix", NAN_SIGNED)
FLASHINFER_FILTERED = _flashinfer(
    "a flag tells where the buffer overflows, and the row is scanned in full",
    "flashinfer_filtered",
    FLASHINFER_FILTERED_NAN,
    FLASHINFER,
)
