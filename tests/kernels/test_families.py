"""What single families do beside selecting: rows that several blocks share, garbage, bounds."""

from __future__ import annotations

from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.emulated import fewer_threads
from tests.kernels.expected import TRIVIAL, check
from workbench.analysis.reference import reference
from workbench.capture.row import Call, Row
from workbench.engines.cuda.grid import RADIX_BINS, RADIX_COUNTERS, Grid, Shape, group_cells
from workbench.engines.cuda.sources import grid_of
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import get_path
from workbench.paths.model import run_model
from workbench.paths.models import per_row
from workbench.paths.models.sampled import sample_places
from workbench.paths.own_variants import RADIX_FROM, SPLIT_FROM
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path

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
    grid = Grid(blocks, groups, 4 * 4 * -(-2003 // (4 * blocks)), RADIX_COUNTERS, group_cells(RADIX_BINS), blocks)
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


def sampled_rows(capacity: int, length: int) -> dict[str, torch.Tensor]:
    """Rows whose sampled cut-off leaves as many survivors as wanted, too few of them, and too many."""
    generator = torch.Generator().manual_seed(12)
    normal = torch.randn(length, generator=generator)
    peaks = -normal.abs()
    places = sample_places(length, capacity // 2)
    peaks[places] = 5 + normal[: capacity // 2]
    few_nan = normal.clone()
    few_nan[places[:20]] = few_nan[1000:1200] = torch.nan
    return {
        "normal": normal,
        "peaks on the sample": peaks,
        "constant": torch.full((length,), 0.75),
        "past fp16": torch.arange(70000, 70000 - length, -1, dtype=torch.float32),
        "zeros of both signs": torch.where(normal > 1.8, normal, torch.where(normal > 0, 0.0, -0.0)),
        "NaN": torch.where(normal > 2.8, torch.nan, normal),
        "NaN that survive": few_nan,
        "many NaN": torch.where(normal > 0, torch.nan, normal),
        "minus infinity": torch.where(normal > 2, normal, -torch.inf),
        "all minus infinity": torch.full((length,), -torch.inf),
    }


def test_sampled_survivors(folder: File) -> None:
    """A buffer that is scaled down, so that short rows are sampled."""
    capacity, length = 256, 8 * 256
    path = fewer_threads(get_path("vllm.sampled").scaled(capacity=capacity, variants=True))
    library, ways = emulated.build(folder, path, "stock"), set()
    for more in (0, 1, 3000):
        for seed, (name, row) in enumerate(sampled_rows(capacity, length + more).items()):
            for k in (1, 100, 200):
                ((made, report, _),) = emulated.select(
                    library, path, "stock", row[None], [length + more], k, seed=seed, room=4
                )
                try:
                    check(path, "stock", row, k, made, report)
                except AssertionError as error:
                    raise AssertionError(f"{name}, k {k}, length {length + more}: {error}") from error
                assert report.telemetry.capacity == capacity
                ways.add((report.telemetry.buffered, report.telemetry.cost.fallback))
    assert len(ways) == 2
    row, survivors = sampled_rows(capacity, length)["normal"], 0
    for more, fits in ((1, True), (0, True), (1, False)):  # wanted: one, all survivors, and one more
        k = survivors + more
        ((made, report, _),) = emulated.select(library, path, "stock", row[None], [length], k, room=4)
        check(path, "stock", row, k, made, report)
        assert report.telemetry.buffered == fits
        survivors = report.telemetry.stored


def test_sampled_filters_short_rows(folder: File) -> None:
    capacity = 256
    path = fewer_threads(get_path("vllm.sampled").scaled(capacity=capacity, variants=True))
    library = emulated.build(folder, path, "stock")
    for length in (2 * capacity, 2 * capacity + 1, 8 * capacity - 1):
        row = torch.ones(length)
        ((made, report, _),) = emulated.select(library, path, "stock", row[None], [length], 9, room=4)
        check(path, "stock", row, 9, made, report)
        assert (report.telemetry.key_bits, report.telemetry.capacity) == (8, 2 * capacity)
        assert report.telemetry.buffered == (length == 2 * capacity)


def test_bf16_rows_that_the_registers_do_not_hold(folder: File) -> None:
    path = fewer_threads(get_path("sglang.bf16_small"))
    library = emulated.build(folder, path, "stock")
    ((made, _, _),) = emulated.select(library, path, "stock", torch.ones(1, 16385).bfloat16(), [16385], 9)
    assert (made.indices == UNWRITTEN).all()


def test_what_nothing_bounds_is_bounded(folder: File) -> None:
    """The buffer that its original writes past drops what does not fit, and nothing else is touched."""
    path = fewer_threads(get_path("tilelang.topk_selector"))
    library = emulated.build(folder, path, "stock")
    row = 1 + 0.2 * torch.rand(9000, generator=torch.Generator().manual_seed(1))
    ((made, report, _),) = emulated.select(library, path, "stock", row[None], [9000], 512, room=9000)
    assert report.dropped == 9000 - 4096
    assert made.indices.unique().numel() == 512
    check(path, "stock", row, 512, made, report)


def tied_rows(ties: int, length: int) -> dict[str, torch.Tensor]:
    """Rows of which so many scores share their first 12 exact bits; the 11th best is one of them."""
    generator = torch.Generator().manual_seed(13)
    order = torch.randperm(length, generator=generator)
    row = -torch.rand(length, generator=generator)
    row[order[:10]] = 2 + torch.rand(10, generator=generator)
    row[order[10 : 10 + ties]] = 1 + torch.rand(ties, generator=generator) / 8.01
    coarse = row.clone()
    coarse[order[10 : 10 + ties]] = 1 + torch.randint(0, 2, (ties,), generator=generator) / 16
    return {"told apart": row, "two values": coarse}


@pytest.mark.parametrize("name", ["sglang.coop", "sglang.rocm_coop"])
def test_ties_that_fill_the_buffer_of_a_device(name: str, folder: File) -> None:
    path = fewer_threads(get_path(name))
    library, length = emulated.build(folder, path, "stock"), 33_000
    room = path.as_variant(path.variant("stock")).buffer.slots(1)
    for seed, ties in enumerate((100, room, room + 1, 3 * room)):
        for what, row in tied_rows(ties, length).items():
            ((made, report, _),) = emulated.select(library, path, "stock", row[None], [length], 60, seed=seed, room=4)
            try:
                check(path, "stock", row, 60, made, report)
            except AssertionError as error:
                raise AssertionError(f"{ties} ties, {what}: {error}") from error


@pytest.mark.parametrize(("path", "variant"), TRIVIAL, ids=[path.name for path, _ in TRIVIAL])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_no_longer_than_k(path: Path, variant: str, dtype: torch.dtype, folder: File) -> None:
    path, k, lengths = fewer_threads(path), 300, [0, -1, 1, 299, 300, 301]
    library = emulated.build(folder, path, variant)
    found = emulated.select(library, path, variant, torch.zeros(6, 310, dtype=dtype), lengths, k)
    first = torch.arange(k, dtype=torch.int32)
    for length, (made, report, _) in zip(lengths, found, strict=True):
        expected = torch.where(first < length, first, -1) if length <= k else torch.full_like(first, UNWRITTEN)
        assert torch.equal(made.indices, expected)
        assert report.telemetry.threshold_bin is None
        if 0 < length <= k:
            model = run_model(path, torch.zeros(length, dtype=dtype), k, Arrival(), variant)
            assert torch.equal(made.indices, model.indices)
