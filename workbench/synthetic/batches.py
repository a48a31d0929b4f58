"""Whole batches of score rows, as a benchmark needs them: of one distribution, with full or ragged lengths."""

from __future__ import annotations

import math

import torch

from workbench.errors import UsageError
from workbench.synthetic.distributions import make_rows
from workbench.synthetic.streams import stream

DISTINCT = 32  # rows that are drawn; further rows repeat them


def make_batch(
    distribution: str,
    *,
    rows: int,
    length: int,
    width: int,
    least_share: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores [rows, width] and lengths, int32 [rows]; the same arguments give the same bits on every machine.

    Row r has the scores of row r mod 32 of the distribution. Cells past a row's length hold +inf: a selector that
    reads them picks them.

    Args:
        distribution: as of ``make_rows``. length: of the longest row. width: cells of a row, at least ``length``.
        least_share: how much of ``length`` a row has at least; the lengths between are drawn, the first row has all.
        seed: of scores and lengths. dtype: scores are rounded to it (to nearest, ties to even).

    Raises:
        UsageError: an unknown distribution, or a number out of range.
    """
    if width < length:
        raise UsageError(f"rows of {length} scores are longer than the width, {width}")
    drawn = make_rows(distribution, length=length, k=1, rows=min(rows, DISTINCT), seed=seed)
    few = torch.stack([row.scores for row in drawn]).to(dtype).to(device)
    scores = torch.full((rows, width), torch.inf, dtype=dtype, device=device)
    for first in range(0, rows, len(drawn)):
        scores[first : first + len(drawn), :length] = few[: rows - first]
    lengths = torch.full((rows,), length, dtype=torch.int32)
    if least_share < 1:
        least = max(1, math.ceil(least_share * length))
        lengths[1:] = torch.from_numpy(stream(seed, rows).randint(least, length + 1, rows - 1)).to(torch.int32)
        cells = torch.arange(width, device=device)
        scores.masked_fill_(cells >= lengths.to(device)[:, None], torch.inf)
    return scores, lengths.to(device)
