"""Launches of the kernels that count and screen, as the host makes them; the kernels run on the CPU when launched."""

from __future__ import annotations

import ctypes
from pathlib import Path as File
from types import SimpleNamespace

import pytest
import torch

from tests.kernels import emulated
from workbench.engines.cuda import census, positions, screen
from workbench.engines.cuda.support_sources import support_options

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
    "positions": "const int* entries, int columns, const int* lengths, int width, const int* table, long long apart, "
    "int pages, int tables, const int* owners, int page_size, const int* offsets, int pool, int k, int* positions",
    "screen": ROWS + "int k, int parts, int* workspace, const int* picked, const int* gates, int gate_count, "
    "int* flags, float* kept",
}
THREADS = 128
POISON = -777
GUARD = 8


def library(folder: File, name: str, **other: int) -> ctypes.CDLL:
    parameters = PARAMETERS[name]
    names = ", ".join(one.split()[-1].lstrip("*") for one in parameters.split(","))
    text = RUN.format(name=name, parameters=parameters, names=names)
    return emulated.build_source(folder, f"{name}.cu", support_options(f"{name}.cu", THREADS=THREADS, **other), text)


class EmulatedDevice:
    """Stands for a CUDA device in ``count_rows``, ``screen_rows`` and ``positions_of``: their tensors lie on the CPU.

    Memory that a launch is given new holds ``POISON``, unless it was zeroed.

    Attributes:
        parts: blocks that share a row. launches: how many there were.
    """

    def __init__(self, folder: File, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.parts, self.launches = folder, 1, 0
        limits = SimpleNamespace(sms=emulated.SMS, lacks=lambda *_: [])
        real = torch.Tensor.new_empty
        for module in (census, positions, screen):
            patch.setattr(module, "run_support", self._run)
            patch.setattr(module, "check_tensor", lambda *_, **__: None)
            patch.setattr(module, "unavailable", list)
            patch.setattr(module, "limits_of", lambda _: limits)
        for module in (census, screen):
            patch.setattr(module, "parts_of", lambda *_: self.parts)
        patch.setattr(screen, "lacks", lambda _: ())
        patch.setattr(screen, "_on_device", lambda gates, _: torch.tensor(gates, dtype=torch.int32) if gates else None)
        patch.setattr(screen, "_on_its_way", lambda flags: (flags.clone(), Passed()))
        patch.setattr(
            torch.Tensor,
            "new_empty",
            lambda *args, **named: _poisoned(real(*args, **named)),
        )

    def _run(self, source: str, grid: tuple[int, ...], given, device: object, longs=(), options=None) -> None:
        made = library(self.folder, source.removesuffix(".cu"), **(options or {}))
        arguments = [
            emulated.pointer(one)
            if one is None or isinstance(one, torch.Tensor)
            else (ctypes.c_longlong if at in longs else ctypes.c_int)(one)
            for at, one in enumerate(given)
        ]
        self.launches += 1
        wrong = made.emulate(*grid, THREADS, ctypes.c_uint(self.launches), *arguments)
        assert wrong is None, wrong.decode()


class Passed:
    """An event that the stream has passed."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


def _poisoned(tensor: torch.Tensor) -> torch.Tensor:
    tensor.view(torch.int32).fill_(POISON)
    return tensor
