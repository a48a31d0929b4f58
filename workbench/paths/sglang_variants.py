"""Variants of SGLang's paths: other builds, repairs, and faults of older texts. None was run as a release.

A fault stands alone: the variant differs from ``stock`` in that one thing, whatever else its text had.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.paths.shared import STOCK
from workbench.paths.spec import Buffer, Evidence, Ranks, Variant

V2_TIES = 2048
V2_TIES_OLD = 1024
V2_RUN = 512  # scores that a rank of a cluster takes in turn: 128 vectors of 4

_OVERFLOW = ("sgl-project/sglang#36807", "sgl-project/sglang#37625")


def _build(capacity: int, what: str) -> Variant:
    note = f"{what}: the stock algorithm with a buffer of {capacity} candidates"
    return Variant(f"build_{capacity}", False, True, Evidence.READ, note, buffer=Buffer(capacity))


BUILD_16384 = _build(16384, "older builds, 128 KB of shared memory")
BUILD_6144 = _build(6144, "ROCm builds, 48 KB of shared memory")

CUTOFF_FIRST = Variant(
    "cutoff_first",
    True,
    True,
    Evidence.READ,
    "from a full buffer on, finds the cut-off key by four counting passes and writes winners last",
    model="cutoff_first",
    references=("sgl-project/sglang#37625",),
)
RESUME_INDEX = Variant(
    "resume_index",
    True,
    True,
    Evidence.READ,
    "counts what the buffer cannot hold, and each round reads the row on from the first score that did not fit",
    model="resume_index",
    references=("sgl-project/sglang#37893",),
)
UNIQUE_KEY = Variant(
    "unique_key",
    True,
    True,
    Evidence.READ,
    "where the bin overflows, cuts by value and index: equal scores to the smaller index there, first come elsewhere",
    model="unique_key",
    references=("sgl-project/sglang#37625",),
)
FILTERED_RESCAN = Variant(
    "filtered_rescan",
    True,
    True,
    Evidence.READ,
    "where the buffer overflowed, every round reads the row, filtered by bin and prefix",
    model="filtered_rescan",
    references=("sgl-project/sglang#38144",),
)

V2_STOCK = replace(STOCK, model="v2")
V2_EXACT_FALLBACK = Variant(
    "exact_fallback",
    False,
    True,
    Evidence.READ,
    "selects more ties than the buffer holds from the row; loses only where -0.0 passes as a higher score",
    model="v2_exact_fallback",
    references=("sgl-project/sglang#37625", "sgl-project/sglang#35257"),
)
V2_CLAMPED_TIE_COUNT = replace(
    V2_EXACT_FALLBACK,
    name="clamped_tie_count",
    note="exact_fallback on counts clamped by each rank: an overflow in one rank but the first goes unseen",
    model="v2_clamped_tie_count",
)
V2_OLD_LOWER_BOUND = Variant(
    "old_lower_bound",
    False,
    True,
    Evidence.READ,
    "thresholds at plain midpoints: a score on a negative boundary that rounds down passes as one bin higher",
    model="v2_old_lower_bound",
    references=("sgl-project/sglang#38640",),
)
V2_FLT_MAX_PADDING = Variant(
    "flt_max_padding",
    False,
    True,
    Evidence.READ,
    "idle lanes, and the cells after a row in registers, hold -FLT_MAX and outrank -inf",
    model="v2_flt_max_padding",
    references=("sgl-project/sglang#38829",),
)


V2_0_5_23 = Variant(
    "v0.5.23",
    True,
    True,
    Evidence.OBSERVED,
    "as in 0.5.23: zeros of both signs are ties, and more ties than fit are narrowed by up to three 12-bit digits",
    model="v2_0.5.23",
)
V2_CLUSTER_0_5_23 = replace(
    V2_0_5_23,
    lossless=False,
    note="as in 0.5.23: zeros of both signs are ties; what does not fit the buffer is dropped as before",
    model="v2_cluster_0.5.23",
)


def tie_cap_1024(ranks: Ranks | None = None) -> Variant:
    """The tie buffer of half the size, which leaves slots unwritten; with a cluster's ranks, of each rank too."""
    small = replace(ranks, capacity=V2_TIES_OLD) if ranks else None
    return Variant(
        "tie_cap_1024",
        False,
        True,
        Evidence.READ,
        "a tie buffer of 1024: where more ties are needed, slots stay unwritten",
        model="v2",
        buffer=Buffer(V2_TIES_OLD, whole_bin=True, ranks=small, leaves_unwritten=True),
        references=("sgl-project/sglang#30512", "sgl-project/sglang#30645"),
    )


def contiguous_ranks(count: int) -> Variant:
    """The ranks of a cluster as slices of the row."""
    return Variant(
        "contiguous_ranks",
        False,
        True,
        Evidence.READ,
        "each block of the cluster reads one slice of the row, not runs in turn",
        model="v2",
        buffer=Buffer(V2_TIES, ranks=Ranks(count, V2_TIES, "contiguous", 128, in_order=False)),
    )


V2_FAULTS = (V2_OLD_LOWER_BOUND, V2_FLT_MAX_PADDING)
