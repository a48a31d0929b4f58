"""Counts of a whole batch on its device, each score read once: what a row's profile would have to read it for.

A batch of float32 rows alone has coarse keys; ``workbench.analysis.profile`` counts no others either.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.engines.cuda.device import limits_of, unavailable
from workbench.engines.cuda.sources import Value
from workbench.engines.cuda.support import check_tensor, refuse, run_support
from workbench.engines.cuda.support_sources import CENSUS_CELLS, CENSUS_INTS, RESIDENT, WIDTHS
from workbench.errors import UsageError
from workbench.numeric.histogram import RowCounts, Threshold

NEEDS = (8, 0)  # compute capability
LEAST_SHARE = 16384  # scores of a row that a block reads, where the row has so many
ROUNDS = 8  # times that the device is filled with blocks, so that the last round weighs little


@dataclass(frozen=True, eq=False)
class Counted:
    """What a launch counted.

    Attributes:
        numbers: int32 [rows, ``CENSUS_INTS``] on the device; of each coarse key in ``WIDTHS`` bin, above, population
            and need (bin -1 where the row holds no more than k scores), then length, NaN, -inf and scores past fp16.
    """

    numbers: torch.Tensor

    def rows(self) -> list[RowCounts]:
        """The counts of each row; waits for the launch to end."""
        return read_counts(self.numbers.cpu())


def count_rows(
    scores: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    *,
    starts: torch.Tensor | None = None,
    options: dict[str, Value] | None = None,
) -> Counted:
    """Count every row of a batch with one kernel, and return without waiting for it.

    Args:
        scores: float32 [rows, width] on a CUDA device, rows any distance apart.
        lengths, starts: int32 [rows] there, the first valid cells; what leaves a row is taken as the nearest that does
            not, so that no cell outside is read.
        k: winners wanted. options: of the build, other ones than usual, to measure them.

    Raises:
        UsageError: a tensor that is no such thing, a k below 1, or no device, CuPy or compiler.
    """
    refuse(unavailable())
    check_rows(scores, lengths, starts, k)
    device = scores.device.index
    refuse(limits_of(device).lacks(0, NEEDS))
    rows, width = scores.shape
    numbers = torch.empty(rows, CENSUS_INTS, dtype=torch.int32, device=scores.device)
    parts = parts_of(rows, width, limits_of(device).sms)
    cells = torch.zeros(rows if parts > 1 else 0, CENSUS_CELLS, dtype=torch.int32, device=scores.device)
    if rows:
        given = (scores, scores.stride(0), width, lengths, starts, k, parts, cells, numbers)
        run_support("census.cu", (rows * parts,), given, device, longs=(1,), options=options)
    return Counted(numbers)


def read_counts(numbers: torch.Tensor) -> list[RowCounts]:
    """Counts by row, of the numbers that the kernel writes, int32 [rows, ``CENSUS_INTS``] on the CPU."""
    return [_of_row(row) for row in numbers.tolist()]


def _of_row(row: list[int]) -> RowCounts:
    length, nan, minus_infinity, past_half = row[4 * len(WIDTHS) :]
    places = (row[4 * place : 4 * place + 4] for place in range(len(WIDTHS)))
    thresholds = {bits: Threshold(*at) for bits, at in zip(WIDTHS, places, strict=True) if at[0] >= 0}
    return RowCounts(length, thresholds, nan, minus_infinity, past_half)


def check_rows(scores: torch.Tensor, lengths: torch.Tensor, starts: torch.Tensor | None, k: int) -> None:
    """UsageError if they are no batch that can be counted."""
    check_tensor("scores", scores, torch.float32, (None, None))
    for name, tensor in (("lengths", lengths), ("starts", starts)):
        if tensor is not None:
            check_tensor(name, tensor, torch.int32, (scores.shape[0],), scores.device, whole=True)
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")


def parts_of(rows: int, width: int, sms: int) -> int:
    """How many blocks share a row: as many as fill a device of so many multiprocessors, if each has enough to read."""
    wanted = -(-ROUNDS * RESIDENT * sms // max(rows, 1))
    return max(1, min(wanted, -(-width // LEAST_SHARE)))
