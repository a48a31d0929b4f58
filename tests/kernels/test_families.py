"""What single families do beside selecting: rows that several blocks share, garbage, bounds."""

from __future__ import annotations

from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated import fewer_threads
from tests.kernels.expected import check
from workbench.analysis.reference import reference
from workbench.capture.row import Call, Row
from workbench.engines.cuda.grid import RADIX_BINS, RADIX_COUNTERS, Grid, Shape, group_cells
from workbench.engines.cuda.sources import grid_of
from workbench.paths.catalog import get_path
from workbench.paths.models import per_row
from workbench.paths.own_variants import RADIX_FROM, SPLIT_FROM

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> File:
    """Where the libraries are, kept between runs."""
    return File(str(request.config.cache.mkdir("emulated-kernels")))


def near_the_padding(in_slices: bool = False) -> dict[str, torch.Tensor]:
    """Rows that end among scores which a sort's padding equals or outranks.

    Not among both, nor among what equals the padding where short slices hand that on: which candidates stand before it
    is then up to the arrival order.
    """
    generator = torch.Generator().manual_seed(3)
    normal = torch.randn(900, generator=generator)
    part = torch.rand(900, generator=generator)
    lowest = torch.where(part < 0.3, normal, per_row.LOWEST)
    equal = {} if in_slices else {"-FLT_MAX": lowest}
    return equal | {
        "-inf": torch.where(part < 0.4, normal, -torch.inf),
        "all -inf": torch.full((900,), -torch.inf),
        "NaN": torch.where(part < 0.4, torch.nan, normal),
        "NaN of both signs": torch.where(part < 0.4, torch.nan, torch.where(part < 0.8, -torch.nan, normal)),
    }


@pytest.mark.parametrize("width", [RADIX_FROM - 1, RADIX_FROM, SPLIT_FROM - 1, SPLIT_FROM])
def test_per_row_sorts_by_the_padded_width(width: int, folder: File) -> None:
    """Rows of one call; where they end among -FLT_MAX, NaN or -inf, garbage follows from the way they are sorted."""
    path = fewer_threads(get_path("vllm.per_row"))
    library = emulated.build(folder, path, "stock")
    scores = near_the_padding(width >= SPLIT_FROM)
    rows = torch.zeros(len(scores), width)
    rows[:, 1:901] = torch.stack(list(scores.values()))
    for k in (1, 300, 500, 899):
        found = emulated.select(library, path, "stock", rows, [900] * len(rows), k, starts=[1] * len(rows), seed=k)
        for (name, row), (made, report, _) in zip(scores.items(), found, strict=True):
            try:
                check(path, "stock", row, k, made, report, start=1, width=width)
            except AssertionError as error:
                raise AssertionError(f"{name}, k {k}: {error}") from error


def test_per_row_cuts_slices_that_need_digits(folder: File) -> None:
    """Slices and the merge that hold more than the buffer in one bin."""
    path = fewer_threads(get_path("vllm.per_row"))
    library = emulated.build(folder, path, "decode_split")
    row = 1 + torch.rand(40000, generator=torch.Generator().manual_seed(4)) / 1024
    ((made, report, _),) = emulated.select(library, path, "decode_split", row[None], [40000], 2500, seed=1)
    check(path, "decode_split", row, 2500, made, report)
    assert report.telemetry.cost.fallback


@pytest.mark.parametrize(("name", "variant"), [("vllm.radix", "stock"), ("flashinfer.radix", "deterministic")])
@pytest.mark.parametrize(("blocks", "groups"), [(1, 2), (2, 2), (3, 1), (5, 2)])
def test_groups_of_blocks_share_rows(name: str, variant: str, blocks: int, groups: int, folder: File) -> None:
    """Fewer groups than rows: each serves one after the other, short and idle ones between, and never mixes two."""
    path = fewer_threads(get_path(name))
    library = emulated.build(folder, path, variant)
    generator = torch.Generator().manual_seed(7)
    rows = torch.randn(7, 2003, generator=generator)
    rows[1], rows[5] = -rows[0], torch.where(rows[5] > 0, 1.0, rows[5])
    lengths, starts = [2000, 2000, 37, 0, 512, 1999, 513], [0, 3, 1, 0, 2, 1, 0]
    grid = Grid(blocks, groups, 4 * 4 * -(-2003 // (4 * blocks)), group_cells(RADIX_BINS, RADIX_COUNTERS), blocks)
    for seed in range(3):
        found = emulated.select(library, path, variant, rows, lengths, 512, starts=starts, seed=seed, grid=grid)
        for row, (length, start, (made, report, _)) in enumerate(zip(lengths, starts, found, strict=True)):
            if length > 512:
                scores = rows[row, start : start + length]
                check(path, variant, scores, 512, made, report, start=start)
                if variant == "deterministic":
                    exact = reference(Row(scores, length, call=Call(width=length)), 512).indices
                    assert torch.equal(made.indices.sort().values, exact.to(torch.int32).sort().values)
            else:
                first = torch.arange(512, dtype=torch.int32)
                assert torch.equal(made.indices, torch.where(first < length, first, -1))


def test_blocks_of_a_radix_row() -> None:
    """As many as it takes to hold the row, by the rule of the released kernel."""
    few, some, many = (grid_of(get_path("vllm.radix"), "stock", Shape(rows, 131072, 2048)) for rows in (4, 8, 32))
    assert [(one.blocks, one.groups) for one in (few, some, many)] == [(16, 4), (12, 8), (3, 32)]
    assert few.more_shared == 4 * 131072 // 16
