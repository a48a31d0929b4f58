"""Repairs of vLLM's buffered paths: merged, proposed or forked, none seen in a release that was run.

What the descriptions leave open is marked DERIVED beside the model of each.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.paths.shared import NAN_SIGNED, NAN_TOP
from workbench.paths.spec import Buffer, Contract, Determinism, Evidence, Ranks, TieBreak, Variant

# Rows that #55122 sends to its one selector; as many keys as 99 KiB hold beside 13 KiB of other state (DERIVED).
DETERMINISTIC_UP_TO = 22016
# Keys beside the header in the least shared memory that a launch asks for, that of at most 4 rows. DERIVED: the model
# of one row does not know how many the call has; more rows mean more room.
KEYS_ON_CHIP = (35968 - 2080) // 4
CLUSTER_TIES = 2048

_RECOVERY = ("vllm-project/vllm#52149", "vllm-project/vllm#53287", "vllm-project/vllm#55314")

DETECT_RESCAN = Variant(
    "detect_rescan",
    True,
    True,
    Evidence.READ,
    "counts the threshold bin first; where it overflows, selects from the row by four 8-bit passes",
    model="detect_rescan",
    references=("vllm-project/vllm#52149",),
)
COLLECT_RESCAN = replace(
    DETECT_RESCAN,
    note="fills the buffer first; where its counter overflowed, selects from the row by four 8-bit passes",
    model="collect_then_rescan",
)

WIDE_RESCAN = Variant(
    "wide_rescan",
    True,
    True,
    Evidence.READ,
    "bins of the exact key's top 11 bits; where one overflows, two more passes of 11 and 10 bits, the last of "
    "which stages what is left",
    model="wide_rescan",
    references=_RECOVERY,
)
WIDE_RESCAN_SAMPLED = replace(
    WIDE_RESCAN,
    name="wide_rescan_sampled",
    note="wide_rescan in calls of at least 96 rows, where rows from 196608 first try a pivot from 2048 sampled scores",
    model="wide_rescan_sampled",
)

REGISTER_RECOVERY = Variant(
    "recovery",
    True,
    True,
    Evidence.READ,
    "more ties than k are cut by two 11-bit digits within the bin, in registers; else the row is rescanned",
    model="register_recovery",
    references=_RECOVERY,
)


def cluster_recovery(ranks: Ranks) -> Variant:
    """The repair of a cluster: 2048 ties for every k, each rank has room for all of them (DERIVED)."""
    return Variant(
        "recovery",
        True,
        True,
        Evidence.READ,
        "2048 ties for every k; more are probed and cut by digits before anything is written",
        model="cluster_recovery",
        buffer=Buffer(CLUSTER_TIES, ranks=replace(ranks, capacity=CLUSTER_TIES)),
        references=_RECOVERY,
    )


def _in_index_order(nan: str) -> Contract:
    """What the deterministic variants promise. DERIVED: NaN as the keys they compare have it."""
    return Contract(Determinism.GPU_TO_GPU, TieBreak.PREFER_SMALLER_INDEX, nan=nan)


DETERMINISTIC = Variant(
    "deterministic",
    True,
    True,
    Evidence.REPORTED,
    f"one exact radix selection for all rows up to {DETERMINISTIC_UP_TO}; winners in index order",
    model="ordered_radix",
    buffer=Buffer(KEYS_ON_CHIP),
    contract=_in_index_order(NAN_SIGNED),
    up_to=DETERMINISTIC_UP_TO,
    references=("vllm-project/vllm#55122",),
    order_free=True,
)
DETERMINISTIC_SHORT = replace(DETERMINISTIC, up_to=None)  # the path's own bound is lower
DETERMINISTIC_FILTERED = replace(DETERMINISTIC, buffer=Buffer(DETERMINISTIC_UP_TO))  # the launch asks for 128 KiB

DETERMINISTIC_REGISTER = Variant(
    "deterministic",
    True,
    True,
    Evidence.READ,
    "a fork: exact keys refined in registers, then one sweep in index order; winners in index order",
    model="ordered_register",
    contract=_in_index_order(NAN_TOP),
    references=("vllm-project/vllm#50576",),
    order_free=True,
)
