"""A fixture file as a test sees it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch

from workbench.capture.row import Call
from workbench.export.fixture import read_fixture


@dataclass(frozen=True, eq=False)
class TopkCase:
    """One row that some selector breaks on.

    Attributes:
        name: of the fixture file, without its ending.
        scores: [length] float32, bfloat16 or float16. k: winners wanted.
        expected: the min(k, length) best values, best first, in the scores' dtype; -0.0 as 0.0.
        path, variant: the selector that loses. risk: ``at risk`` or ``certain``, for that one.
        repeats: calls after which that selector was missed with a probability below 1e-6, if arrival is random.
        call: as captured: op, release, device, rows, width, … as far as they are known.
    """

    name: str
    scores: torch.Tensor
    k: int
    expected: torch.Tensor
    path: str
    variant: str
    risk: str
    repeats: int
    call: Call

    @property
    def length(self) -> int:
        """How many scores there are."""
        return self.scores.numel()

    def to(self, device: str | torch.device) -> Self:
        """The same case with scores and expected values on a device, as in ``case.to("cuda")``."""
        return replace(self, scores=self.scores.to(device), expected=self.expected.to(device))

    def __repr__(self) -> str:
        return f"TopkCase({self.name!r}, {self.length} scores, k {self.k}, {self.scores.dtype} on {self.scores.device})"


def load_case(path: str | os.PathLike[str]) -> TopkCase:
    """The case of a fixture file.

    Raises:
        CaptureError: no fixture, or a damaged one.
    """
    held = read_fixture(path)
    return TopkCase(
        name=Path(path).stem,
        scores=held.row.scores,
        k=held.k,
        expected=held.expected,
        path=held.path,
        variant=held.variant,
        risk=held.risk,
        repeats=held.repeats,
        call=held.row.call,
    )
