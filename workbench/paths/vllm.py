"""vLLM's paths. Adding a constant or a release is one line here."""

from __future__ import annotations

from workbench.paths.own_variants import NEGATIVE_LENGTH, PER_ROW, RING_REUSE, SAMPLED
from workbench.paths.shared import (
    BYTES,
    NAN_SIGNED,
    NAN_TOP,
    NAN_UNKNOWN,
    STOCK,
    STOCK_EXACT,
    observed_exact,
    trivial,
)
from workbench.paths.spec import Buffer, Contract, Path, Ranks, Walk
from workbench.paths.vllm_repairs import (
    COLLECT_RESCAN,
    DETECT_RESCAN,
    DETERMINISTIC,
    DETERMINISTIC_FILTERED,
    DETERMINISTIC_REGISTER,
    DETERMINISTIC_SHORT,
    REGISTER_RECOVERY,
    WIDE_RESCAN,
    WIDE_RESCAN_SAMPLED,
    cluster_recovery,
)

KS = (512, 1024, 2048)

# Row lengths at which the kernels change path.
HISTOGRAM_2048_UP_TO = 8192
HISTOGRAM_256_UP_TO = 32768
HISTOGRAM_4096_UP_TO = 32768
COOPERATIVE_SHORT_UP_TO = 16384

V0_33_0 = observed_exact("vllm==", "0.33.0")
CLUSTERS = (2, 4, 8, 16)

_REPORTS = ("vllm-project/vllm#51782", "vllm-project/vllm#52149", "vllm-project/vllm#55314")


def _cooperative(count: int) -> Path:
    ranks = Ranks(count, 1024, "contiguous", 4, in_order=True)
    return Path(
        name=f"vllm.cooperative_{count}",
        summary=f"a cluster of {count} blocks a row, 10-bit fp16 bins, 1024 ties a block, then exact bytes",
        family="register",
        source="cooperative_topk.cuh",
        releases="vllm 0.24.0 to 0.32.0",
        references=("vllm-project/vllm#43008", "vllm-project/vllm#53382"),
        key_bits=10,
        buffer=Buffer("max(k, 1024)", whole_bin=True, ranks=ranks, leaves_unwritten=True),
        digits=BYTES,
        ks=KS,
        longer_than=COOPERATIVE_SHORT_UP_TO,
        walk=Walk(load=1),  # of what the copy engine brought into shared memory; by fours contradicts the observations
        contract=Contract(nan=NAN_TOP),
        variants=(STOCK, cluster_recovery(ranks), V0_33_0),
    )


PATHS: tuple[Path, ...] = (
    trivial("vllm", "persistent_topk.cuh, length <= k", V0_33_0),
    Path(
        name="vllm.histogram_2048",
        summary="one block, 11-bit fp16 bins, then exact bytes over a buffer of 3708 candidates",
        family="stash",
        source="persistent_topk.cuh, histogram_2048_topk",
        releases="vllm 0.20.2 to 0.32.0, at most 32 rows",
        references=_REPORTS,
        key_bits=11,
        buffer=Buffer(3708, whole_bin=True),
        digits=BYTES,
        ks=KS,
        longer_than="k",
        up_to=HISTOGRAM_2048_UP_TO,
        arrival_unit="warp",
        walk=Walk(),
        contract=Contract(nan=NAN_TOP),
        variants=(STOCK, DETECT_RESCAN, DETERMINISTIC_SHORT, V0_33_0),
    ),
    Path(
        name="vllm.histogram_256",
        summary="one block, 8-bit fp16 bins, then exact bytes over a buffer of 4096 candidates",
        family="stash",
        source="persistent_topk.cuh, histogram_256_topk",
        releases="vllm 0.20.2 to 0.32.0, at most 32 rows",
        references=_REPORTS,
        key_bits=8,
        buffer=Buffer(4096),
        digits=BYTES,
        ks=KS,
        longer_than=HISTOGRAM_2048_UP_TO,
        up_to=HISTOGRAM_256_UP_TO,
        row_passes=2,
        contract=Contract(nan=NAN_TOP),
        variants=(STOCK, DETECT_RESCAN, WIDE_RESCAN, DETERMINISTIC, V0_33_0),
    ),
    Path(
        name="vllm.histogram_4096",
        summary="one block, row in registers, 12-bit fp16 bins, a tie buffer of k candidates",
        family="register",
        source="topk_histogram_4096.cuh, histogram_4096_topk",
        releases="vllm 0.24.0 to 0.32.0, more than 32 rows, and cooperative_topk up to 16384",
        references=_REPORTS,
        key_bits=12,
        buffer=Buffer("k"),
        digits=BYTES,
        ks=KS,
        longer_than="k",
        up_to=HISTOGRAM_4096_UP_TO,
        ranked_ties=32,
        contract=Contract(nan=NAN_TOP),
        variants=(STOCK, REGISTER_RECOVERY, DETERMINISTIC_REGISTER, V0_33_0),
    ),
    Path(
        name="vllm.filtered",
        summary="one block a row, 8-bit fp16 bins, then exact bytes over a buffer of 16384 candidates",
        family="stash",
        source="persistent_topk.cuh, FilteredTopK",
        releases="vllm 0.20.2 to 0.23.0 at every length above k, 0.24.0 to 0.32.0 above 32768; more than 32 rows",
        references=_REPORTS,
        key_bits=8,
        buffer=Buffer(16384),
        digits=BYTES,
        ks=KS,
        longer_than="k",
        row_passes=2,
        walk=Walk(),  # by four where the stride allows it, as nearly every one does
        contract=Contract(nan=NAN_TOP),
        variants=(STOCK, COLLECT_RESCAN, WIDE_RESCAN, WIDE_RESCAN_SAMPLED, DETERMINISTIC_FILTERED, V0_33_0),
    ),
    *(_cooperative(count) for count in CLUSTERS),
    Path(
        name="vllm.radix",
        summary="several blocks a row, exact 8-bit digits, no candidate buffer",
        family="radix",
        source="persistent_topk.cuh, radix_topk",
        releases="vllm from 0.20.2, at most 32 rows",
        references=("vllm-project/vllm#49139", "vllm-project/vllm#51593"),
        digits=BYTES,
        ks=KS,
        longer_than=HISTOGRAM_256_UP_TO,
        contract=Contract(nan=NAN_SIGNED),
        variants=(STOCK_EXACT, RING_REUSE, NEGATIVE_LENGTH, V0_33_0),
    ),
    Path(
        name="vllm.sampled",
        summary="a cut-off from 4096 sampled scores, at most 8192 survivors, otherwise an exact pass over the row",
        family="own",
        source="sampled_topk.cuh",
        releases="vllm 0.31.0 and 0.32.0, more than 64 rows and a long max_seq_len",
        references=("vllm-project/vllm#56346",),
        digits=BYTES,
        ks=KS,
        longer_than="k",
        contract=Contract(nan=NAN_UNKNOWN),
        variants=(SAMPLED, V0_33_0),
    ),
    Path(
        name="vllm.per_row",
        summary="11-bit fp16 bins, then exact digits of 11, 11 and 10 bits until at most 2048 candidates are left",
        family="own",
        source="sampler.cu, top_k_per_row_decode",
        releases="vllm, all",
        references=("vllm-project/vllm#49896",),
        key_bits=11,
        digits=(11, 11, 10),
        longer_than="k",
        row_passes=2,
        walk=Walk(threads=512),
        contract=Contract(
            nan="highest in fp16 bins, by its sign in exact digits; where that is sorted in the end, most slots can "
            "hold garbage (vllm-project/vllm#49896)"
        ),
        variants=PER_ROW,
    ),
)
