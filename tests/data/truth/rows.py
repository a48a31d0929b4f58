"""Rows of indexer scores with a known bin population, reproducible from a name, a few numbers and a seed.

Every generator returns one float32 row of ``length`` scores, built on the CPU with NumPy's PCG64, so any
machine rebuilds the same bits. ``build(case)`` stacks the rows of one case: row ``r`` uses ``seed + r``.

A case is a dict: id, gen, rows, length, k, seed, and the generator's own numbers under ``args``.
``lengths`` gives each row its own length (``length`` is then the largest). ``width`` (default ``length``) is the
padded row width; cells at and past a row's length are -inf.
"""

from __future__ import annotations

import numpy as np


def _rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def normal(rng, length, scale=1.0, shift=0.0):
    return (rng.standard_normal(length) * scale + shift).astype(np.float32)


def uniform(rng, length, lo=0.0, hi=1.0):
    return rng.uniform(lo, hi, length).astype(np.float32)


def one_bin(rng, length, population=4096, above=0, base=1.0, clustered=False, negative=False):
    """``population`` distinct neighbours of ``base`` (one coarse bin under every 8- to 12-bit key), ``above``
    values well over them, the rest far below. ``clustered`` puts the bin at consecutive positions."""
    row = rng.uniform(-4.0, -3.5, length).astype(np.float32)
    if clustered:
        start = int(rng.integers(0, length - population - above + 1))
        where = np.arange(start, start + population + above)
    else:
        where = rng.permutation(length)[: population + above]
    near = np.float32(base).view(np.uint32) + np.uint32(1) + rng.permutation(population).astype(np.uint32)
    near = near.view(np.float32)
    row[where[:population]] = -near if negative else near
    row[where[population:]] = rng.uniform(8.0, 9.0, above).astype(np.float32)
    return row


def over_fp16(rng, length, start=806736, step=1):
    """Unique descending integers, all of them +inf once rounded to fp16."""
    return (start - step * np.arange(length, dtype=np.float64)).astype(np.float32)


def low_bits(rng, length, bits=0x3F900000, free=10):
    """One fp32 pattern with ``free`` random low bits: heavy ties inside one coarse bin."""
    return (np.uint32(bits) | rng.integers(0, 1 << free, length, dtype=np.uint32)).view(np.float32)


def constant(rng, length, value=1.0):
    return np.full(length, value, np.float32)


def levels(rng, length, count=10):
    return (rng.integers(0, count, length) / count).astype(np.float32)


def relu(rng, length, winners=100):
    """A few positive scores over exact zeros, as a sum of ReLUs gives."""
    row = np.zeros(length, np.float32)
    row[rng.permutation(length)[:winners]] = rng.uniform(0.5, 6.0, winners).astype(np.float32)
    return row


def few_finite(rng, length, finite=100):
    row = np.full(length, -np.inf, np.float32)
    row[rng.permutation(length)[:finite]] = rng.standard_normal(finite).astype(np.float32)
    return row


def signed_zeros(rng, length, winners=100):
    row = np.where(rng.random(length) < 0.5, np.float32(0.0), np.float32(-0.0)).astype(np.float32)
    row[rng.permutation(length)[:winners]] = rng.uniform(1.0, 2.0, winners).astype(np.float32)
    return row


def ascending(rng, length, lo=0.0, hi=1.0):
    return np.linspace(lo, hi, length, dtype=np.float64).astype(np.float32)


def plateau(rng, length, ties=6000, value=0.75, above=100):
    """``ties`` equal scores hold the cut-off, ``above`` scores beat them."""
    row = rng.uniform(-4.0, -3.5, length).astype(np.float32)
    where = rng.permutation(length)[: ties + above]
    row[where[:ties]] = value
    row[where[ties:]] = rng.uniform(0.751, 0.76, above).astype(np.float32)
    return row


GENERATORS = {
    f.__name__: f
    for f in (
        normal,
        uniform,
        one_bin,
        over_fp16,
        low_bits,
        constant,
        levels,
        relu,
        few_finite,
        signed_zeros,
        ascending,
        plateau,
    )
}


def lengths(case: dict) -> list[int]:
    """The valid length of each row of a case."""
    return case.get("lengths", [case["length"]] * case["rows"])


def build(case: dict) -> np.ndarray:
    """The scores of a case, float32 [rows, width]."""
    gen, length = GENERATORS[case["gen"]], case["length"]
    out = np.full((case["rows"], case.get("width", length)), -np.inf, np.float32)
    for r, n in enumerate(lengths(case)):
        out[r, :n] = gen(_rng(case["seed"] + r), n, **case.get("args", {}))
    return out
