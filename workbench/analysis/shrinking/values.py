"""Simple values for the parts of a row: plain numbers that lie where a part must lie."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch

from workbench.analysis.shrinking.candidate import complexity, distinct
from workbench.numeric.keys import bin_values, coarse_keys, value_keys

LEVELS = (2, 3, 4, 8, 16, 64, 256, 4096)  # how many values the members of a bin are brought down to
HALF_FRACTION = 10  # bits of an fp16 fraction
LEAST_EXPONENT, GREATEST_EXPONENT = -24, 20  # from fp16's least number to well past its greatest
OFFERED = 3  # plain numbers that are tried for a part
OTHERS = 6  # values of the row that one of them is tried to be merged into


@cache
def plain_numbers(dtype: torch.dtype) -> torch.Tensor:
    """Powers of two and one and a half of them, zero and the infinities that a dtype holds, the simplest first."""
    sizes = [factor * 2.0**at for at in range(LEAST_EXPONENT, GREATEST_EXPONENT + 1) for factor in (1.0, 1.5)]
    numbers = torch.tensor([0.0, *sizes, *(-size for size in sizes), math.inf, -math.inf], dtype=torch.float64)
    held = numbers.to(dtype)
    held = held[held.to(torch.float64) == numbers]
    return torch.index_select(held, 0, torch.from_numpy(np.argsort(complexity(held), kind="stable")))


def _by_simplicity(values: torch.Tensor) -> torch.Tensor:
    """Distinct values, the simplest first; at equal simplicity by bit pattern."""
    found = distinct(values)
    return torch.index_select(found, 0, torch.from_numpy(np.argsort(complexity(found), kind="stable")))


def fitting(bits: int | None, bin_: int | None, own: torch.Tensor, members: torch.Tensor, higher: bool) -> list[float]:
    """Values for a part above or below the bin: a few plain numbers that lie there, then the simplest of its own.

    Args:
        bits, bin_: the coarse key and the threshold bin; without them, above or below all members. own: the part's
            scores. members: the bin's. higher: whether the part lies above.
    """
    pool = plain_numbers(members.dtype)
    keys, edge = (
        (coarse_keys(pool.float(), bits), torch.tensor(bin_))
        if bits is not None
        else (value_keys(pool), value_keys(members).max() if higher else value_keys(members).min())
    )
    fits = pool[keys > edge if higher else keys < edge][:OFFERED]
    return [*fits.tolist(), *(_by_simplicity(own)[:1].tolist() if own.numel() else ())]


def near_one(bits: int, count: int) -> torch.Tensor:
    """``count`` float32 values from 1 up in even steps, all in the bin of 1 under a coarse key of ``bits`` bits.

    They fill the lower half of the bin: in the upper half, scores that round up leave it.
    """
    half = math.ldexp(1.0, 15 - bits - HALF_FRACTION)
    steps = 1 << (count - 2).bit_length()  # the least power of two from count - 1 on
    return 1 + torch.arange(count) * (half / steps)


def pairs_in_bin(bits: int, bin_: int, members: torch.Tensor) -> Iterator[torch.Tensor]:
    """Pairs of values within a bin, the lower first: the two simplest that are known, then the ends of the members."""
    edges = torch.tensor(bin_values(bin_, bits), dtype=torch.float64)
    edges = torch.cat([edges, edges.mean()[None]]).to(members.dtype)
    pool = torch.cat([plain_numbers(members.dtype), edges, _by_simplicity(members)[:2]])
    pool = _by_simplicity(pool[coarse_keys(pool.float(), bits) == bin_])
    numbers = pool[~torch.isnan(pool)]
    ordered = members[torch.argsort(value_keys(members), stable=True)]
    for pair in (numbers[:2], ordered[[0, -1]]):
        keys = value_keys(pair)
        if pair.numel() == 2 and keys[0] != keys[1]:
            yield pair[torch.argsort(keys)]


def levels(
    scores: torch.Tensor, winners: torch.Tensor, losers: torch.Tensor, places: torch.Tensor
) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """The members at few values, ascending with their scores: losers at the lower half of ``places``, winners above."""
    middle = places.numel() // 2
    return tuple(
        _spread(scores, positions, part) for positions, part in ((losers, places[:middle]), (winners, places[middle:]))
    )


def _spread(scores: torch.Tensor, positions: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    count = positions.numel()
    ascending = positions[torch.argsort(value_keys(scores[positions]), stable=True)]
    return ascending, places[torch.arange(count) * places.numel() // max(count, 1)]


def simple(value: torch.Tensor, others: torch.Tensor) -> list[torch.Tensor]:
    """What a value may be replaced by, each [1]: plain numbers simpler than it, then other values of the row.

    Args:
        value: [1]. others: further distinct values of the row.
    """
    number = float(value)
    dtype = value.dtype
    near = []
    if math.isfinite(number) and number:
        exponent = math.frexp(number)[1]
        near = [math.copysign(2.0**at, number) for at in (exponent - 1, exponent)]
    usual = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5, *near, math.inf, -math.inf, math.nan, -math.nan]).to(dtype)
    pool = _by_simplicity(usual)
    pool = pool[torch.from_numpy(complexity(pool) < complexity(value)[0])]
    every = torch.cat([pool, _by_simplicity(others)[:OTHERS]])
    return [every[at : at + 1] for at in range(every.numel())]
