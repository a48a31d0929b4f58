"""Kernels beside the selectors: block maxima, the table of candidate blocks, and how many clusters a device runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import torch

from workbench.engines.cuda.clusters import allow_size, clusters_at_once
from workbench.engines.cuda.compile import Built, build_source
from workbench.engines.cuda.device import limits_of, load_cupy, unavailable
from workbench.engines.cuda.launch import STATIC_SHARED, current_stream
from workbench.engines.cuda.sources import Value
from workbench.engines.cuda.support_sources import SUPPORT, support_options
from workbench.errors import UsageError
from workbench.paths.blocks import BLOCK, KEPT
from workbench.paths.selection import UNWRITTEN

KIB = 1024
BLOCK_THREADS = 1024  # the most that a block has
CLUSTERS_SINCE = (9, 0)
# CUDA's numbers of attributes of a device.
THREADS_OF_SM, SHARED_OF_SM, RESERVED_OF_BLOCK = 39, 81, 111


def block_amax(
    scores: torch.Tensor, lengths: torch.Tensor, skip_up_to: int = 0, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The key of every block of 8 scores of a batch, as ``workbench.paths.blocks.block_amax`` has them of a row.

    A length outside the row is taken as the nearest that is not; the op that is described reads past the row.

    Args:
        scores: float32 [rows, width] on a CUDA device, rows any distance apart. lengths: int32 [rows] there.
        skip_up_to: rows of so many blocks or fewer are skipped. out: float32 [rows, at least ceil(width / 8)] to be
            written, a new one, poisoned with ``UNWRITTEN``, by default; what belongs to no block stays as it was.

    Raises:
        UsageError: a tensor that is no such thing, or no device, CuPy or compiler.
    """
    refuse(unavailable())
    check_tensor("scores", scores, torch.float32, (None, None))
    rows, width = scores.shape
    check_tensor("lengths", lengths, torch.int32, (rows,), scores.device)
    keys = -(-width // BLOCK)
    if out is None:
        out = torch.full((rows, keys), UNWRITTEN, dtype=torch.float32, device=scores.device)
    check_tensor("out", out, torch.float32, (rows, None), scores.device)
    if out.shape[1] < keys:
        raise UsageError(f"out has {out.shape[1]} keys a row; {keys} are needed for {width} columns")
    numbers = SUPPORT["block_amax.cu"]
    threads, each = (numbers[name] for name in ("THREADS", "KEYS_A_THREAD"))
    assert isinstance(threads, int)
    assert isinstance(each, int)
    if rows and keys:
        grid = (-(-keys // (threads * each)), rows)
        given = (scores, scores.stride(0), width, lengths, skip_up_to, out, out.stride(0))
        run_support("block_amax.cu", grid, given, scores.device.index, longs=(1, 6))
    return out


def candidate_blocks(
    selected: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Selected block ids of a batch in ascending order, as ``workbench.paths.blocks.candidate_blocks`` has a row's.

    Args:
        selected: int32 [rows, k], contiguous, on a CUDA device, k up to 2048; negative where empty. lengths: int32
            [rows] of the rows, in scores; negative ones count as 0. out: int32 [rows, k], contiguous, which may be
            ``selected``; a new one by default.

    Returns:
        The table, and int32 [rows]: how many ids of a row the bitmap has no bit for. They are left out; the op that is
        described writes past its memory there.

    Raises:
        UsageError: as for ``block_amax``.
    """
    refuse(unavailable())
    check_tensor("selected", selected, torch.int32, (None, None), whole=True)
    rows, k = selected.shape
    if not 1 <= k <= KEPT:
        raise UsageError(f"k is {k}; it must be from 1 to {KEPT}")
    check_tensor("lengths", lengths, torch.int32, (rows,), selected.device)
    out = torch.empty_like(selected) if out is None else out
    check_tensor("out", out, torch.int32, (rows, k), selected.device, whole=True)
    outside = torch.zeros(rows, dtype=torch.int32, device=selected.device)
    if rows:
        run_support("candidate_blocks.cu", (rows,), (selected, lengths, k, out, outside), selected.device.index)
    return out, outside


def resident_clusters(blocks: int, a_multiprocessor: int, device: int = 0) -> int:
    """How many clusters a device runs at once, of so many blocks that are so many to a multiprocessor.

    The driver is asked about an empty kernel whose blocks take their share of a multiprocessor's shared memory and
    threads.

    Args:
        blocks: of a cluster, 16 included, which CUDA calls not portable. a_multiprocessor: blocks on one, from 1 up.
        device: a CUDA device by its index.

    Raises:
        UsageError: no device, CuPy or compiler; a device without clusters; or numbers below 1.
    """
    refuse(unavailable())
    if blocks < 1 or a_multiprocessor < 1:
        raise UsageError(f"{blocks} blocks, {a_multiprocessor} a multiprocessor: 1 or more are needed")
    refuse(limits_of(device).lacks(0, CLUSTERS_SINCE))
    cupy = load_cupy()
    runtime = cupy.cuda.runtime
    kernel, _ = _loaded("probe.cu", device)

    threads_of_sm, shared_of_sm, reserved = (
        int(runtime.deviceGetAttribute(one, device)) for one in (THREADS_OF_SM, SHARED_OF_SM, RESERVED_OF_BLOCK)
    )
    shared_bytes = min((shared_of_sm // a_multiprocessor - reserved) // KIB * KIB, limits_of(device).optin_bytes)
    threads = min(BLOCK_THREADS, threads_of_sm // a_multiprocessor)
    if shared_bytes < 0 or threads < 1:
        raise UsageError(f"{a_multiprocessor} blocks do not fit a multiprocessor of {limits_of(device).name}")
    with cupy.cuda.Device(device):
        runtime.deviceSynchronize()
        kernel.max_dynamic_shared_size_bytes = shared_bytes
        allow_size(cupy, kernel, blocks)
        return clusters_at_once(kernel, blocks, threads, shared_bytes)


def run_support(
    source: str,
    grid: tuple[int, ...],
    given: tuple[torch.Tensor | int | None, ...],
    device: int,
    longs: tuple[int, ...] = (),
    options: Mapping[str, Value] | None = None,
) -> None:
    """Launch a kernel of ``SUPPORT`` on torch's current stream of a device.

    Args:
        given: its arguments: tensors that lie on the device as the kernel takes them, ``None`` for no tensor, and
            numbers, of which those at ``longs`` are 64 bits wide. Only addresses of tensors are handed on: they must
            live until the stream has passed the launch, as those do that torch made for this stream.
        options: of the build, other ones than usual.

    Raises:
        UsageError: the kernel does not compile, or no compiler is installed.
    """
    chosen = options or {}
    threads = chosen.get("THREADS", SUPPORT[source]["THREADS"])
    kernel, built = _loaded(source, device, tuple(sorted(chosen.items())))
    cupy = load_cupy()
    arguments: list[Any] = []
    for at, one in enumerate(given):
        if isinstance(one, int) and at not in longs:
            arguments.append(np.int32(one))
        else:  # to CuPy a number of Python is 64 bits wide, as an address is
            arguments.append(one if isinstance(one, int) else 0 if one is None else one.data_ptr())
    with cupy.cuda.Device(device), current_stream(cupy, device):
        kernel(grid, (threads,), tuple(arguments), shared_mem=built.facts.shared_bytes)


@cache
def _loaded(source: str, device: int, options: tuple[tuple[str, Value], ...] = ()) -> tuple[Any, Built]:
    cupy, name = load_cupy(), source.removesuffix(".cu")
    built = build_source(name, source, support_options(source, **dict(options)), limits_of(device).arch)
    with cupy.cuda.Device(device):
        kernel = cupy.RawModule(path=str(built.cubin)).get_function(f"workbench_{name}")
        if built.facts.shared_bytes > STATIC_SHARED:
            kernel.max_dynamic_shared_size_bytes = built.facts.shared_bytes
    return kernel, built


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtype: torch.dtype,
    shape: tuple[int | None, ...],
    device: torch.device | None = None,
    whole: bool = False,
) -> None:
    """UsageError if a tensor is no such thing; rows may lie apart unless it must be ``whole``."""
    fits = tensor.dim() == len(shape) and all(
        one in (None, size) for one, size in zip(shape, tensor.shape, strict=False)
    )
    if tensor.dtype != dtype or not fits or not tensor.is_cuda or (device is not None and tensor.device != device):
        sizes = ", ".join("n" if one is None else str(one) for one in shape)
        where = "a CUDA device" if device is None else str(device)
        raise UsageError(f"{name} must be {str(dtype).removeprefix('torch.')} [{sizes}] on {where}")
    if tensor.numel() and not (tensor.is_contiguous() if whole or tensor.dim() == 1 else tensor.stride(1) == 1):
        raise UsageError(
            f"{name} must be contiguous" if whole else f"the numbers of a row of {name} must lie side by side"
        )


def refuse(reasons: list[str]) -> None:
    """UsageError with all reasons, if there are any."""
    if reasons:
        raise UsageError("; ".join(reasons))
