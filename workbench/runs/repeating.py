"""Calls on one row while they are made: taken up where they were stopped, and summed up at any number of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from workbench.analysis.risk import Risk
from workbench.paths.catalog import get_path
from workbench.runs.case import Case
from workbench.runs.repeat import MODEL, Calls, Repeated, keeps_order
from workbench.runs.report import Result
from workbench.runs.run import run_case


class Repeating:
    """Calls of one path, or of an op, on one row. Selections are kept, int32 [k] a call, so that fewer calls can be
    summed up as well.

    Args:
        case: the row. path, variant: that are called; ``None`` for an op. engine: who calls them.
        seed: of the first call's arrival order, as ``repeat`` has it. called: as in ``Repeated``.

    Attributes:
        refused: why there are no calls; ``None`` where there may be. finding: what the selector does beside selecting.
    """

    def __init__(
        self,
        case: Case,
        path: str | None,
        variant: str | None,
        engine: str = MODEL,
        *,
        seed: int = 0,
        called: str = "",
    ) -> None:
        self._case, self.path, self.variant, self.engine = case, path, variant, engine
        self._seed, self._called = seed, called
        self._made: list[tuple[torch.Tensor, str, int]] = []
        self._calls = Calls(case)
        self._line: Repeated | None = None
        self._again: Result | None = None  # of a path that returns the same on every run
        self.refused: str | None = None
        self.finding: str | None = None

    def __len__(self) -> int:
        """Calls that were made."""
        return len(self._made)

    @property
    def over(self) -> bool:
        """Whether no more calls can be made: whoever refuses the row once refuses it always."""
        return self.refused is not None or (self.finding is not None and not self._made)

    def step(self) -> None:
        """Make one more call of the model; it has the arrival order of the seed and the number of the call.

        Raises:
            CaptureError, UsageError: the row cannot be run.
        """
        self.take([self.called()])

    def called(self) -> Result:
        """The next call of the model, which is not counted until it is taken.

        Raises:
            CaptureError, UsageError: the row cannot be run.
        """
        assert self.engine == MODEL
        assert self.path is not None
        assert self.variant is not None
        made = self._again
        if made is None:
            (made,) = run_case(self._case, paths=self.path, variants=self.variant, seed=self._seed + len(self))
            if keeps_order(self.path, self.variant):
                self._again = made
        return made

    def take(self, results: Sequence[Result]) -> None:
        """Count calls that an engine made; one without a selection says why there are none."""
        self._line = None
        for one in results:
            if one.selection is None or one.verdict is None:
                self.finding = one.line.finding or self.finding
                self.refused = one.line.refused if not self._made else self.refused
                continue
            indices, kind, missing = one.selection.indices, one.verdict.kind, one.verdict.missing
            self._made.append((indices.to(device="cpu", dtype=torch.int32), kind, missing))
            self._calls.add(indices, kind, missing)

    def line(self, calls: int | None = None) -> Repeated:
        """What the first so many calls amount to; all by default."""
        if not self._made:
            risk = self._risk
            level = None if risk is None else risk.level
            why = self.refused or self.finding or "nothing was called"
            line = Repeated(self.path, self.variant, self.engine, refused=why, risk=level, finding=self.finding)
            return replace(line, called=self._called)
        if calls is not None and calls < len(self._made):
            fewer = Calls(self._case)
            for indices, kind, missing in self._made[:calls]:
                fewer.add(indices, kind, missing)
            return self._of(fewer)
        if self._line is None:
            self._line = self._of(self._calls)
        return self._line

    def _of(self, calls: Calls) -> Repeated:
        line = calls.line(self.path, self.variant, self.engine, self._risk)
        return replace(line, finding=self.finding, called=self._called)

    @property
    def _risk(self) -> Risk | None:
        if self.path is None or self.variant is None:
            return None
        path = get_path(self.path)
        return self._case.risk(path, path.variant(self.variant))
