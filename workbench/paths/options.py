"""What an engine can be told, so that rows reach other ops: its options as users spell them, and ops that do alike.

The spellings are read in the packages, not observed; what each of them leads to, routing says.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.paths.conditions import Setup
from workbench.paths.route_sglang_engine import BACKENDS as SGLANG_BACKENDS
from workbench.paths.route_vllm_engine import AITER_SINCE, BACKEND_SINCE, BACKENDS


@dataclass(frozen=True)
class Option:
    """One thing that an engine can be told.

    Attributes:
        engine: the op that stands for the engine's own choice. spelled: as the engine takes it.
        setup: what routing makes of it. since: the first release that takes it; empty for all known ones.
        note: what else a reader must know.
    """

    engine: str
    spelled: str
    setup: Setup
    since: tuple[int, ...] = ()
    note: str = ""


VLLM, SGLANG = "vllm.sparse_indexer_topk", "sglang.dsa_topk_transform"
VLLM_FLAG = "--sparse-indexer-topk-backend"
_DSA = "where SGLang's sparse attention (DSA) makes the call"
_UNFUSED_INF = f"{_DSA}; winners of -inf come back as -1 there"
_FLASHINFER, _TORCH = SGLANG_BACKENDS[1:]

OPTIONS: tuple[Option, ...] = (
    *(
        Option(
            VLLM,
            f"{VLLM_FLAG} {name}",
            Setup(backend=name),
            AITER_SINCE if name == "aiter" else BACKEND_SINCE,
            "decode only: prefill always calls vllm.top_k_per_row_prefill"
            + ("; a reference for debugging" if name == "torch" else ""),
        )
        for name in (*BACKENDS, "aiter")
    ),
    Option(SGLANG, "SGLANG_OPT_USE_TOPK_V2=1", Setup(), note=f"{_DSA}, by its default backend, sgl-kernel"),
    Option(SGLANG, "SGLANG_OPT_USE_TOPK_V2=0", Setup(topk_v2=False), note=_DSA),
    Option(SGLANG, "SGLANG_DSA_FUSE_TOPK=0", Setup(fused=False), note=_DSA),
    Option(SGLANG, f"--dsa-topk-backend {_FLASHINFER}", Setup(backend=_FLASHINFER), note=_DSA),
    Option(
        SGLANG,
        f"--dsa-topk-backend {_TORCH} with SGLANG_DSA_FUSE_TOPK=0",
        Setup(backend=_TORCH, fused=False),
        note=_UNFUSED_INF,
    ),
)

# Which ops an engine's own choice can have led to, and how their scores lie there where that is certain.
LED_TO: dict[str, dict[str, str | None]] = {
    VLLM: dict.fromkeys(
        (
            VLLM,
            "vllm.persistent_topk",
            "vllm.cooperative_topk",
            "vllm.top_k_per_row_decode",
            "vllm.deep_select",
        )
    ),
    SGLANG: {
        SGLANG: None,
        "sglang.fast_topk_v2": None,
        "sglang.fast_topk_transform_fused": None,
        "sglang.fast_topk_transform_ragged_fused": "ragged",
        "sglang.topk_transform_paged_v2": "paged",
        "sglang.topk_transform_ragged_v2": "ragged",
    },
}

# Ops that select from the same scores and return the same kind of indices: a caller could call one for another.
ALIKE: tuple[tuple[str, ...], ...] = (
    ("vllm.persistent_topk", "vllm.cooperative_topk", "vllm.top_k_per_row_decode", "vllm.deep_select"),
    ("sglang.fast_topk_v2", "sglang.deep_select"),
    ("sglang.fast_topk_transform_fused", "sglang.topk_transform_paged", "sglang.topk_transform_paged_v2"),
    ("sglang.fast_topk_transform_ragged_fused", "sglang.topk_transform_ragged_v2"),
    ("sglang.kpool_topk_transform", "sglang.topk_transform_kpool_v2", "sglang.topk_transform_kpool_ragged_v2"),
)


def options_of(op: str) -> tuple[Option, ...]:
    """The options of the engine whose choice can have led to an op."""
    return tuple(one for one in OPTIONS if op in LED_TO[one.engine])


def alike(op: str) -> tuple[str, ...]:
    """The ops that could be called for an op."""
    return tuple(other for group in ALIKE if op in group for other in group if other != op)
