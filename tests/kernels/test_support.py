"""The kernels beside the selectors, on the CPU, against what describes them."""

from __future__ import annotations

import ctypes
from pathlib import Path as File

import pytest
import torch

from tests.kernels import emulated
from workbench.engines.cuda.support_sources import SUPPORT, support_options
from workbench.paths.blocks import BITMAP, block_amax, block_count, candidate_blocks

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="no C++ compiler of the host (g++ or clang++)")

AMAX = """
extern "C" const char* emulate(unsigned across, unsigned rows, unsigned threads, unsigned seed, const float* scores,
                               long long stride, int width, const int* lengths, int skip_up_to, float* out,
                               long long out_stride) {
  emulated::body = [=] { workbench_block_amax(scores, stride, width, lengths, skip_up_to, out, out_stride); };
  emulated::chance.seed(seed);
  for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y) {
    for (unsigned block = 0; block < across; ++block) {
      if (const char* wrong = emulated::run_blocks(block, 1, threads, 0)) return wrong;
    }
  }
  return nullptr;
}
"""
TABLE = """
extern "C" const char* emulate(unsigned rows, unsigned threads, unsigned seed, const int* selected, const int* lengths,
                               int k, int* out, int* outside) {
  emulated::body = [=] { workbench_candidate_blocks(selected, lengths, k, out, outside); };
  emulated::chance.seed(seed);
  for (unsigned block = 0; block < rows; ++block) {
    if (const char* wrong = emulated::run_blocks(block, 1, threads, workbench_shared_bytes)) return wrong;
  }
  return nullptr;
}
"""
POISON = -12345.0


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> File:
    """Where the libraries are, kept between runs."""
    return File(str(request.config.cache.mkdir("emulated-kernels")))


def amax_rows() -> tuple[torch.Tensor, list[int]]:
    """Rows of every kind of number and of every length of a last block; two lengths leave the row."""
    generator = torch.Generator().manual_seed(14)
    rows = torch.randn(12, 8219, generator=generator)
    rows[1, ::3] = torch.nan
    rows[2, 8:32] = torch.nan
    rows[2, 9], rows[2, 17] = -torch.nan, -torch.inf
    rows[3] = torch.where(rows[3] > 0, 0.0, -0.0)
    rows[4, 16:40], rows[4, 48:56] = -0.0, torch.inf
    return rows, [8219, 8219, 40, 8216, 57, 8, 7, 1, 0, -5, 9000, 64]


def check_amax(rows: torch.Tensor, lengths: list[int], skip: int, out: torch.Tensor) -> None:
    for row, length, made in zip(rows, lengths, out, strict=True):
        expected = block_amax(row, min(max(length, 0), row.numel()), skip).into(torch.full_like(made, POISON))
        number = ~expected.isnan()
        assert torch.equal(made.isnan(), ~number)
        assert torch.equal(made[number].view(torch.int32), expected[number].view(torch.int32))  # zeros by their sign


@pytest.mark.parametrize("skip", [0, 7, 8])
def test_block_amax(skip: int, folder: File) -> None:
    library = emulated.build_source(folder, "block_amax.cu", support_options("block_amax.cu"), AMAX)
    library.emulate.restype = ctypes.c_char_p
    rows, lengths = amax_rows()
    keys = block_count(rows.shape[1])
    out, given = torch.full((len(lengths), keys + 3), POISON), torch.tensor(lengths, dtype=torch.int32)
    across = -(-keys // 1024)
    wrong = library.emulate(
        across, len(lengths), SUPPORT["block_amax.cu"]["THREADS"], 3, emulated.pointer(rows),
        ctypes.c_longlong(rows.stride(0)), rows.shape[1], emulated.pointer(given), skip, emulated.pointer(out),
        ctypes.c_longlong(out.stride(0)),
    )  # fmt: skip
    assert wrong is None, wrong
    check_amax(rows, lengths, skip, out)


def selections(k: int) -> list[tuple[torch.Tensor, int]]:
    """Block ids as a selector leaves them, and lengths: good ones, and each way to break the contract."""
    generator = torch.Generator().manual_seed(15)
    many = torch.randperm(BITMAP, generator=generator)[:k].to(torch.int32)
    short, twice, past = many.clone(), many.clone(), many.clone()
    short[::3] = -1
    twice[1] = twice[0]
    past[: min(3, k)] = torch.tensor([BITMAP, 2**31 - 1, BITMAP - 1], dtype=torch.int32)[: min(3, k)]
    long = 8 * BITMAP
    return [
        (many, long), (short, long), (twice, long), (past, long), (many, 8 * k + 1), (many, 8 * k), (many, 5),
        (many, 0), (many, -3), (torch.full_like(many, -1), long), (many % 40, 8 * k + 9),
    ]  # fmt: skip


def check_table(selected: torch.Tensor, length: int, table: torch.Tensor, outside: int) -> None:
    """Ids past the bitmap are counted and left out, where the original's output means nothing."""
    past = selected >= BITMAP
    described = candidate_blocks(torch.where(past, -1, selected), max(length, 0))
    assert torch.equal(table, described.ids)
    assert outside == (int(past.sum()) if block_count(max(length, 0)) > selected.numel() else 0)


@pytest.mark.parametrize("k", [1, 40, 2048])
def test_candidate_blocks(k: int, folder: File) -> None:
    library = emulated.build_source(folder, "candidate_blocks.cu", support_options("candidate_blocks.cu"), TABLE)
    library.emulate.restype = ctypes.c_char_p
    cases = selections(k) if k > 1 else selections(2)[:1]
    ids = torch.stack([one[:k] for one, _ in cases])
    lengths = torch.tensor([length for _, length in cases], dtype=torch.int32)
    table, outside = ids.clone(), torch.full((len(cases),), -9, dtype=torch.int32)  # in place
    threads = SUPPORT["candidate_blocks.cu"]["THREADS"]
    wrong = library.emulate(
        len(cases), threads, 5, emulated.pointer(table), emulated.pointer(lengths), k, emulated.pointer(table),
        emulated.pointer(outside),
    )  # fmt: skip
    assert wrong is None, wrong
    for row, (_, length) in enumerate(cases):
        check_table(ids[row], length, table[row], int(outside[row]))
