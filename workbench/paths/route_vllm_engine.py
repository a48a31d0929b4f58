"""vLLM's own choice of an op: what its sparse indexer calls for decode where the user did not name the op.

Read in the packages, not observed. Since 0.30.0 ``sparse_indexer_topk_backend`` can name one; a named backend raises
where a constraint is not met, ``auto`` goes on to the next. Every constraint of a backend is tested, also after one
that is not met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workbench.paths import route_flashinfer, route_vllm, vllm
from workbench.paths.conditions import Questions, RefusedError, UnknownFieldError
from workbench.paths.devices import Device
from workbench.paths.releases import Release
from workbench.paths.route_vllm import COOPERATIVE_SINCE, most_rows
from workbench.words import listed

NOT_ON_12_SINCE = (0, 25, 1)  # cooperative is not tried on compute capability 12 from there on
WIDTH_AS_BOUND = ((0, 25, 1), (0, 31, 0))  # from, before: persistent_topk is given the padded width
BACKEND_SINCE = (0, 30, 0)
AITER_SINCE = (0, 32, 0)
AUTO = "auto"
CHAIN = ("cooperative", "persistent", "per_row")
BACKENDS = ("deep_select", *CHAIN, "flashinfer", "torch")
AITER_KS = (512, 1024, 2048, 4096)
DEEP_SELECT_K = 4096
DEEP_SELECT_WIDTH = 1 << 23
DEEP_SELECT_STRIDE_BYTES = 1024
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

# What a constraint needs, whether it holds (``None``: not known), and the field that is not known.
Constraint = tuple[str, bool | None, str]


def choice(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.sparse_indexer_topk: a backend by name or the first of the chain whose constraints are all met."""
    named = AUTO if ask.setup.backend is None else ask.setup.backend
    if named == AUTO:
        return _run(ask, release, device, _first(ask, release, device))
    ask.require(
        release.version >= BACKEND_SINCE,
        f"release {release} ≥ 0.30.0 (sparse_indexer_topk_backend)",
        f"{release} has no sparse_indexer_topk_backend; leave the backend as it is",
    )
    known = (*BACKENDS, "aiter") if release.version >= AITER_SINCE else BACKENDS
    ask.require(
        named in known, f"backend is {named}", f"{release} has no backend {named!r}; it has {listed((AUTO, *known))}"
    )
    unmet = _unmet(ask, named, release, device)
    if unmet:
        raise RefusedError(f"{named} was asked for, and the engine raises: {'; '.join(unmet)}")
    return _run(ask, release, device, named)


def deep_select(ask: Questions, release: Release, device: Device) -> tuple[str, str]:
    """vllm.deep_select: the op of that backend, called by name."""
    if unmet := _unmet(ask, "deep_select", release, device):
        raise RefusedError("; ".join(unmet))
    return _selected(ask, "sglang.deep_select")


def _first(ask: Questions, release: Release, device: Device) -> str:
    """The first backend of the chain that takes the call; per_row takes every call."""
    chain = CHAIN if release.version >= COOPERATIVE_SINCE else CHAIN[1:]
    return next(one for one in chain if one == CHAIN[-1] or not _unmet(ask, one, release, device))


def _unmet(ask: Questions, backend: str, release: Release, device: Device) -> list[str]:
    """Every constraint of a backend that is not met, in words.

    Raises:
        UnknownFieldError: none is known not to be met, and one is not known.
    """
    unmet, unknown = list[str](), list[str]()
    for text, met, field in CONSTRAINTS[backend](ask, release, device):
        said = f"{backend} needs {text}"
        edges = {"rows": most_rows(release)} if field == "rows" else {}  # one backend has a bound on them
        if met is None:
            ask.cannot_tell(f"{said}; {field} is not known", **edges)
            unknown.append(field)
        elif not ask.holds(met, said, **edges):
            unmet.append(f"it needs {text}")
    if unknown and not unmet:
        raise UnknownFieldError(unknown[0])
    return unmet


def _k_among(ask: Questions, ks: tuple[int, ...]) -> Constraint:
    k = ask.known("k")
    return f"k {listed(ks, 'or')}" + ("" if k is None else f", k is {k}"), None if k is None else k in ks, "k"


def _at_most(ask: Questions, name: str, most: int) -> Constraint:
    value = ask.known(name)
    said = "" if value is None else f", {name} is {value}"
    return f"{name} ≤ {most}{said}", None if value is None else value <= most, name


def _cuda(device: Device) -> Constraint:
    return f"CUDA, {device.name} runs {'CUDA' if device.platform == 'cuda' else 'ROCm'}", device.platform == "cuda", ""


def _persistent(ask: Questions, release: Release, device: Device) -> Iterator[Constraint]:
    yield _cuda(device)
    yield _k_among(ask, vllm.KS)


def _cooperative(ask: Questions, release: Release, device: Device) -> Iterator[Constraint]:
    yield from _persistent(ask, release, device)
    yield _at_most(ask, "rows", most_rows(release))
    stride = ask.known("stride")
    said = "" if stride is None else f", the stride is {stride}"
    yield f"a stride that is a multiple of 4{said}", None if stride is None else stride % 4 == 0, "stride"
    tried_on_12 = release.version < NOT_ON_12_SINCE
    able = device.capability[0] >= 9 if tried_on_12 else device.has_clusters
    yield (
        f"compute capability 9.0 or later{'' if tried_on_12 else ', not 12'}, {device.name} is {device.arch}",
        able,
        "",
    )


def _deep_select(ask: Questions, release: Release, device: Device) -> Iterator[Constraint]:
    yield _cuda(device)
    yield f"compute capability 10, {device.name} is {device.arch}", device.capability[0] == 10, ""
    yield _at_most(ask, "k", DEEP_SELECT_K)
    yield _at_most(ask, "width", DEEP_SELECT_WIDTH - 1)
    dtype, stride = ask.row.dtype, ask.known("stride")
    yield f"float32 or bfloat16 scores, they are {dtype}", dtype in ("float32", "bfloat16"), ""
    aligned = None if stride is None else stride * BYTES[dtype] % DEEP_SELECT_STRIDE_BYTES == 0
    said = "" if stride is None else f", the stride is {stride} scores"
    yield f"a stride that is a multiple of {DEEP_SELECT_STRIDE_BYTES} bytes{said}", aligned, "stride"


def _flashinfer(ask: Questions, release: Release, device: Device) -> Iterator[Constraint]:
    yield _cuda(device)
    yield f"float32 scores, they are {ask.row.dtype}", ask.row.dtype == "float32", ""


def _aiter(ask: Questions, release: Release, device: Device) -> Iterator[Constraint]:
    yield f"ROCm, {device.name} runs {'ROCm' if device.platform == 'rocm' else 'CUDA'}", device.platform == "rocm", ""
    yield _k_among(ask, AITER_KS)


def _none(ask: Questions, release: Release, device: Device) -> Iterator[Constraint]:
    yield from ()


CONSTRAINTS: dict[str, Callable[[Questions, Release, Device], Iterator[Constraint]]] = {
    "cooperative": _cooperative,
    "persistent": _persistent,
    "per_row": _none,
    "deep_select": _deep_select,
    "flashinfer": _flashinfer,
    "torch": _none,
    "aiter": _aiter,
}


def _run(ask: Questions, release: Release, device: Device, backend: str) -> tuple[str, str]:
    """The route inside the op that the chosen backend calls."""
    if backend == "aiter":
        raise ask.stop("AITER's selector has no record here", "AITER's selector")
    ask.calls = CALLS[backend]
    ask.holds(True, f"the engine calls {ask.calls}")
    if backend == "cooperative":
        return route_vllm.cooperative(ask, release, device)
    if backend == "persistent":
        _bound(ask, release)
        return route_vllm.persistent(ask, release, device)
    if backend == "per_row":
        return route_vllm.per_row(ask, release, device)
    if backend == "flashinfer":
        return route_flashinfer.ragged(ask, release, device)
    return _selected(ask, "torch.topk" if backend == "torch" else "sglang.deep_select")


def _selected(ask: Questions, path: str) -> tuple[str, str]:
    k = ask.field("k", "rows up to k need no selection")
    return ("vllm.trivial" if ask.nothing_to_select(k) else path), "stock"


CALLS = {
    "cooperative": "vllm.cooperative_topk",
    "persistent": "vllm.persistent_topk",
    "per_row": "vllm.top_k_per_row_decode",
    "flashinfer": "flashinfer.top_k_ragged_transform",
    "torch": "torch.topk",
    "deep_select": "vllm.deep_select",
}


def _bound(ask: Questions, release: Release) -> None:
    """Some releases give persistent_topk the padded width in place of the longest row."""
    since, before = WIDTH_AS_BOUND
    passed = since <= release.version < before
    if not ask.holds(passed, f"release {release} is 0.25.1 to 0.30.0 (persistent_topk is given the width, no bound)"):
        return
    width = ask.known("width")
    if width is not None:
        ask.holds(True, f"max_seq_len is the width, {width}")
    ask.row, ask.bound_by = ask.row.with_call(max_seq_len=width), "width"
