"""SGLang's paths. Adding a constant or a release is one line here."""

from __future__ import annotations

from workbench.paths.shared import (
    BYTES,
    NAN_TOP,
    NAN_UNKNOWN,
    STOCK,
    exact_inside_unknown,
    observed_exact,
    trivial,
)
from workbench.paths.spec import Buffer, Contract, Evidence, Path, Ranks

V0_5_23 = observed_exact("sglang==", "0.5.23")

# Widths and lengths at which v2 changes path.
V2_REGISTER_UP_TO = 16384
BF16_SMALL_UP_TO = 16384
V2_K = 2048
CLUSTERS = (8, 16)

_RADIX_REPORTS = ("sgl-project/sglang#36807", "sgl-project/sglang#37625")
_V2_REPORTS = ("sgl-project/sglang#35257", "sgl-project/sglang#37941", "sgl-project/sglang#39648")
_V2_NAN = "NaN counts in the top bin but is never collected: the row comes back short (described, not observed)"


def _legacy(
    name: str,
    source: str,
    releases: str,
    capacity: int,
    *,
    ks: tuple[int, ...] | None = None,
    k_up_to: int | None = None,
    repaired: bool = False,
    evidence: Evidence = Evidence.OBSERVED,
) -> Path:
    """The 8-bit selectors, which differ in the shared memory they ask for and the k they take."""
    return Path(
        name=f"sglang.{name}",
        summary=f"one block a row, 8-bit fp16 bins, then exact bytes over a buffer of {capacity} candidates",
        family="stash",
        source=source,
        releases=releases,
        references=_RADIX_REPORTS,
        key_bits=8,
        buffer=Buffer(capacity),
        digits=BYTES,
        ks=ks,
        k_up_to=k_up_to,
        longer_than="k",
        row_passes=2,
        contract=Contract(nan=NAN_TOP),
        variants=(STOCK, V0_5_23) if repaired else (STOCK,),
        evidence=evidence,
    )


def _cluster(ranks: int) -> Path:
    return Path(
        name=f"sglang.v2_cluster_{ranks}",
        summary=f"a cluster of {ranks} blocks a row, 10-bit fp16 bins, a tie buffer of 2048 candidates",
        family="register",
        source="deepseek_v4/topk_v2.cuh, cluster kernel",
        releases="sglang 0.5.21 and 0.5.23",
        references=_V2_REPORTS,
        key_bits=10,
        buffer=Buffer(2048, ranks=Ranks(ranks, 2048, "interleaved", 512, in_order=False)),
        digits=BYTES,
        k_up_to=V2_K,
        longer_than="k",
        ranked_ties=128,
        contract=Contract(nan=_V2_NAN),
        variants=(STOCK,),
    )


def _v2(name: str, summary: str, longer_than: int | None) -> Path:
    return Path(
        name=f"sglang.{name}",
        summary=f"{summary}, 12-bit fp16 bins, a tie buffer of 2048 candidates",
        family="register",
        source="deepseek_v4/topk_impl.cuh",
        releases="sglang 0.5.21; exact in 0.5.23",
        references=_V2_REPORTS,
        key_bits=12,
        buffer=Buffer(2048),
        digits=BYTES,
        k_up_to=V2_K,
        longer_than=longer_than if longer_than is not None else "k",
        up_to=None if longer_than is not None else V2_REGISTER_UP_TO,
        row_passes=1 if longer_than is None else 2,
        ranked_ties=128,
        contract=Contract(nan=_V2_NAN),
        variants=(STOCK, V0_5_23),
    )


PATHS: tuple[Path, ...] = (
    trivial("sglang", "topk.cu, length <= k", V0_5_23),
    _legacy("fast_topk", "sgl-kernel topk.cu, fast_topk", "sglang-kernel 0.4.2 to 0.4.6", 4096, ks=(2048,)),
    _legacy(
        "v4_aot",
        "sgl-kernel deepseek_v4_topk.cu",
        "described, no release was run",
        6144,
        k_up_to=1024,
        evidence=Evidence.READ,
    ),
    _legacy(
        "v1", "deepseek_v4/topk_v1.cuh", "sglang 0.5.18 and 0.5.21; exact in 0.5.23", 8192, k_up_to=1024, repaired=True
    ),
    _legacy(
        "kpool",
        "dsa/kpool_topk_transform.cuh",
        "sglang 0.5.21; exact in 0.5.23; scores and k count groups",
        4096,
        ks=(256, 512),
        repaired=True,
    ),
    _legacy(
        "qsa",
        "elementwise/fast_topk.cuh",
        "described, no release was run",
        4096,
        ks=(512, 2048),
        evidence=Evidence.READ,
    ),
    _v2("v2_register", "one block, row in registers", None),
    _v2("v2_streaming", "one block, row streamed", V2_REGISTER_UP_TO),
    *(_cluster(ranks) for ranks in CLUSTERS),
    Path(
        name="sglang.bf16_small",
        summary="bfloat16 scores in registers, two exact bytes",
        family="opaque",
        source="deepseek_v4/topk_bf16_small.cuh",
        releases="sglang 0.5.21 and 0.5.23",
        references=("sgl-project/sglang#39648",),
        k_up_to=2048,
        longer_than="k",
        up_to=BF16_SMALL_UP_TO,
        dtypes=("bfloat16",),
        contract=Contract(nan="not supported: the row can come back short (described, not observed)"),
        variants=(exact_inside_unknown("lost no winner on any observed row"),),
    ),
    Path(
        name="sglang.deep_select",
        summary="a streaming threshold that cannot overflow",
        family="opaque",
        source="DeepSelect as vendored by SGLang 0.5.23",
        releases="sglang 0.5.23",
        k_up_to=4096,
        longer_than="k",
        dtypes=("float32", "bfloat16"),
        contract=Contract(nan=NAN_UNKNOWN),
        variants=(
            exact_inside_unknown(
                "lost no winner on any record; rows with fewer than k finite scores can get indices past the length"
            ),
        ),
    ),
)
