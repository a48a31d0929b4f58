"""Run every kernel on small rows: what compute-sanitizer is given.

compute-sanitizer --tool memcheck|racecheck|synccheck --error-exitcode 1 python3 -m tests.gpu.small_cases [GLOB] [KINDS]

GLOB is of a path and its variant, parted by a space, or of a source that is no selector (``census.cu``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import partial

import torch

from tests.kernels.expected import CASES, TRIVIAL, rows_for, takes
from tests.kernels.mapped import made, on_device
from tests.kernels.returned import emissions
from tests.kernels.screened import batches, spoiled, suspected
from tests.kernels.test_support import amax_rows, selections
from workbench.engines.cuda import support
from workbench.engines.cuda.census import count_rows
from workbench.engines.cuda.launch import launch
from workbench.engines.cuda.screen import screen_rows
from workbench.paths.spec import Path

KINDS = (
    "least length",
    "minus infinity",
    "one bin",
)  # what the cut falls into: nothing, more than is ranked, a full buffer
LENGTHS = (700, 40_000)  # that one block counts, and several


def chosen(path: Path, variant: str, kinds: int) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Of each kind the shortest row that a variant takes; one without a choice where it makes none."""
    if (path, variant) in TRIVIAL:
        yield "no choice", torch.zeros(300), 300
        return
    fitting = [row for row in rows_for(path, variant) if takes(path, path.variant(variant), row[1], row[2])]
    for kind in KINDS[:kinds]:
        of_kind = [row for row in fitting if row[0] == kind] or fitting
        yield min(of_kind, key=lambda row: row[1].numel())


def select(path: Path, variant: str, kinds: int) -> Iterator[str]:
    """Both builds: the one with telemetry writes positions, the one for timing page-table entries too."""
    for name, scores, k in chosen(path, variant, kinds):
        lengths = [scores.numel(), k, 0]
        rows, given = scores.cuda()[None].expand(3, -1).contiguous(), torch.tensor(lengths, dtype=torch.int32)
        emission = next(iter(emissions(lengths, "cuda")))[1]
        told = launch(path, variant, rows, given.cuda(), k, histograms=True, dropped=64)
        launch(path, variant, rows, given.cuda(), k, emission=emission, positions=True, telemetry=False)
        yield f"{name}, k {k}, length {scores.numel()}, {len(told.reports)} rows"


def count() -> Iterator[str]:
    for length in LENGTHS:
        for name, batch in batches(length).items():
            starts = None if batch.starts is None else batch.starts.cuda()
            counted = count_rows(batch.scores.cuda(), batch.lengths.cuda(), batch.k, starts=starts).rows()
            yield f"{name}, {length} scores, {len(counted)} rows"


def screen() -> Iterator[str]:
    """Both steps: what was picked, and the rows held against it."""
    for length in LENGTHS:
        for name, batch in batches(length).items():
            what, selected, offsets = next(iter(spoiled(batch)))
            _, gates = suspected(batch, selected, offsets)
            starts, moved = (None if one is None else one.cuda() for one in (batch.starts, offsets))
            scores, lengths = batch.scores.cuda(), batch.lengths.cuda()
            found = screen_rows(scores, lengths, selected.cuda(), gates, starts=starts, offsets=moved)
            yield f"{name}, {what}, {length} scores, {len(found.rows())} rows found"


def turn_back() -> Iterator[str]:
    for mode, pool, page_size in (("table", 1, 8), ("owners", 4, 64), ("plain", 1, 1), ("offsets", 4, 1)):
        rows, _ = on_device(made(mode, pool, page_size)).positions().shape
        yield f"{mode}, pools of {pool}, pages of {page_size}, {rows} rows"


def maxima() -> Iterator[str]:
    rows, lengths = amax_rows()
    keys = support.block_amax(rows.cuda(), torch.tensor(lengths, dtype=torch.int32).cuda())
    yield f"{tuple(keys.shape)}"


def table() -> Iterator[str]:
    cases = selections(40)
    ids = torch.stack([one for one, _ in cases]).cuda()
    lengths = torch.tensor([length for _, length in cases], dtype=torch.int32).cuda()
    yield f"{int(support.candidate_blocks(ids, lengths)[1].sum())} ids left out"


def clusters() -> Iterator[str]:
    """The driver is asked about this kernel, which nobody launches."""
    yield f"{support.resident_clusters(2, 1)} clusters of 2 blocks at once"


SUPPORT_CASES: dict[tuple[str, ...], Callable[[], Iterator[str]]] = {
    ("census.cu",): count,
    ("picked.cu", "screen.cu"): screen,
    ("positions.cu",): turn_back,
    ("block_amax.cu",): maxima,
    ("candidate_blocks.cu",): table,
    ("probe.cu",): clusters,
}


def named(pattern: str, kinds: int = 1) -> dict[str, Callable[[], Iterator[str]]]:
    """What runs a case, by its name: a path and a variant, or the first source of its kernels."""
    cases: dict[str, Callable[[], Iterator[str]]] = {
        f"{path.name} {variant}": partial(select, path, variant, kinds) for path, variant in (*CASES, *TRIVIAL)
    }
    cases |= {names[0]: run for names, run in SUPPORT_CASES.items()}
    return {name: run for name, run in cases.items() if fnmatch(name, pattern)}


def main(pattern: str = "*", kinds: str = "1") -> int:
    """Launch what the pattern names, and say of each launch that it ended; 1 if it names nothing."""
    cases = named(pattern, int(kinds))
    for name, run in cases.items():
        for told in run():
            torch.cuda.synchronize()
            print(f"{name}: {told}", flush=True)
    return 0 if cases else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
