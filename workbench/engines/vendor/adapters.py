"""How each op of a released package is called, as data: its arguments in order, its workspace, what it takes.

Argument contracts and limits are those of the packages' own schemas, wrappers and launch checks (vllm 0.20.2 to 0.33.0,
sglang-kernel 0.4.6, sglang 0.5.18 to 0.5.23, flashinfer-python 0.7.4). Nothing here imports any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.engines.launch import Launch, row_stride
from workbench.paths import route_vllm, sglang, vllm
from workbench.words import listed

PAGE = 64  # cells of a page, where an op reads a page table
POOL = 4  # tokens of a group, where an op selects groups
MIB = 1024 * 1024

# What a call is given: a number, the name of an input (``calling.Inputs`` makes them), or a keyword with either.
Value = str | int | None
Argument = Value | tuple[str, Value]

DSV4 = "sglang.kernels.ops.attention.dsv4.topk"
VLLM_WITH_WORKSPACE: tuple[Argument, ...] = ("scores", "lengths", "out", "workspace", "k", "max_seq_len")


@dataclass(frozen=True)
class Package:
    """Where a package's ops come from.

    Attributes:
        name: as releases spell it. distributions: its names in package indexes. modules: imported for its ops, as many
            as there are. libraries: how the shared libraries that register its ops end; none where Python builds them.
    """

    name: str
    distributions: tuple[str, ...]
    modules: tuple[str, ...]
    libraries: tuple[str, ...] = ()


PACKAGES = {
    package.name: package
    for package in (
        Package(
            "vllm",
            ("vllm",),
            ("vllm._custom_ops", "vllm._C_stable_libtorch", "vllm._C"),
            ("_C_stable_libtorch.abi3.so", "_C.abi3.so"),
        ),
        Package("sglang-kernel", ("sglang-kernel", "sgl-kernel"), ("sgl_kernel",), ("common_ops.abi3.so",)),
        Package("sglang", ("sglang",), ()),
        Package("flashinfer", ("flashinfer-python",), ()),
    )
}


@dataclass(frozen=True)
class Adapter:
    """How one op is called.

    Attributes:
        op: as in ``vllm.persistent_topk``. package: whose releases have it, by its name in ``PACKAGES``.
        calls: what is called, the first of these that is there: ``torch.ops.…``, or ``module:function``.
        arguments: in order.
        ks: the only k that it takes; k_up_to: the greatest; k_of: what divides k.
        dtypes: of scores. stride_bytes: what divides the distance between rows. contiguous: whether that must
            be the width. width_up_to: the widest row. rows_up_to: the most rows, from a version on.
        capabilities: compute capabilities, major or (major, minor) as tuples; empty for any.
        starts: whether rows may start elsewhere than at cell 0. writes_scores: whether it then writes in front of them.
        workspace: bytes, zeroed before each call.
        plan: the function, beside the one that is called, that plans the call.
        allocates: whether it makes its own output.
        pool: how many entries stand for one position.
    """

    op: str
    package: str
    calls: tuple[str, ...]
    arguments: tuple[Argument, ...]
    ks: tuple[int, ...] = ()
    k_up_to: int | None = None
    k_of: int = 1
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    stride_bytes: int = 1
    contiguous: bool = False
    width_up_to: int | None = None
    rows_up_to: tuple[tuple[tuple[int, ...], int], ...] = ()
    capabilities: tuple[tuple[int, ...], ...] = ()
    starts: bool = False
    writes_scores: bool = False
    workspace: int = 0
    plan: str = ""
    allocates: bool = False
    pool: int = 1

    @property
    def built_when_called(self) -> bool:
        """Whether the package compiles it when it is first called: it is never in a library of the store."""
        return not PACKAGES[self.package].libraries

    def unmet(self, launch: Launch, version: tuple[int, ...]) -> list[str]:
        """Every condition of the op that a launch does not meet, in words, apart from the device's.

        Args:
            version: of the release that is called, as in (0, 26, 0).
        """
        rows, width = launch.scores.shape
        stride, k, dtype = row_stride(launch), launch.k, launch.scores.dtype
        reasons = []
        if self.ks and k not in self.ks:
            reasons.append(f"{self.op} takes k {listed(self.ks, 'or')} only, not k {k}")
        if self.k_up_to is not None and k > self.k_up_to:
            reasons.append(f"{self.op} takes k up to {self.k_up_to}, not k {k}")
        if k % self.k_of:
            reasons.append(f"{self.op} takes multiples of {self.k_of} as k, not k {k}")
        if dtype not in self.dtypes:
            reasons.append(f"{self.op} takes {listed(map(_name, self.dtypes), 'or')}, not {_name(dtype)}")
        step = max(1, self.stride_bytes // dtype.itemsize)
        if stride % step:
            reasons.append(f"{self.op} takes row strides that are multiples of {step} {_name(dtype)}, not {stride}")
        if self.contiguous and stride != width:
            reasons.append(f"{self.op} takes rows without padding between them: stride {stride} is not width {width}")
        if self.width_up_to is not None and width > self.width_up_to:
            reasons.append(f"{self.op} takes rows of at most {self.width_up_to} scores, not {width}")
        most = [most for since, most in self.rows_up_to if version >= since]
        if most and rows > most[-1]:
            reasons.append(f"{self.op} takes at most {most[-1]} rows in this release, not {rows}")
        if not self.starts and launch.starts is not None and bool((launch.starts != 0).any()):
            reasons.append(f"{self.op} takes rows that start at cell 0 only")
        return reasons

    def unmet_device(self, capability: tuple[int, int]) -> list[str]:
        """What the op needs of a GPU and one of this compute capability lacks."""
        if not self.capabilities or any(capability[: len(one)] == one for one in self.capabilities):
            return []
        known = listed((".".join(map(str, one)) + (".x" if len(one) == 1 else "") for one in self.capabilities), "or")
        return [f"{self.op} needs compute capability {known}, this device has {capability[0]}.{capability[1]}"]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


ADAPTERS = {
    adapter.op: adapter
    for adapter in (
        Adapter(
            "vllm.persistent_topk",
            "vllm",
            ("torch.ops._C.persistent_topk",),
            VLLM_WITH_WORKSPACE,
            ks=vllm.KS,
            workspace=MIB,
        ),
        Adapter(
            "vllm.cooperative_topk",
            "vllm",
            ("torch.ops._C.cooperative_topk",),
            VLLM_WITH_WORKSPACE,
            ks=vllm.KS,
            stride_bytes=16,
            rows_up_to=((route_vllm.COOPERATIVE_SINCE, 32), (route_vllm.MANY_ROWS_SINCE, 64)),
            capabilities=((9,), (10,), (11,)),
            workspace=MIB,
        ),
        Adapter(
            "vllm.top_k_per_row_decode",
            "vllm",
            ("torch.ops._C.top_k_per_row_decode",),
            ("scores", 1, "lengths", "out", "rows", "stride", 1, "k"),  # each row with a length of its own
        ),
        Adapter(
            "vllm.top_k_per_row_prefill",
            "vllm",
            ("torch.ops._C.top_k_per_row_prefill",),
            ("scores", "starts", "ends", "out", "rows", "stride", 1, "k"),
            starts=True,
        ),
        Adapter(
            "sglang.fast_topk_v2",
            "sglang-kernel",
            ("torch.ops.sgl_kernel.fast_topk",),
            ("scores", "out", "lengths", "starts if given"),
            ks=(2048,),
            starts=True,
        ),
        Adapter(
            "sglang.fast_topk_transform_fused",
            "sglang-kernel",
            ("torch.ops.sgl_kernel.fast_topk_transform_fused",),
            ("scores", "lengths", "out", "token table", "table ends", "starts if given"),
            ks=(2048,),
            starts=True,
        ),
        Adapter(
            "sglang.fast_topk_transform_ragged_fused",
            "sglang-kernel",
            ("torch.ops.sgl_kernel.fast_topk_transform_ragged_fused",),
            ("scores", "lengths", "out", "zeros", "starts"),
            ks=(2048,),
            starts=True,
        ),
        Adapter(
            "sglang.topk_transform_paged",
            "sglang",
            (f"{DSV4}:topk_transform_paged", f"{DSV4}:topk_transform_512"),
            ("scores", "lengths", "pages", "out", PAGE),
            k_up_to=1024,
        ),
        Adapter(
            "sglang.topk_transform_paged_v2",
            "sglang",
            (f"{DSV4}:topk_transform_paged_v2", f"{DSV4}:topk_transform_512_v2"),
            ("scores", "lengths", "pages", "out", PAGE, "plan"),
            k_up_to=sglang.V2_K,
            stride_bytes=16,
            plan="plan_topk_v2",
        ),
        Adapter(
            "sglang.topk_transform_ragged_v2",
            "sglang",
            (f"{DSV4}:topk_transform_ragged_v2",),
            ("scores", "lengths", ("out_offsets", "zeros"), ("out_indices", "out"), ("row_starts", "starts if given")),
            k_up_to=sglang.V2_K,
            stride_bytes=16,
            starts=True,
            writes_scores=True,
        ),
        Adapter(
            "sglang.kpool_topk_transform",
            "sglang",
            ("sglang.kernels.ops.attention.dsa.kpool_topk_transform:fast_kpool_topk_transform_fused",),
            (
                "scores",
                "lengths",
                POOL,
                "tokens",
                ("topk_indices_offset", "zeros"),
                ("row_starts", "starts if given"),
            ),
            ks=sglang.KPOOL_KS,
            starts=True,
            allocates=True,
            pool=POOL,
        ),
        Adapter(
            "sglang.topk_transform_bf16_small",
            "sglang",
            (f"{DSV4}:topk_transform_bf16_small",),
            ("scores", "lengths", "pages", "out", PAGE),
            k_up_to=sglang.V2_K,
            dtypes=(torch.bfloat16,),
            stride_bytes=16,
            width_up_to=sglang.BF16_SMALL_UP_TO,
        ),
        Adapter(
            "sglang.fast_topk",
            "sglang",
            ("sglang.kernels.ops.attention.fast_topk:fast_topk",),
            ("scores", "lengths", "k", ("row_starts", "starts if given")),
            ks=sglang.QSA_KS,
            starts=True,
            allocates=True,
        ),
        Adapter(
            "sglang.deep_select",
            "sglang",
            ("sglang.kernels.ops.attention.deep_select:topk",),
            ("scores", "k", ("end", "lengths"), ("output_idx", "out"), ("idx_oob_fill_value", -1)),
            k_up_to=4096,
            k_of=8,  # output rows of 32 bytes
            dtypes=(torch.float32, torch.bfloat16),
            stride_bytes=128,
            width_up_to=(1 << 23) - 1,
            capabilities=((9, 0), (10, 0), (10, 3)),
        ),
        Adapter(
            "flashinfer.top_k_ragged_transform",
            "flashinfer",
            ("flashinfer:top_k_ragged_transform",),
            ("scores", "zeros", "lengths", "k", ("row_starts", "starts if given")),
            k_up_to=2048,
            dtypes=(torch.float32, torch.float16, torch.bfloat16),
            contiguous=True,
            starts=True,
            allocates=True,
        ),
    )
}
