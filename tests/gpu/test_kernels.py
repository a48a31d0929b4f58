"""The shared CUDA header computes the keys that the models compute, NaN included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.numeric.keys import coarse_keys, ordered_keys
from workbench.resources import kernels_dir

cupy = pytest.importorskip("cupy", reason="CuPy is not installed (extras cuda12, cuda13)")

SOURCE = """
#include "ordered_keys.cuh"
extern "C" __global__
void keys(const float* scores, unsigned* exact, unsigned* b8, unsigned* b11, unsigned* b12, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  exact[i] = workbench::ordered_key(scores[i]);
  b8[i] = workbench::coarse_bin<8>(scores[i]);
  b11[i] = workbench::coarse_bin<11>(scores[i]);
  b12[i] = workbench::coarse_bin<12>(scores[i]);
}
"""


def test_ordered_keys_header() -> None:
    bits = np.arange(0, 2**32, 16411, dtype=np.uint64).astype(np.uint32)
    scores = np.concatenate([bits, np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001], dtype=np.uint32)])
    scores = scores.view(np.float32)
    kernel = cupy.RawModule(code=SOURCE, options=("-std=c++17", f"-I{kernels_dir()}")).get_function("keys")
    out = [cupy.empty(scores.size, dtype=cupy.uint32) for _ in range(4)]
    kernel((scores.size // 256 + 1,), (256,), (cupy.asarray(scores), *out, np.int32(scores.size)))
    expected = [ordered_keys(torch.from_numpy(scores))]
    expected += [coarse_keys(torch.from_numpy(scores), bits) for bits in (8, 11, 12)]
    for computed, wanted in zip(out, expected, strict=True):
        assert np.array_equal(cupy.asnumpy(computed).astype(np.int64), wanted.numpy().astype(np.int64))
