"""Where SGLang's ops with one path each send a row; those of v2 stand in ``route_sglang_v2``."""

from __future__ import annotations

from workbench.paths import sglang
from workbench.paths.conditions import Questions
from workbench.paths.devices import Device
from workbench.paths.releases import Release
from workbench.paths.route_sglang_v2 import exact_variant

V1_K = 1024
KPOOL_GROUPS = sglang.KPOOL_KS


def fast_topk(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.fast_topk_v2 and the fused transforms: one path for every row above k."""
    k = ask.k_among((2048,))
    ask.dtype("float32")
    if ask.nothing_to_select(k):
        return "sglang.trivial", "stock"
    if device.platform == "rocm":
        raise ask.stop(
            "ROCm builds had a buffer of 6144 (sglang.fast_topk, build_6144) before sgl-project/sglang#37591 and "
            "have sglang.rocm_coop since; which releases is not established",
            "which selector the ROCm build has",
        )
    return "sglang.fast_topk", "stock"


def v4_aot(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.deepseek_v4_topk_transform_512: one path for every row above k; only ROCm builds have it."""
    ask.require(
        device.platform == "rocm",
        f"{device.name} runs ROCm",
        f"no CUDA build of {release} has the op; it is built for ROCm, and {device.name} runs CUDA",
    )
    k = ask.k_up_to(V1_K)
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.v4_aot"), "stock"


def paged_v1(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_paged: one path for every row above k; on ROCm that of the ahead-of-time op."""
    if ask.holds(device.platform == "rocm", f"{device.name} runs ROCm (deepseek_v4_topk_transform_512)"):
        ask.calls = "sglang.deepseek_v4_topk_transform_512"
        return v4_aot(ask, release, device)
    k = ask.k_up_to(V1_K)
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.v1"), exact_variant(ask, release)


def qsa(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.fast_topk, built just in time: one path for every row above k."""
    k = ask.k_among(sglang.QSA_KS)
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.qsa"), "stock"


def kpool(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.kpool_topk_transform: scores, length and k count groups of pooled tokens."""
    k = ask.k_among(KPOOL_GROUPS)
    ask.dtype("float32")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.kpool"), exact_variant(ask, release)


def bf16_small(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.topk_transform_bf16_small: bfloat16 rows of a width up to 16384."""
    k = ask.k_up_to(sglang.V2_K)
    ask.dtype("bfloat16")
    most = sglang.BF16_SMALL_UP_TO
    width = ask.field("width", f"the op takes at most {most}")
    ask.require(width <= most, f"width {width} ≤ {most}", f"the op takes widths up to {most}, not {width}", width=most)
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.bf16_small"), "stock"


def deep_select(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.deep_select and sglang.topk_page_transform: one path for every row above k."""
    k = ask.k_up_to(4096)
    ask.dtype("float32", "bfloat16")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "sglang.deep_select"), "stock"
