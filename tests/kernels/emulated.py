"""Kernels built for the CPU by ``host_shim.h``: block by block, threads as fibers in the order of a seed."""

from __future__ import annotations

import ctypes
import hashlib
import secrets
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path as File

import torch

from workbench.engines.cuda.grid import Grid, Shape
from workbench.engines.cuda.reports import Report, read_report
from workbench.engines.cuda.sources import (
    build_options,
    grid_of,
    kernel_of,
    ranks_of,
    report_ints_of,
    source_digest,
    source_of,
    telemetry_of,
    unbinned_of,
)
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Buffer, Path, Walk
from workbench.paths.walk import walk_of
from workbench.resources import kernels_dir

SHIM = File(__file__).with_name("host_shim.h")
THREADS = 128  # fewer than on the device, which costs only time
FEWER = (8, 3)  # blocks of a cluster
SMS = 3  # multiprocessors, each of which runs a block of those that wait for each other
GUARD = 64  # slots before and after the output that nobody may write
COMPILER = shutil.which("g++") or shutil.which("clang++")


def fewer_threads(path: Path, threads: int = THREADS) -> Path:
    """The path with blocks of so many threads, and three for the eight of a cluster, which no row fills evenly."""
    variants = tuple(replace(one, buffer=_fewer_blocks(one.buffer)) for one in path.variants)
    return replace(path, walk=Walk(walk_of(path).load, threads), buffer=_fewer_blocks(path.buffer), variants=variants)


def _fewer_blocks(buffer: Buffer | None) -> Buffer | None:
    if buffer is None or buffer.ranks is None or buffer.ranks.count != FEWER[0]:
        return buffer
    return replace(buffer, ranks=replace(buffer.ranks, count=FEWER[1]))


def build(folder: File, path: Path, variant: str, *, telemetry: bool = True) -> ctypes.CDLL:
    """The kernel of a variant as a library of this machine, from the folder or built into it."""
    return build_source(folder, source_of(path, variant), build_options(path, variant, telemetry=telemetry))


def build_source(folder: File, source: str, options: tuple[str, ...], wrapper: str = "") -> ctypes.CDLL:
    """A source as a library, from the folder or built into it.

    Args:
        wrapper: C++ that calls the kernel of a source that is no selector; defines ``emulate``.
    """
    named = f"{source_digest(source)} {source} {options} {SHIM.read_text()} {wrapper}"
    library = folder / f"{hashlib.sha256(named.encode()).hexdigest()[:24]}.so"
    if not library.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        made = library.with_suffix(f".{secrets.token_hex(4)}")  # the same kernel may be built twice at once
        flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{kernels_dir()}", "-include", str(SHIM)]
        own = ["-DEMULATED_OWN"] if wrapper else []
        command = [COMPILER, *flags, *own, *options, "-x", "c++", "-", "-o", str(made)]
        text = f'#include "{source}"\n{wrapper}'
        subprocess.run(command, check=True, capture_output=True, text=True, input=text)
        made.replace(library)
    return _load(library)


@cache
def _load(library: File) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library))
    loaded.emulate.restype = ctypes.c_char_p
    return loaded


def select(
    library: ctypes.CDLL,
    path: Path,
    variant: str,
    rows: torch.Tensor,
    lengths: list[int],
    k: int,
    *,
    starts: list[int] | None = None,
    seed: int = 0,
    room: int = 0,
    grid: Grid | None = None,
    spans: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> list[tuple[Selection, Report, torch.Tensor]]:
    """Run a launch: for each row its selection, its report and its histogram.

    Args:
        rows: [rows, width] of the kernel's dtype. room: dropped members that are listed. grid: where it is not
            the one of the launch. spans: int32 [RESIDUES, 2] of the lengths that the launch takes, all where not given.
        out: int32 [rows, k] that is written, poisoned where not given.
    """
    kernel = kernel_of(path, variant)
    assert kernel is not None
    assert kernel.takes(str(rows.dtype).removeprefix("torch."))
    assert rows.stride(1) == 1
    count, begun = rows.shape[0], telemetry_of(path, variant, k)
    guarded = torch.full((count * k + 2 * GUARD,), UNWRITTEN, dtype=torch.int32)
    output = guarded[GUARD : GUARD + count * k]
    if out is not None:
        output.copy_(out.flatten())
    reports = torch.zeros(count, report_ints_of(path, variant), dtype=torch.int32)
    histograms = torch.zeros(count, 1 << (begun.key_bits or 0), dtype=torch.int32)
    dropped = torch.full((count, max(room, 1)), -1, dtype=torch.int32)
    numbers = torch.tensor(lengths, dtype=torch.int32)
    begins = None if starts is None else torch.tensor(starts, dtype=torch.int32)
    grid = grid or grid_of(path, variant, Shape(count, rows.shape[1], k, sms=SMS))
    total = grid.blocks * (count if grid.groups is None else grid.groups)
    at_once = total if grid.groups is not None else 1 if ranks_of(path, variant) is None else grid.blocks
    cells, zeroed = grid.workspace(count)
    workspace = torch.full((cells + GUARD,), UNWRITTEN, dtype=torch.int32)
    workspace[:zeroed] = 0
    wrong = library.emulate(
        walk_of(path).threads,
        total,
        at_once,
        grid.more_shared,
        ctypes.c_uint(seed),
        pointer(rows),
        ctypes.c_longlong(rows.stride(0)),
        rows.shape[1],
        count,
        pointer(numbers),
        pointer(begins),
        k,
        pointer(output),
        grid.blocks,
        pointer(workspace),
        pointer(reports),
        pointer(histograms if begun.key_bits else None),
        pointer(dropped if room else None),
        room,
        pointer(spans),
    )
    assert wrong is None, wrong.decode()
    assert bool((guarded[:GUARD] == UNWRITTEN).all())
    assert bool((guarded[-GUARD:] == UNWRITTEN).all())
    assert bool((workspace[-GUARD:] == UNWRITTEN).all())
    if out is not None:
        out.copy_(output.view_as(out))
    found = []
    for row in range(count):
        listed = dropped[row] if room else None
        report = read_report(reports[row].tolist(), begun, histograms[row], listed, unbinned_of(path, variant, k))
        found.append((Selection(output[row * k : (row + 1) * k].clone(), report.telemetry), report, histograms[row]))
    return found


def pointer(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())
