"""The row as a model reads it: every pass, gather and fallback is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from workbench.numeric.histogram import Threshold
from workbench.numeric.keys import where_true
from workbench.numeric.rowkeys import RowKeys
from workbench.paths.arrival import Arrival, flags
from workbench.paths.selection import Cost, Telemetry
from workbench.paths.spec import Path

BY_INDEX = Arrival()
MANY = 4096  # positions whose order is worth keeping


class Tape:
    """One row under one arrival order, and what reading it has cost so far.

    Args:
        scores: [length], the valid scores. arrival: the order in which scores reach a buffer.
        width: padded columns of the row; its length where that is not known. start: its first valid cell.
        row: the keys of these scores, where they are shared.

    Attributes:
        row: the scores by their keys.
    """

    def __init__(
        self,
        scores: torch.Tensor,
        arrival: Arrival = BY_INDEX,
        width: int | None = None,
        start: int = 0,
        row: RowKeys | None = None,
    ) -> None:
        self.row, self.arrival = row or RowKeys(scores), arrival
        self.length = scores.numel()
        self.width, self.start = self.length if width is None else width, start
        self._passes = self._bytes = self._staged = 0
        self._fallback = ""

    @property
    def scores(self) -> torch.Tensor:
        """The valid scores."""
        return self.row.scores

    def on_chip(self) -> Tape:
        """The same row where reading it again is not counted."""
        return Tape(self.scores, self.arrival, row=self.row)

    def scan(self, times: int = 1) -> None:
        """Count passes over the whole row."""
        self._passes += times
        self._bytes += times * self.length * self.scores.element_size()

    def gather(self, count: int) -> None:
        """Count scores that are read again by index."""
        self._bytes += count * self.scores.element_size()

    def stage(self, count: int) -> None:
        """Count candidates that are put into a buffer."""
        self._staged += count

    def fall_back(self, what: str) -> None:
        """Note that the fast way was given up, and for what."""
        self._fallback = what

    def order(self, indices: torch.Tensor) -> torch.Tensor:
        """Ascending positions in arrival order; not to be written to."""
        if indices.numel() < MANY:
            return self.arrival.sort(indices, self.length)
        return self.row.made_of(indices, self.arrival, lambda: self.arrival.sort(indices, self.length))

    def without(self, indices: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """``indices`` that are not among the others, in their order."""
        return indices[where_true(~flags(others, self.length)[indices])]

    @property
    def cost(self) -> Cost:
        """What was counted."""
        return Cost(self._passes, self._bytes, self._staged, self._fallback)


@dataclass(frozen=True, eq=False)
class Made:
    """What a model returns.

    Attributes:
        indices: the winners it wrote, int64, at most k, and what it wrote in a winner's place.
        telemetry: its inside, without the cost.
        unwritten: slots after them that it never wrote; further slots are -1.
    """

    indices: torch.Tensor
    telemetry: Telemetry = field(default_factory=Telemetry)
    unwritten: int = 0


def binned(bits: int, bins: torch.Tensor, at: Threshold, capacity: int) -> Telemetry:
    """Telemetry that begins with coarse bins: int64 [2^bits] populations, and where the k-th score falls."""
    return Telemetry(bits, bins, at.bin, at.above, at.population, at.need, capacity)


Model = Callable[[Path, Tape, int], Made]
