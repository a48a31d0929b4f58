"""What a serving engine calls, and the engines' own choices above that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.paths import (
    route_flashinfer,
    route_sglang,
    route_sglang_engine,
    route_sglang_v2,
    route_vllm,
    route_vllm_engine,
)
from workbench.paths.conditions import Questions
from workbench.paths.devices import Device
from workbench.paths.releases import OBSERVED, Release, parse_release
from workbench.paths.spec import Evidence

Router = Callable[[Questions, Release, Device], tuple[str, str]]


@dataclass(frozen=True)
class Op:
    """What a serving engine calls.

    Attributes:
        name: as in ``vllm.persistent_topk``. package: the package that ships it. source: its upstream name.
        reaches: every path that it takes on some release and device.
        router: picks path and variant.
        transforms: what it can return, by the names of ``workbench.paths.transforms.MODES``.
        evidence: what the routing rests on.
        since: the first known release that has it; empty for all of them.
        heeds: the fields of ``Setup`` that decide its routes.
    """

    name: str
    package: str
    source: str
    reaches: tuple[str, ...]
    router: Router
    transforms: tuple[str, ...] = ()
    evidence: Evidence = Evidence.OBSERVED
    since: str = ""
    heeds: tuple[str, ...] = ()

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases that have it and whose routing is known, oldest first, as in ``vllm==0.26.0``."""
        return tuple(name for name in self.package_releases if self.in_release(parse_release(name)))

    @property
    def package_releases(self) -> tuple[str, ...]:
        """The known releases of its package, oldest first, whether they have it or not."""
        return tuple(f"{self.package}=={version}" for version in OBSERVED[self.package])

    def in_release(self, release: Release) -> bool:
        """Whether a release of its package has it."""
        return not self.since or release.version >= parse_release(f"{self.package}=={self.since}").version


PERSISTENT = (
    "vllm.trivial",
    "vllm.histogram_2048",
    "vllm.histogram_256",
    "vllm.histogram_4096",
    "vllm.filtered",
    "vllm.radix",
    "vllm.sampled",
)
COOPERATIVE = (
    "vllm.trivial",
    "vllm.histogram_4096",
    "vllm.cooperative_2",
    "vllm.cooperative_4",
    "vllm.cooperative_8",
    "vllm.cooperative_16",
)
ONE_BLOCK = ("sglang.trivial", "sglang.v2_register", "sglang.v2_streaming")
V2 = (*ONE_BLOCK, "sglang.v2_cluster_8", "sglang.v2_cluster_16")
FAST_TOPK = ("sglang.trivial", "sglang.fast_topk")
FLASHINFER = ("flashinfer.trivial", "flashinfer.ragged", "flashinfer.radix")
READ = Evidence.READ

RAW = ("raw",)
PAGES = ("page table", "page table + raw")
PLAN = ("static_threshold", "clusters_8", "clusters_16")
POOLS = ("k-pool", "k-pool + page table", "k-pool + offset")

OPS: tuple[Op, ...] = (
    Op("vllm.persistent_topk", "vllm", "torch.ops._C.persistent_topk", PERSISTENT, route_vllm.persistent, RAW),
    Op(
        "vllm.cooperative_topk",
        "vllm",
        "torch.ops._C.cooperative_topk",
        COOPERATIVE,
        route_vllm.cooperative,
        RAW,
        since="0.24.0",
    ),
    Op(
        "vllm.top_k_per_row_decode",
        "vllm",
        "torch.ops._C.top_k_per_row_decode",
        ("vllm.trivial", "vllm.per_row"),
        route_vllm.per_row,
        RAW,
    ),
    Op(
        "vllm.top_k_per_row_prefill",
        "vllm",
        "torch.ops._C.top_k_per_row_prefill",
        ("vllm.trivial", "vllm.per_row"),
        route_vllm.per_row_prefill,
        RAW,
        READ,
    ),
    Op(
        "vllm.deep_select",
        "vllm",
        "torch.ops.deep_select.topk",
        ("vllm.trivial", "sglang.deep_select"),
        route_vllm_engine.deep_select,
        RAW,
        READ,
        since="0.32.0",
    ),
    Op(
        "vllm.sparse_indexer_topk",
        "vllm",
        "SparseIndexerTopk",
        tuple(
            dict.fromkeys((*PERSISTENT, *COOPERATIVE, "vllm.per_row", *FLASHINFER, "sglang.deep_select", "torch.topk"))
        ),
        route_vllm_engine.choice,
        RAW,
        READ,
        heeds=("backend",),
    ),
    Op(
        "sglang.fast_topk_v2", "sglang-kernel", "torch.ops.sgl_kernel.fast_topk", FAST_TOPK, route_sglang.fast_topk, RAW
    ),
    Op(
        "sglang.fast_topk_transform_fused",
        "sglang-kernel",
        "fast_topk_transform_fused",
        FAST_TOPK,
        route_sglang.fast_topk,
        ("page table",),
        READ,
    ),
    Op(
        "sglang.fast_topk_transform_ragged_fused",
        "sglang-kernel",
        "fast_topk_transform_ragged_fused",
        FAST_TOPK,
        route_sglang.fast_topk,
        ("offset",),
        READ,
    ),
    Op(
        "sglang.deepseek_v4_topk_transform_512",
        "sglang-kernel",
        "torch.ops.sgl_kernel.deepseek_v4_topk_transform_512",
        ("sglang.trivial", "sglang.v4_aot"),
        route_sglang.v4_aot,
        PAGES,
        READ,
    ),
    Op(
        "sglang.topk_transform_paged",
        "sglang",
        "topk_transform_paged",
        ("sglang.trivial", "sglang.v1", "sglang.v4_aot"),
        route_sglang.paged_v1,
        PAGES,
    ),
    Op(
        "sglang.topk_transform_paged_v2",
        "sglang",
        "topk_transform_paged_v2",
        V2,
        route_sglang_v2.paged,
        ("raw", *PAGES),
        heeds=PLAN,
    ),
    Op(
        "sglang.topk_transform_ragged_v2",
        "sglang",
        "topk_transform_ragged_v2",
        ONE_BLOCK,
        route_sglang_v2.ragged,
        ("offset",),
        since="0.5.21",
    ),
    Op(
        "sglang.topk_transform_kpool_v2",
        "sglang",
        "topk_transform_kpool_v2",
        V2,
        route_sglang_v2.pooled,
        POOLS,
        READ,
        since="0.5.23",
        heeds=PLAN,
    ),
    Op(
        "sglang.topk_transform_kpool_ragged_v2",
        "sglang",
        "topk_transform_kpool_ragged_v2",
        ONE_BLOCK,
        route_sglang_v2.ragged,
        POOLS,
        READ,
        since="0.5.23",
    ),
    Op(
        "sglang.kpool_topk_transform",
        "sglang",
        "fast_kpool_topk_transform_fused",
        ("sglang.trivial", "sglang.kpool"),
        route_sglang.kpool,
        POOLS,
        since="0.5.21",
    ),
    Op(
        "sglang.topk_transform_bf16_small",
        "sglang",
        "topk_transform_bf16_small",
        ("sglang.trivial", "sglang.bf16_small"),
        route_sglang.bf16_small,
        ("page table",),
        since="0.5.21",
    ),
    Op(
        "sglang.deep_select",
        "sglang",
        "deep_select",
        ("sglang.trivial", "sglang.deep_select"),
        route_sglang.deep_select,
        RAW,
        since="0.5.21",
    ),
    Op(
        "sglang.topk_page_transform",
        "sglang",
        "topk_page_transform",
        ("sglang.trivial", "sglang.deep_select"),
        route_sglang.deep_select,
        ("page table",),
        READ,
        since="0.5.21",
    ),
    Op(
        "sglang.fast_topk",
        "sglang",
        "fast_topk",
        ("sglang.trivial", "sglang.qsa"),
        route_sglang.qsa,
        RAW,
        READ,
        since="0.5.21",
    ),
    Op(
        "sglang.dsa_topk_transform",
        "sglang",
        "DSATopKBackend.topk_transform",
        (*V2, "sglang.fast_topk", *FLASHINFER, "torch.topk"),
        route_sglang_engine.choice,
        ("page table", "offset", "raw"),
        READ,
        heeds=("backend", "layout", "topk_v2", "fused", *PLAN),
    ),
    Op(
        "flashinfer.top_k_ragged_transform",
        "flashinfer",
        "TopKRaggedTransform",
        FLASHINFER,
        route_flashinfer.ragged,
        ("offset",),
    ),
)


def get_op(name: str) -> Op:
    """The op of that name; UsageError lists the known ones."""
    for op in OPS:
        if op.name == name:
            return op
    raise UsageError(f"unknown op {name!r}; known ops: {', '.join(op.name for op in OPS)}")
