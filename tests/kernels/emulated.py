"""Kernels built for the CPU by ``host_shim.h``: block by block, threads as fibers in the order of a seed."""

from __future__ import annotations

import ctypes
import hashlib
import re
import secrets
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path as File

import torch

from workbench.engines.cuda.compile import source_digest
from workbench.engines.cuda.emission import Emission, arguments_of
from workbench.engines.cuda.grid import Grid, Shape
from workbench.engines.cuda.reports import Report, read_report
from workbench.engines.cuda.sources import (
    build_options,
    grid_of,
    kernel_of,
    ranks_of,
    report_ints_of,
    source_of,
    telemetry_of,
    unbinned_of,
)
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Buffer, Path, Walk
from workbench.paths.walk import walk_of
from workbench.resources import kernels_dir

SHIM, RUNTIME = File(__file__).with_name("host_shim.h"), ("host_run", "races")
THREADS = 128  # fewer than on the device, which costs only time
FEWER = (8, 3)  # blocks of a cluster
SMS = 3  # multiprocessors, each of which runs a block of those that wait for each other
GUARD = 64  # slots that nobody may write, before and after the workspace and the output of every row
COMPILER = shutil.which("g++") or shutil.which("clang++")


def fewer_threads(path: Path, threads: int = THREADS) -> Path:
    """The path with blocks of so many threads, and three for the eight of a cluster, which no row fills evenly."""
    variants = tuple(replace(one, buffer=_fewer_blocks(one.buffer)) for one in path.variants)
    return replace(path, walk=Walk(walk_of(path).load, threads), buffer=_fewer_blocks(path.buffer), variants=variants)


def _fewer_blocks(buffer: Buffer | None) -> Buffer | None:
    if buffer is None or buffer.ranks is None or buffer.ranks.count != FEWER[0]:
        return buffer
    return replace(buffer, ranks=replace(buffer.ranks, count=FEWER[1]))


def build(
    folder: File, path: Path, variant: str, *, telemetry: bool = True, runtime: File | None = None
) -> ctypes.CDLL:
    """The kernel of a variant as a library of this machine, from the folder or built into it.

    Args:
        runtime: the folder of what runs it, where that is another.
    """
    options = build_options(path, variant, telemetry=telemetry, maps=True)
    return build_source(folder, source_of(path, variant), options, runtime=runtime)


def build_source(
    folder: File, source: str, options: tuple[str, ...], wrapper: str = "", runtime: File | None = None
) -> ctypes.CDLL:
    """A source as a library, from the folder or built into it.

    Args:
        wrapper: C++ that calls the kernel of a source that is no selector; defines ``emulate``.
        runtime: the folder of what runs it, where that is another.
    """
    runs = [_runtime(runtime or folder, name) for name in RUNTIME]
    named = f"{source_digest(source)} {source} {options} {SHIM.read_text()} {wrapper} {[one.name for one in runs]}"
    library = folder / f"{_digest(named)}.so"
    if not library.is_file():
        flags = [f"-I{kernels_dir()}", "-include", str(SHIM), *(["-DEMULATED_OWN"] if wrapper else []), *options]
        text = f'#include "{source}"\n{wrapper}'
        kernel = folder / f"{secrets.token_hex(12)}.o"
        _compiled(kernel, ["-g1", "-fsanitize=thread", *flags, "-x", "c++", "-"], text)
        _compiled(library, ["-shared", "-Wl,-Bsymbolic", str(kernel), *map(str, runs), "-ldl"])
        kernel.unlink()
    return _load(library)


def _runtime(folder: File, name: str) -> File:
    """What runs the kernels; it is not told of itself, and linked in place of the sanitizer's runtime."""
    source, beside = SHIM.with_name(f"{name}.cpp"), [SHIM, SHIM.with_name("races.h")]
    built = folder / f"{name}-{_digest(''.join(one.read_text() for one in (source, *beside)))}.o"
    return built if built.is_file() else _compiled(built, ["-O2", str(source)])


def _compiled(made: File, arguments: list[str], text: str = "") -> File:
    made.parent.mkdir(parents=True, exist_ok=True)
    own = made.with_suffix(f".{secrets.token_hex(4)}")  # the same may be built twice at once
    steps = [] if "-shared" in arguments else ["-c"]
    command = [COMPILER, "-std=c++17", "-O1", "-w", "-fPIC", *steps, *arguments, "-o", str(own)]
    subprocess.run(command, check=True, capture_output=True, text=True, input=text)
    return own.replace(made)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


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
    emission: Emission | None = None,
    beside: torch.Tensor | bool = False,
) -> list[tuple[Selection, Report, torch.Tensor]]:
    """Run a launch: for each row its selection, its report and its histogram.

    Args:
        rows: [rows, width] of the kernel's dtype. room: dropped members that are listed. grid: where it is not
            the one of the launch. spans: int32 [RESIDUES, 2] of the lengths that the launch takes, all where not given.
        out: int32 [rows, k] that is written, poisoned where not given. emission: what is returned in place of
            positions. beside: whether positions are written too, or int32 [rows, k] that they are written to; a
            selection then has these, and what was returned.
    """
    kernel = kernel_of(path, variant)
    assert kernel is not None
    assert kernel.takes(str(rows.dtype).removeprefix("torch."))
    assert rows.stride(1) == 1
    count, begun = rows.shape[0], telemetry_of(path, variant, k)
    apart, both = k + GUARD, beside is not False
    guarded = [torch.full((GUARD + count * apart,), UNWRITTEN, dtype=torch.int32) for _ in range(2 if both else 1)]
    slots = [one[GUARD:].view(count, apart)[:, :k] for one in guarded]
    if out is not None:
        slots[0].copy_(out)
    if isinstance(beside, torch.Tensor):
        slots[1].copy_(beside)
    reports = torch.zeros(count, report_ints_of(path, variant), dtype=torch.int32)
    histograms = torch.zeros(count, 1 << (begun.key_bits or 0), dtype=torch.int32)
    dropped = torch.full((count, max(room, 1)), -1, dtype=torch.int32)
    numbers = torch.tensor(lengths, dtype=torch.int32)
    begins = None if starts is None else torch.tensor(starts, dtype=torch.int32)
    grid = grid or grid_of(path, variant, Shape(count, rows.shape[1], k, sms=SMS))
    total = grid.blocks * (count if grid.groups is None else grid.groups)
    at_once = total if grid.groups is not None else 1 if ranks_of(path, variant) is None else grid.blocks
    cells, zeroed = grid.workspace(count)
    all_cells = torch.full((cells + 2 * GUARD,), UNWRITTEN, dtype=torch.int32)
    workspace = all_cells[GUARD:]
    workspace[:zeroed] = 0
    memory = {
        "the output": guarded[0],
        "the workspace": workspace,
        "the reports": reports,
        "the histograms": histograms,
    }
    for name, tensor in {**memory, "the dropped members": dropped}.items():
        library.emulated_watch(name.encode(), pointer(tensor), ctypes.c_ulong(4 * tensor.numel()))
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
        pointer(guarded[0][GUARD:]),
        pointer(guarded[1][GUARD:] if both else None),
        ctypes.c_longlong(apart),
        *_told_of(emission),
        grid.blocks,
        pointer(workspace),
        pointer(reports),
        pointer(histograms if begun.key_bits else None),
        pointer(dropped if room else None),
        room,
        pointer(spans),
    )
    library.emulated_watch(None, None, ctypes.c_ulong(0))
    assert wrong is None, _with_lines(wrong.decode(), File(library._name))
    for one in guarded:
        assert bool((one[:GUARD] == UNWRITTEN).all())
        assert bool((one[GUARD:].view(count, apart)[:, k:] == UNWRITTEN).all())
    assert bool((all_cells[:GUARD] == UNWRITTEN).all())
    assert bool((all_cells[-GUARD:] == UNWRITTEN).all())
    if out is not None:
        out.copy_(slots[0])
    if isinstance(beside, torch.Tensor):
        beside.copy_(slots[1])
    returned, *others = (one.clone() for one in slots)
    indices = others[0] if others else returned
    found = []
    for row in range(count):
        listed = dropped[row] if room else None
        report = read_report(reports[row].tolist(), begun, histograms[row], listed, unbinned_of(path, variant, k))
        selection = Selection(indices[row], report.telemetry, returned[row] if others else None)
        found.append((selection, report, histograms[row]))
    return found


def _told_of(emission: Emission | None) -> tuple[object, ...]:
    """What the kernel is told of the mapping; ints of eight bytes say so."""
    given = arguments_of(emission, pointer, ctypes.c_int)
    return tuple(ctypes.c_longlong(one) if isinstance(one, int) else one for one in given)


def _with_lines(told: str, library: File) -> str:
    """What was told, with the lines of the sources in place of ``<addresses>`` of the machine code."""

    def line(address: re.Match[str]) -> str:
        command = ["addr2line", "-i", "-e", str(library), address[1]]
        try:
            inlined = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
        except (OSError, subprocess.CalledProcessError):
            return f"at {address[1]}"
        lines = [File(one.split(" ")[0]).name for one in inlined if one]
        shown = [one for one in lines if SHIM.name not in one]
        return f"in {' of '.join(shown or lines)}"

    return re.sub(r"<(0x[0-9a-f]+)>", line, told)


def pointer(tensor: torch.Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())
