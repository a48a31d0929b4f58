"""Which rows of a call a sample takes: numbers that depend on seed, rank and the call alone."""

from __future__ import annotations

from typing import Any

import numpy as np

_WORD = 32  # bits


def draw(seeds: tuple[int, ...], rows: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """float64 [rows] in [0, 1): those of ``np.random.default_rng(seeds)``, which finds its words more slowly.

    Args:
        seeds: not negative.
    """
    words = [seed >> shift & 0xFFFFFFFF for seed in seeds for shift in range(0, seed.bit_length() or 1, _WORD)]
    entropy: Any = np.array(words, dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy))).random(rows)
