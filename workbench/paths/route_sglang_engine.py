"""SGLang's own choice of an op: what its sparse attention calls where the user did not name the op.

Read in the packages, not observed. Decode and, since 0.5.21, ragged prefill take v2 where its gate holds.
"""

from __future__ import annotations

from workbench.paths import route_flashinfer, route_sglang, route_sglang_v2
from workbench.paths.conditions import LAYOUTS, Questions, RefusedError
from workbench.paths.devices import Device
from workbench.paths.releases import Release
from workbench.paths.sglang import V2_K
from workbench.words import listed

BACKENDS = ("sgl-kernel", "flashinfer", "torch")
RAGGED_SINCE = (0, 5, 21)


def choice(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """sglang.dsa_topk_transform: by backend, by how scores are laid out, and by v2's gate."""
    setup = ask.setup
    backend = BACKENDS[0] if setup.backend is None else setup.backend
    ask.require(
        backend in BACKENDS,
        f"backend is {backend}" + (", the default" if setup.backend is None else ""),
        f"{release} has no top-k backend {backend!r}; it has {listed(BACKENDS)}",
    )
    if not ask.holds(setup.fused, "selection and transform are fused (SGLANG_DSA_FUSE_TOPK)"):
        return _unfused(ask, release, device, backend)
    if backend == "torch":
        raise RefusedError("the torch backend needs SGLANG_DSA_FUSE_TOPK=false (--unfused); the engine raises")
    if backend == "flashinfer":
        return _flashinfer(ask, release, device)
    layout = setup.layout
    if layout is None:
        raise ask.stop(
            "decode (paged), prefill with row starts (prefill) and ragged prefill (ragged) take other ops", "layout"
        )
    if _gate(ask, release, device, layout):
        paged = layout == "paged"
        ask.calls = "sglang.topk_transform_paged_v2" if paged else "sglang.topk_transform_ragged_v2"
        return (route_sglang_v2.paged if paged else route_sglang_v2.ragged)(ask, release, device)
    ragged = "ragged_" if layout == "ragged" else ""
    ask.calls = f"sglang.fast_topk_transform_{ragged}fused"
    return route_sglang.fast_topk(ask, release, device)


def _gate(ask: Questions, release: Release, device: Device, layout: str) -> bool:
    """Whether v2 is used; every part of its gate is noted."""
    assert layout in LAYOUTS
    if layout == "ragged":
        shaped = ask.holds(release.version >= RAGGED_SINCE, f"release {release} ≥ 0.5.21 (v2 takes ragged scores)")
    else:
        shaped = ask.holds(layout == "paged", f"layout is {layout} (v2 takes paged scores without row starts)")
    wanted = ask.holds(ask.setup.topk_v2, "v2 is on (SGLANG_OPT_USE_TOPK_V2)")
    k = ask.field("k", f"v2 takes at most {V2_K}")
    return bool(shaped & wanted & ask.holds(k <= V2_K, f"k {k} ≤ {V2_K} (v2)"))


def _unfused(ask: Questions, release: Release, device: Device, backend: str) -> tuple[str, str]:
    if backend == "sgl-kernel":
        ask.calls = "sglang.fast_topk_v2"
        return route_sglang.fast_topk(ask, release, device)
    if backend == "flashinfer":
        return _flashinfer(ask, release, device)
    ask.calls = "torch.topk"
    k = ask.field("k", "rows up to k need no selection")
    ask.cannot_tell("winners of -inf come back as -1 here, whatever the path selects (read, not observed)")
    return ("sglang.trivial" if ask.nothing_to_select(k) else "torch.topk"), "stock"


def _flashinfer(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    ask.on_cuda(device)
    ask.calls = "flashinfer.top_k_ragged_transform" if ask.setup.layout == "ragged" else "FlashInfer's top-k"
    return route_flashinfer.ragged(ask, release, device)
