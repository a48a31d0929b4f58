"""Random streams that do not change with NumPy's releases."""

from __future__ import annotations

import numpy as np

from workbench.errors import UsageError
from workbench.words import described

SEEDS = 2**63
Stream = np.random.RandomState  # the legacy generator: NumPy has frozen what it draws


def stream(seed: int, row: int) -> Stream:
    """The stream of one row; rows of one seed, and seeds, do not share theirs.

    Raises:
        UsageError: a seed that is no integer from 0 to 2^63 - 1.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < SEEDS:
        raise UsageError(f"seed {described(seed)} is no integer from 0 to {SEEDS - 1}")
    return np.random.RandomState([seed >> 32, seed & 0xFFFFFFFF, row])


def normal(random: Stream, count: int) -> np.ndarray:
    """Standard normal numbers, float32 [count]."""
    return random.standard_normal(count).astype(np.float32)


def between(random: Stream, low: float, high: float, count: int) -> np.ndarray:
    """Uniform numbers in [low, high), float32 [count]."""
    return (low + (high - low) * random.random_sample(count)).astype(np.float32)


def floats(patterns: np.ndarray) -> np.ndarray:
    """Float32 numbers by their bit patterns."""
    return patterns.astype(np.uint32).view(np.float32)
