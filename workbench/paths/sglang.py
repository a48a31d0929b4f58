"""SGLang's paths. Adding a constant or a release is one line here."""

from __future__ import annotations

from dataclasses import replace

from workbench.paths.own_variants import BF16_SMALL, COOP, DEEP_SELECT, ROCM_COOP
from workbench.paths.sglang_variants import (
    BUILD_6144,
    BUILD_16384,
    CUTOFF_FIRST,
    FILTERED_RESCAN,
    RESUME_INDEX,
    UNIQUE_KEY,
    V2_0_5_23,
    V2_CLAMPED_TIE_COUNT,
    V2_CLUSTER_0_5_23,
    V2_EXACT_FALLBACK,
    V2_FAULTS,
    V2_RUN,
    V2_STOCK,
    V2_TIES,
    contiguous_ranks,
    tie_cap_1024,
)
from workbench.paths.shared import (
    BYTES,
    NAN_SIGNED,
    NAN_TOP,
    STOCK,
    observed_exact,
    trivial,
)
from workbench.paths.spec import Buffer, Contract, Determinism, Evidence, Path, Ranks, Variant, Walk

V0_5_23 = observed_exact("sglang==", "0.5.23")
V1_0_5_23 = replace(
    CUTOFF_FIRST,
    name=V0_5_23.name,
    evidence=Evidence.OBSERVED,
    note=f"as in 0.5.23: {CUTOFF_FIRST.note}",
    order_free=True,
)
KPOOL_0_5_23 = replace(
    UNIQUE_KEY,
    name=V0_5_23.name,
    evidence=Evidence.OBSERVED,
    note=f"as in 0.5.23: {UNIQUE_KEY.note}",
    model="kpool_0.5.23",
    order_free=True,
)

# Widths and lengths at which v2 changes path.
V2_REGISTER_UP_TO = 16384
BF16_SMALL_UP_TO = 16384
V2_K = 2048
DEEP_SELECT_UP_TO = (1 << 23) - 1
KPOOL_KS = (128, 160, 192, 224, 256, 512)
QSA_KS = (512, 2048)
COOP_FLOOR = 32768  # width, as reported
ROCM_TIES = 4096
CLUSTERS = (8, 16)
SLICED_CLUSTER = 8  # the older text, which gives each block a slice of the row, knows this width alone

_RADIX_REPORTS = ("sgl-project/sglang#36807", "sgl-project/sglang#37625")
_V2_REPORTS = ("sgl-project/sglang#35257", "sgl-project/sglang#37941", "sgl-project/sglang#39648")
_V2_NAN = "NaN counts in the top bin but is never collected; slots are filled up with their own positions"


def _legacy(
    name: str,
    source: str,
    releases: str,
    capacity: int,
    *,
    ks: tuple[int, ...] | None = None,
    k_up_to: int | None = None,
    variants: tuple[Variant, ...] = (),
    evidence: Evidence = Evidence.OBSERVED,
    walk: Walk | None = None,
) -> Path:
    """The 8-bit selectors, which differ in the shared memory they ask for and the k they take."""
    stock = STOCK if evidence is Evidence.OBSERVED else replace(STOCK, evidence=evidence)
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
        walk=walk,
        contract=Contract(nan=NAN_TOP),
        variants=(stock, CUTOFF_FIRST, *variants),
        evidence=evidence,
    )


def _cluster(count: int) -> Path:
    ranks = Ranks(count, V2_TIES, "interleaved", V2_RUN, in_order=False)
    sliced = (contiguous_ranks(count),) if count == SLICED_CLUSTER else ()
    return Path(
        name=f"sglang.v2_cluster_{count}",
        summary=f"a cluster of {count} blocks a row, 10-bit fp16 bins, a tie buffer of {V2_TIES} candidates",
        family="register",
        source="deepseek_v4/topk_v2.cuh, cluster kernel",
        releases="sglang 0.5.21 and 0.5.23",
        references=_V2_REPORTS,
        key_bits=10,
        buffer=Buffer(V2_TIES, ranks=ranks),
        digits=BYTES,
        k_up_to=V2_K,
        longer_than="k",
        row_passes=2,
        ranked_ties=128,
        contract=Contract(nan=_V2_NAN),
        variants=(
            V2_STOCK,
            V2_CLUSTER_0_5_23,
            V2_EXACT_FALLBACK,
            V2_CLAMPED_TIE_COUNT,
            tie_cap_1024(ranks),
            *sliced,
            *V2_FAULTS,
        ),
    )


def _v2(name: str, summary: str, longer_than: int | None) -> Path:
    return Path(
        name=f"sglang.{name}",
        summary=f"{summary}, 12-bit fp16 bins, a tie buffer of {V2_TIES} candidates",
        family="register",
        source="deepseek_v4/topk_impl.cuh",
        releases="sglang 0.5.21; exact in 0.5.23",
        references=_V2_REPORTS,
        key_bits=12,
        buffer=Buffer(V2_TIES),
        digits=BYTES,
        k_up_to=V2_K,
        longer_than=longer_than if longer_than is not None else "k",
        up_to=None if longer_than is not None else V2_REGISTER_UP_TO,
        row_passes=1 if longer_than is None else 2,
        ranked_ties=128,
        contract=Contract(nan=_V2_NAN),
        variants=(V2_STOCK, V2_0_5_23, V2_EXACT_FALLBACK, tie_cap_1024(), *V2_FAULTS),
    )


PATHS: tuple[Path, ...] = (
    trivial("sglang", "topk.cu, length <= k", V0_5_23),
    _legacy(
        "fast_topk",
        "sgl-kernel topk.cu, fast_topk",
        "sglang-kernel 0.4.2 to 0.4.6",
        4096,
        ks=(2048,),
        variants=(RESUME_INDEX, BUILD_16384, BUILD_6144),
    ),
    _legacy(
        "v4_aot",
        "sgl-kernel deepseek_v4_topk.cu",
        "ROCm builds of sglang-kernel; no release was run",
        6144,
        k_up_to=1024,
        evidence=Evidence.READ,
        walk=Walk(load=1, threads=512),
    ),
    _legacy(
        "v1",
        "deepseek_v4/topk_v1.cuh",
        "sglang 0.5.18 and 0.5.21; exact in 0.5.23",
        8192,
        k_up_to=1024,
        variants=(V1_0_5_23,),
    ),
    _legacy(
        "kpool",
        "dsa/kpool_topk_transform.cuh",
        "sglang 0.5.21; exact in 0.5.23; scores and k count groups",
        4096,
        ks=KPOOL_KS,
        variants=(RESUME_INDEX, UNIQUE_KEY, KPOOL_0_5_23),
    ),
    _legacy(
        "qsa",
        "elementwise/fast_topk.cuh",
        "sglang 0.5.21 and 0.5.23, read; no release was run",
        4096,
        ks=QSA_KS,
        variants=(FILTERED_RESCAN,),
        evidence=Evidence.READ,
    ),
    _v2("v2_register", "one block, row in registers", None),
    _v2("v2_streaming", "one block, row streamed", V2_REGISTER_UP_TO),
    *(_cluster(ranks) for ranks in CLUSTERS),
    Path(
        name="sglang.bf16_small",
        summary="bfloat16 scores in registers, two exact bytes",
        family="own",
        source="deepseek_v4/topk_bf16_small.cuh",
        releases="sglang 0.5.21 and 0.5.23",
        references=("sgl-project/sglang#39648",),
        digits=(8, 8),
        k_up_to=2048,
        longer_than="k",
        up_to=BF16_SMALL_UP_TO,
        dtypes=("bfloat16",),
        contract=Contract(
            nan="counted by its bits and never taken: it leaves slots at -1, or lies below -inf if its sign is set"
        ),
        variants=BF16_SMALL,
    ),
    Path(
        name="sglang.deep_select",
        summary="a streaming threshold that cannot overflow",
        family="own",
        source="DeepSelect as vendored by SGLang 0.5.23",
        releases="sglang 0.5.23; 0.5.21, read",
        k_up_to=4096,
        longer_than="k",
        up_to=DEEP_SELECT_UP_TO,
        dtypes=("float32", "bfloat16"),
        contract=Contract(
            Determinism.RUN_TO_RUN,
            nan="checked for: the kernel traps, or marks the first slot with 0x3F3F3F3F (described, not observed)",
        ),
        variants=(DEEP_SELECT,),
    ),
    Path(
        name="sglang.coop",
        summary="a whole device on one row: exact digits of 12, 10 and 10 bits, a tie buffer of 2048 candidates",
        family="own",
        source="deepseek_v4/topk_coop.cuh",
        releases="proposed, compute capability 10.0, one row above a floor; no release was run",
        references=("sgl-project/sglang#37970",),
        digits=BYTES,
        k_up_to=V2_K,
        longer_than=COOP_FLOOR,
        ranked_ties=128,
        contract=Contract(nan="counts as -inf (described, not observed)"),
        unreached="proposed for compute capability 10.0; no known release has it",
        variants=(replace(COOP, buffer=Buffer(V2_TIES)),),
        evidence=Evidence.READ,
    ),
    Path(
        name="sglang.rocm_coop",
        summary="several blocks a row: exact prefixes of 12 and 16 bits, a tie buffer of 4096 candidates",
        family="own",
        source="hip/dsa_topk_coop.cuh and dsa/hip_cooperative_topk.cuh",
        releases="ROCm builds; no release was run",
        references=("sgl-project/sglang#37591", "sgl-project/sglang#39673"),
        digits=BYTES,
        k_up_to=4096,
        longer_than="k",
        contract=Contract(nan=NAN_SIGNED),
        unreached="ROCm builds only; which releases have it is not established",
        variants=(replace(ROCM_COOP, buffer=Buffer(ROCM_TIES)),),
        evidence=Evidence.READ,
    ),
)
