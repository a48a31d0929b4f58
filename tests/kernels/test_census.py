"""The kernels that read each score once, on the CPU, against the profile of each row and the rule of screening."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from tests.kernels.screened import OPS, Batch, batches, spoiled, suspected
from workbench.analysis.profile import RowProfile
from workbench.engines.cuda.census import read_counts
from workbench.engines.cuda.sources import CENSUS_CELLS, CENSUS_INTS, PICKED_INTS, SUPPORT, WIDTHS, support_options
from workbench.numeric.histogram import RowCounts
from workbench.paths.catalog import PATHS

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")

RUN = """
extern "C" const char* emulate(unsigned blocks, unsigned threads, unsigned seed, {parameters}) {{
  emulated::body = [=] {{ workbench_{name}({names}); }};
  emulated::chance.seed(seed);
  gridDim.x = blocks;
  for (unsigned block = 0; block < blocks; ++block) {{
    if (const char* wrong = emulated::run_blocks(block, 1, threads, workbench_shared_bytes)) return wrong;
  }}
  return nullptr;
}}
"""
ROWS = "const float* scores, long long stride, int width, const int* lengths, const int* starts, "
PARAMETERS = {
    "census": ROWS + "int k, int parts, int* workspace, int* numbers",
    "picked": ROWS + "const int* selected, const int* offsets, int k, int cells, int* workspace, int* picked",
    "screen": ROWS + "int k, int parts, int* workspace, const int* picked, const int* gates, int gate_count, "
    "int* flags, float* kept",
}
THREADS = 128
POISON = -777


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> File:
    """Where the libraries are, kept between runs."""
    return File(str(request.config.cache.mkdir("emulated-kernels")))


def library(folder: File, name: str, **other: int) -> ctypes.CDLL:
    parameters = PARAMETERS[name]
    names = ", ".join(one.split()[-1].lstrip("*") for one in parameters.split(","))
    text = RUN.format(name=name, parameters=parameters, names=names)
    return emulated.build_source(folder, f"{name}.cu", support_options(f"{name}.cu", THREADS=THREADS, **other), text)


def of_rows(batch: Batch) -> list[object]:
    """The arguments that every kernel begins with."""
    return [
        emulated.pointer(batch.scores), ctypes.c_longlong(batch.scores.stride(0)), batch.scores.shape[1],
        emulated.pointer(batch.lengths), emulated.pointer(batch.starts),
    ]  # fmt: skip


def run(made: ctypes.CDLL, blocks: int, seed: int, *given: object) -> None:
    wrong = made.emulate(blocks, THREADS, ctypes.c_uint(seed), *given)
    assert wrong is None, wrong.decode()


def census(folder: File, batch: Batch, parts: int, **other: int) -> list[RowCounts]:
    rows = batch.scores.shape[0]
    cells = torch.zeros(rows * CENSUS_CELLS + 8, dtype=torch.int32)
    cells[-8:] = POISON
    numbers = torch.full((rows + 1, CENSUS_INTS), POISON, dtype=torch.int32)
    made = library(folder, "census", **other)
    run(made, rows * parts, parts, *of_rows(batch), batch.k, parts, emulated.pointer(cells), emulated.pointer(numbers))
    assert bool((cells[-8:] == POISON).all())
    assert bool((numbers[rows] == POISON).all())
    assert parts > 1 or not cells[:-8].any(), "one block a row needs no workspace"
    return read_counts(numbers[:rows])


def expected(batch: Batch, at: int) -> RowCounts:
    """By the profile of the row, and of what it does not have by looking."""
    valid = batch.valid(at)
    profile = RowProfile(valid, "float32", batch.k)
    thresholds = {bits: profile.threshold(bits) for bits in WIDTHS} if profile.countable else {}
    past = (valid.abs() > 65504) & valid.isfinite()
    return RowCounts(valid.numel(), thresholds, profile.nan, int((valid == -math.inf).sum()), int(past.sum()))


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", batches())
def test_counts_are_those_of_the_profile(name: str, parts: int, copies: int, folder: File) -> None:
    batch = batches()[name]
    for at, counts in enumerate(census(folder, batch, parts, COPIES=copies)):
        assert counts == expected(batch, at), (name, at)


def test_a_row_that_no_share_of_a_block_fills(folder: File) -> None:
    """More blocks than the row has vectors for."""
    batch = batches()["short rows"]
    for at, counts in enumerate(census(folder, batch, 7)):
        assert counts == expected(batch, at)


def test_the_widths_are_those_of_the_paths() -> None:
    assert {path.key_bits for path in PATHS} == {*WIDTHS, None}
    assert max(WIDTHS) == SUPPORT["census.cu"]["FINE_BITS"]


def screened(
    folder: File, batch: Batch, selected: torch.Tensor, gates: torch.Tensor, parts: int, offsets: torch.Tensor | None
) -> tuple[list[bool], torch.Tensor]:
    """Flags, and the rows that were kept."""
    rows, width = batch.scores.shape
    cells = torch.full((rows, CENSUS_CELLS), POISON, dtype=torch.int32)
    picked = torch.full((rows, PICKED_INTS), POISON, dtype=torch.int32)
    flags = torch.full((rows,), POISON, dtype=torch.int32)
    kept = torch.full((rows, width), 0.5)
    clear = CENSUS_CELLS if parts > 1 else 0
    run(
        library(folder, "picked"), rows, 1, *of_rows(batch), emulated.pointer(selected), emulated.pointer(offsets),
        batch.k, clear, emulated.pointer(cells), emulated.pointer(picked),
    )  # fmt: skip
    run(
        library(folder, "screen"), rows * parts, 2, *of_rows(batch), batch.k, parts, emulated.pointer(cells),
        emulated.pointer(picked), emulated.pointer(gates), len(gates), emulated.pointer(flags), emulated.pointer(kept),
    )  # fmt: skip
    assert set(flags.tolist()) <= {0, 1}
    return [bool(one) for one in flags], kept


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", batches())
def test_screening_names_the_rows_that_the_rule_names(name: str, parts: int, folder: File) -> None:
    batch = batches()[name]
    cases = [(OPS[0], *one) for one in spoiled(batch)]
    cases += [(op, *one) for op in OPS[1:] for one in spoiled(batch) if one[0] == "exact"]
    for op, what, selected, offsets in cases:
        found, gates = suspected(batch, selected, offsets, op)
        flags, kept = screened(folder, batch, selected, gates, parts, offsets)
        assert flags == found, (op, name, what)
        for at, flag in enumerate(flags):
            if flag:
                assert torch.equal(kept[at].view(torch.int32), batch.scores[at].view(torch.int32))
            else:
                assert bool((kept[at] == 0.5).all()), "what is good is not copied"


def test_buffers_alone_make_rows_suspect(folder: File) -> None:
    """Of exact selections; so that the test above compares more than broken ones."""
    batch = batches()["usual rows"]
    _, exact, _ = next(spoiled(batch))
    found = {op: suspected(batch, exact, None, op)[0] for op in OPS}
    assert found[OPS[0]] == [False, True, True, False, False, False], "a plateau loses no value"
    assert found[OPS[1]] == [False, True, True, False, True, True], "of a plateau on ranks only the judgement tells"
