"""Launches of kernels on rows that lie on a device: no copies, on torch's current stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from workbench.engines.cuda.clusters import allow_size, clusters_at_once
from workbench.engines.cuda.compile import ENTRY, Built, build
from workbench.engines.cuda.device import limits_of, load_cupy, unavailable
from workbench.engines.cuda.emission import Emission, arguments_of
from workbench.engines.cuda.grid import Grid, Shape
from workbench.engines.cuda.launched import Geometry, Launched
from workbench.engines.cuda.sources import (
    grid_of,
    kernel_of,
    ranks_of,
    report_ints_of,
    telemetry_of,
    without_kernel,
)
from workbench.errors import UsageError
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spans import RESIDUES
from workbench.paths.spec import Path
from workbench.paths.walk import walk_of
from workbench.words import listed

STATIC_SHARED = 48 * 1024  # a block that needs more asks for it


def needs_of(
    path: Path, variant: str, device: int, *, rows: int, width: int, k: int, telemetry: bool = True
) -> list[str]:
    """What a launch of a variant's kernel needs and a device does not have, in words; compiles it.

    Args:
        rows, width, k: of the launch, as for ``launch``.

    Raises:
        UsageError: it has no kernel, or the kernel does not compile.
    """
    return list(_needs(path, variant, device, telemetry)) or _grid(path, variant, rows, width, k, device, telemetry)[1]


def launch(
    path: Path,
    variant: str,
    scores: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    *,
    starts: torch.Tensor | None = None,
    output: torch.Tensor | None = None,
    emission: Emission | None = None,
    positions: torch.Tensor | bool = False,
    width: int | None = None,
    telemetry: bool = True,
    histograms: bool = False,
    dropped: int = 0,
) -> Launched:
    """Select from every row of a batch with one kernel, and return without waiting for it.

    Lengths and starts are read on the device alone: what they claim must lie inside the rows. A row no longer than k
    gives every index in order; one that is too long for the path's registers stays unwritten.

    Args:
        scores: [rows, width] on a CUDA device, rows any distance apart; of the kernel's dtype.
        lengths: int32 [rows] there; negative ones count as 0. k: winners wanted, one that the path takes.
        starts: int32 [rows], first valid cells; ``None`` where every row begins at 0.
        output: int32 [rows, k], rows any distance apart, to be written; by default a new one, poisoned with
            ``UNWRITTEN``.
        emission: what stands there in place of positions. positions: int32 like ``output``, to be written with the
            positions beside it; ``True`` for a new one.
        width: padded columns of the call, by which some paths choose their way, where the rows here have fewer.
        telemetry: whether the build that tells of its inside is taken. histograms: whether it gives all bins.
        dropped: how many dropped members of a row it lists.

    Raises:
        UsageError: a tensor that is no such thing, a k that the path does not take, or no device, CuPy, compiler or
            kernel, or a device that lacks what the kernel needs.
    """
    made = prepare(
        path,
        variant,
        scores,
        lengths,
        k,
        starts=starts,
        output=output,
        emission=emission,
        positions=positions,
        width=width,
        telemetry=telemetry,
        histograms=histograms,
        dropped=dropped,
    )
    made()
    return made.launched


@dataclass(frozen=True, eq=False)
class Prepared:
    """A launch that can be made again and again, also while a graph is captured: all that it needs is there.

    Lengths, starts and scores are read where they lie whenever it is made. Nothing is allocated then, and nothing waits
    for the device. The output is not poisoned in between; reports are those of the last launch.

    Attributes:
        launched: what it returns.
    """

    launched: Launched
    _device: int
    _kernel: Any
    _arguments: tuple[Any, ...]
    _begins: tuple[tuple[torch.Tensor, int], ...]  # what the kernel reads, and what each of its cells then holds

    def __call__(self) -> None:
        """Queue it on torch's current stream."""
        for tensor, fill in self._begins:
            tensor.fill_(fill)
        geometry, cupy = self.launched.geometry, load_cupy()
        if geometry.blocks:
            with cupy.cuda.Device(self._device), current_stream(cupy, self._device):
                self._kernel((geometry.blocks,), (geometry.threads,), self._arguments, shared_mem=geometry.shared_bytes)


def prepare(
    path: Path,
    variant: str,
    scores: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    *,
    starts: torch.Tensor | None = None,
    output: torch.Tensor | None = None,
    emission: Emission | None = None,
    positions: torch.Tensor | bool = False,
    width: int | None = None,
    spans: torch.Tensor | None = None,
    telemetry: bool = True,
    histograms: bool = False,
    dropped: int = 0,
) -> Prepared:
    """All that ``launch`` does before the kernel runs; arguments and errors are those of it.

    Args:
        spans: int32 [RESIDUES, 2], contiguous, on the device: the first and the last length of the rows that the
            launch takes, by ``start % RESIDUES``. Of those only rows whose cells lie inside ``width`` are taken, and
            all others are left as they are. Every row is taken where it is not given.
    """
    _refuse(unavailable())
    rows = _checked(path, variant, scores, lengths, starts, k)
    device = scores.device.index
    _refuse(list(_needs(path, variant, device, telemetry)))
    width, maps = max(width or 0, scores.shape[1]), emission is not None or positions is not False
    grid, lacking = _grid(path, variant, rows, width, k, device, telemetry, maps)
    _refuse(lacking)
    if output is None:
        output = torch.full((rows, k), UNWRITTEN, dtype=torch.int32, device=scores.device)
    beside = None if positions is False else poisoned_like(output) if positions is True else positions
    for name, one in (("output", output), ("positions", beside)):
        if one is not None and (_unlike(one, (rows, k), scores.device) or not _apart(one)):
            raise UsageError(f"{name} must be int32 [{rows}, {k}], rows apart from each other, on {scores.device}")
    if beside is not None and rows > 1 and beside.stride(0) != output.stride(0):
        raise UsageError(f"rows of positions lie {beside.stride(0)} apart, those of the output {output.stride(0)}")
    if emission is not None:
        _refuse(emission.refusals(rows, scores.device))
    if spans is not None and (_unlike(spans, (RESIDUES, 2), scores.device) or not spans.is_contiguous()):
        raise UsageError(f"spans must be int32 [{RESIDUES}, 2], contiguous, on {scores.device}")
    begun = telemetry_of(path, variant, k)

    def book(width: int, wanted: bool = True) -> torch.Tensor | None:
        given = wanted and telemetry and width > 0
        return torch.empty((rows, width), dtype=torch.int32, device=scores.device) if given else None

    books = (
        book(report_ints_of(path, variant)),
        book(1 << (begun.key_bits or 0), histograms and begun.key_bits is not None),
        book(dropped),
    )
    kernel, built = _loaded(path, variant, device, telemetry, maps)
    facts = built.facts
    blocks, bytes_ = grid.blocks * (rows if grid.groups is None else grid.groups), facts.shared_bytes + grid.more_shared
    clusters = _clusters(path, variant, device, telemetry)
    geometry = Geometry(
        blocks if rows else 0, walk_of(path).threads, bytes_, facts.registers, facts.spilled, grid.blocks, clusters
    )
    cells, zeroed = grid.workspace(rows)
    workspace = torch.empty(cells, dtype=torch.int32, device=scores.device)
    cupy = load_cupy()

    def at(tensor: torch.Tensor | None) -> Any:
        return 0 if tensor is None or not tensor.numel() else cupy.from_dlpack(tensor.detach())

    with cupy.cuda.Device(device), current_stream(cupy, device):
        across, down, wanted, together, room = map(cupy.int32, (width, rows, k, grid.blocks, dropped))
        read = (at(_plain(scores)), scores.stride(0), across, down, at(lengths), at(starts), wanted)
        written = (at(output), at(beside), output.stride(0), *arguments_of(emission, at, cupy.int32))
        told = (together, at(workspace), *map(at, books), room, at(spans))
    reports = None if books[0] is None else (books[0], books[1], books[2])
    launched = Launched(output, geometry, reports, (path, variant, k), beside)
    begins = zip((workspace[:zeroed], *books), (0, 0, 0, -1), strict=True)
    kept = tuple((one, fill) for one, fill in begins if one is not None and one.numel())
    return Prepared(launched, device, kernel, (*read, *written, *told), kept)


@dataclass(frozen=True)
class _Stream:
    """A stream as the CUDA stream protocol hands it on."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle  # version of the protocol


def current_stream(cupy: Any, device: int) -> Any:
    """Torch's current stream of a device, for CuPy."""
    handle = torch._C._cuda_getCurrentRawStream(device)
    if handle == 0:
        return cupy.cuda.Stream.null
    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14, which gives up the class of before
        return cupy.cuda.Stream.from_external(_Stream(handle))
    return cupy.cuda.ExternalStream(handle, device)


def poisoned_like(output: torch.Tensor) -> torch.Tensor:
    """As many slots as far apart, each holding ``UNWRITTEN``."""
    rows, k = output.shape
    apart = output.stride(0) if rows > 1 else k
    return torch.full((rows, apart), UNWRITTEN, dtype=torch.int32, device=output.device)[:, :k]


def _apart(rows: torch.Tensor) -> bool:
    """Whether no two cells of the rows are one, and those of a row lie side by side."""
    return (rows.shape[1] <= 1 or rows.stride(1) == 1) and (rows.shape[0] <= 1 or rows.stride(0) >= rows.shape[1])


def _plain(scores: torch.Tensor) -> torch.Tensor:
    """The scores as they can be handed on: as bits where CuPy may not know their dtype."""
    return scores if scores.dtype == torch.float32 else scores.view(torch.int16)


def _checked(
    path: Path, variant: str, scores: torch.Tensor, lengths: torch.Tensor, starts: torch.Tensor | None, k: int
) -> int:
    """How many rows a launch has."""
    kernel = kernel_of(path, variant)
    if kernel is None:
        raise UsageError(without_kernel(path, variant))
    dtype, taken = str(scores.dtype).removeprefix("torch."), [one for one in path.dtypes if kernel.takes(one)]
    if dtype not in taken or scores.dim() != 2 or not scores.is_cuda:
        raise UsageError(f"scores must be {listed(taken, 'or')} [rows, width] on a CUDA device")
    rows, width = scores.shape
    if rows and width and scores.stride(1) != 1:
        raise UsageError("the scores of a row must lie side by side")
    for name, tensor in (("lengths", lengths), ("starts", starts)):
        if tensor is not None and (_unlike(tensor, (rows,), scores.device) or not tensor.is_contiguous()):
            raise UsageError(f"{name} must be int32 [{rows}], contiguous, on {scores.device}")
    reasons = path.unmet(k=k, length=None, dtype=dtype)
    if k < 1:
        reasons.append(f"k is {k}; it must be at least 1")
    _refuse(reasons)
    return rows


def _unlike(tensor: torch.Tensor, shape: tuple[int, ...], device: torch.device) -> bool:
    return tensor.dtype != torch.int32 or tuple(tensor.shape) != shape or tensor.device != device


def _refuse(reasons: list[str]) -> None:
    if reasons:
        raise UsageError("; ".join(reasons))


@cache
def _needs(path: Path, variant: str, device: int, telemetry: bool) -> tuple[str, ...]:
    kernel, limits = kernel_of(path, variant), limits_of(device)
    if kernel is None:
        return (without_kernel(path, variant),)
    ranks = ranks_of(path, variant)
    cluster = 0 if ranks is None else ranks.count
    too_old = limits.lacks(0, kernel.needs, cluster)
    if too_old:
        return tuple(too_old)
    each = build(path, variant, limits.arch, telemetry=telemetry).facts.shared_bytes
    lacks = limits.lacks(each, kernel.needs)
    if cluster and not lacks and not _clusters(path, variant, device, telemetry):
        lacks.append(
            f"{limits.name} has no room for a cluster of {cluster} blocks with {each} bytes of shared memory each"
        )
    return tuple(lacks)


@cache
def _loaded(path: Path, variant: str, device: int, telemetry: bool, maps: bool = False) -> tuple[Any, Built]:
    """A kernel on a device, ready to be launched; kept for the life of the process."""
    cupy, limits = load_cupy(), limits_of(device)
    built, chosen = build(path, variant, limits.arch, telemetry=telemetry, maps=maps), kernel_of(path, variant)
    waits = chosen is not None and chosen.waits
    with cupy.cuda.Device(device):
        # A launch whose blocks wait for each other must be cooperative: it fails where they would not all run.
        kernel = cupy.RawModule(path=str(built.cubin), enable_cooperative_groups=waits).get_function(ENTRY)
        if waits or built.facts.shared_bytes > STATIC_SHARED:
            kernel.max_dynamic_shared_size_bytes = limits.optin_bytes if waits else built.facts.shared_bytes
        if (ranks := ranks_of(path, variant)) is not None:
            allow_size(cupy, kernel, ranks.count)
        _ = kernel.num_regs  # the driver loads the code for that, which it must not do while a graph is captured
    return kernel, built


@cache
def _clusters(path: Path, variant: str, device: int, telemetry: bool) -> int | None:
    """How many clusters of a kernel a device runs at once; ``None`` where blocks form none."""
    if (ranks := ranks_of(path, variant)) is None:
        return None
    kernel, built = _loaded(path, variant, device, telemetry)
    with load_cupy().cuda.Device(device):
        return clusters_at_once(kernel, ranks.count, walk_of(path).threads, built.facts.shared_bytes)


def _grid(
    path: Path, variant: str, rows: int, width: int, k: int, device: int, telemetry: bool, maps: bool = False
) -> tuple[Grid, list[str]]:
    """The blocks of a launch, as many groups of them as the device runs at once; and why it cannot run even one."""
    limits = limits_of(device)
    grid = grid_of(path, variant, Shape(rows, width, k, limits.optin_bytes, limits.sms))
    if grid.groups is None:
        return grid, []
    kernel, built = _loaded(path, variant, device, telemetry, maps)
    cupy, shared_bytes = load_cupy(), built.facts.shared_bytes + grid.more_shared
    if lacking := limits.lacks(shared_bytes, (0, 0)):
        return grid, lacking
    with cupy.cuda.Device(device):
        occupancy = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
        resident = occupancy(kernel.kernel.ptr, walk_of(path).threads, shared_bytes) * limits.sms
    if resident < grid.blocks:
        return grid, [
            f"a row of {width} columns takes {grid.blocks} blocks that wait for each other, {limits.name} runs "
            f"{resident} of {walk_of(path).threads} threads and {shared_bytes} bytes at once"
        ]
    return replace(grid, groups=min(grid.groups, resident // grid.blocks)), []
