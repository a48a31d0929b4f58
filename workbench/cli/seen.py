"""What is kept of an inspected row, and how it fared: what the table, the heading and the JSON document say of it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.cli.order import order_unreliable
from workbench.runs.inspect import Inspection, damage
from workbench.runs.report import Line, line_loses
from workbench.runs.sentence import finding


@dataclass(frozen=True)
class Refusal:
    """A judged path that did not run, and all its reasons; ``path`` is ``None`` where none is known."""

    path: str | None
    variant: str | None
    reasons: str


@dataclass(frozen=True)
class Seen:
    """What is kept of an inspected row.

    Attributes:
        length: as the op was given it. wanted: winners, min(k, valid scores).
        worst: the line with the greatest damage among the judged paths that ran or would do harm; among those whose
            risk is known where there are none; or that of the only one.
        recorded: the line of the recorded selection. sentence: what happened, in words.
        paths_judged, paths_at_risk: judged paths that take the row, and those of them that are not safe.
        paths_not_modelled: paths that take it and that no model runs: not judged, though none lost on an observed row.
        refused: the judged paths that did not run.
        order_unreliable: whether the expected loss of a judged path is, since its scores follow their position.
        of_the_call: what the other rows of the call do to the row's path.
    """

    row: int
    call: int
    k: int
    length: int
    wanted: int
    dtype: str
    judged: str
    judged_because: str
    finding: bool
    sentence: str
    worst: Line | None
    recorded: Line | None
    paths_judged: int
    paths_not_modelled: int
    paths_at_risk: int
    refused: tuple[Refusal, ...]
    order_unreliable: bool
    of_the_call: str

    @property
    def tells(self) -> bool:
        """Whether anything is said of what is lost."""
        return bool(self.paths_judged or self.paths_not_modelled or self.finding or self.verdicts - {None})

    @property
    def verdicts(self) -> set[str | None]:
        """Of the worst judged path and of the recorded selection."""
        return {line.verdict for line in (self.worst, self.recorded) if line is not None}


def summarise(inspection: Inspection) -> Seen:
    """What the table and the JSON document say of a row."""
    results = inspection.results
    judged = [result.line for result in results if result.risk is not None and result.risk.judged]
    ran = [result for result in results if result.line.refused is None]
    shown = [result for result in results if result in ran or result.line.finding is not None]
    shown = shown or [result for result in results if result.line.risk is not None or len(results) == 1]
    worst = max(shown, key=damage, default=None)
    row = inspection.row
    return Seen(
        row=row.index,
        call=row.call.index,
        k=inspection.k,
        length=row.length,
        wanted=min(inspection.k, row.valid.numel()),
        dtype=row.dtype,
        judged=inspection.judged,
        judged_because=inspection.judged_because,
        finding=inspection.finding,
        sentence=finding(inspection),
        worst=None if worst is None else worst.line,
        recorded=None if inspection.recorded is None else inspection.recorded.line,
        paths_judged=len(judged),
        paths_not_modelled=sum(result.risk is not None and result.risk.observed for result in results),
        paths_at_risk=sum(line.risk != "safe" and line_loses(line) for line in judged),
        refused=tuple(
            Refusal(line.path, line.variant, line.refused)
            for line in (result.line for result in results)
            if line.refused is not None
        ),
        order_unreliable=any(order_unreliable(line.order_correlation) for line in judged),
        of_the_call=inspection.of_the_call,
    )
