"""What an audit found, counted in one pass over its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.analysis.risk import LEVELS
from workbench.audit.dataset import CURE, Dataset, FileLine
from workbench.audit.summing import BY, COLUMNS, VERDICTS, Summing
from workbench.audit.tally import Grid, Tally
from workbench.audit.unfinished import Unfinished
from workbench.capture.values import shown
from workbench.errors import CaptureError
from workbench.rendering import Rendered
from workbench.words import UNKNOWN

WORST, GROUPS = 20, 12
Kind = Literal["audit", "scan"]


@dataclass(frozen=True)
class PathTally:
    """One path, over the rows that it was asked about.

    Attributes:
        path: its name; ``None`` for recorded selections whose path is not known.
        rows: asked about. refused: that it does not take. safe, at_risk, certain, unknown: the others by their risk.
        reached: that the op sends there. losing: of those, or of those that it may send there, at risk or certain.
        harmful: on which it does something beside selecting wrongly, of the same.
        recorded: selections that it made in production and that were judged. lossy, invalid: of them.
    """

    path: str | None
    rows: int = 0
    refused: int = 0
    safe: int = 0
    at_risk: int = 0
    certain: int = 0
    unknown: int = 0
    reached: int = 0
    losing: int = 0
    harmful: int = 0
    recorded: int = 0
    lossy: int = 0
    invalid: int = 0

    @property
    def gravity(self) -> tuple[int, ...]:
        """For sorting, the gravest first."""
        return (self.invalid, self.harmful, self.lossy, self.losing, self.certain, self.at_risk, self.reached)

    @property
    def is_found(self) -> bool:
        """Whether rows are bad for what the path did to them, or can do to those that reach it or may."""
        return bool(self.invalid or self.harmful or self.lossy or self.losing)


@dataclass(frozen=True)
class Group:
    """The rows that have one value of a column; ``value`` is ``None`` where they do not say it."""

    value: str | int | None
    tally: Tally


@dataclass(frozen=True)
class Grouped:
    """Rows by a column: the gravest groups.

    Attributes:
        groups: those. of: how many there are in all. more_bad: how many of the others have bad rows.
    """

    groups: tuple[Group, ...]
    of: int
    more_bad: int


@dataclass(frozen=True)
class Shares:
    """Rows whose scores hold something that selectors treat apart, out of ``rows``, those whose scores were read.

    Attributes:
        nan, neg_inf: with such a score. fp16_overflow: with finite scores beyond 65504.
        cut: rows longer than k. ties: of those, rows in which other scores equal the k-th best.
    """

    rows: int = 0
    nan: int = 0
    neg_inf: int = 0
    fp16_overflow: int = 0
    cut: int = 0
    ties: int = 0


@dataclass(frozen=True)
class Files:
    """What became of the audited files.

    Attributes:
        files: in the manifest. bytes: of them. states: how many are in each state.
        faulty: those with an error, the first in order. of: how many have one.
    """

    files: int = 0
    bytes: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    faulty: tuple[FileLine, ...] = ()
    of: int = 0


@dataclass(frozen=True)
class Summary(Rendered):
    """What an audit found.

    Attributes:
        name: of the output folder, as given. folder: that was audited. about: what was asked, and of which versions.
        unfinished: how far the audit is, if it is not finished; all else is then of what is done.
        files: of the audited folder. calls: of which rows were read. total: all rows.
        routed: rows judged on the path that they reach; unrouted: on those that they may, since it is not known.
        verdicts: recorded selections by verdict. risks: rows by the gravest risk on the paths that they reach or may.
        paths: the gravest first. groups: by op, release, layer, step, rank and file. grid: layers × steps.
        shares: rows with scores that selectors treat apart.
        worst: the worst rows, each by its worst line with all its columns. errors: rows that could not be read or
            judged, a line each, the first ones.
        kind: ``audit``, or ``scan``, whose lines are kept nowhere that others read.
    """

    name: str
    folder: str
    about: Mapping[str, Any]
    unfinished: Unfinished | None
    files: Files
    calls: int
    total: Tally
    routed: int
    unrouted: int
    verdicts: Mapping[str, int]
    risks: Mapping[str, int]
    paths: tuple[PathTally, ...]
    groups: Mapping[str, Grouped]
    grid: Grid | None
    shares: Shares
    worst: tuple[Mapping[str, Any], ...]
    errors: tuple[Mapping[str, Any], ...]
    kind: Kind = "audit"

    @property
    def loses(self) -> bool:
        """Whether any row is lossy, invalid, not safe on its path, or harmful."""
        return self.total.bad > 0

    @property
    def faulty(self) -> bool:
        """Whether a file or a row could not be read or judged."""
        return bool(self.files.of or self.total.errors)


def summarize(
    dataset: Dataset, worst: int = WORST, groups: int = GROUPS, progress: Callable[[int], None] | None = None
) -> Summary:
    """Count what an audit found.

    Args:
        dataset: the audit's output. worst: how many rows are listed. groups: how many of a column.
        progress: called with the number of record files read.

    Raises:
        CaptureError: what is read is not what an audit writes.
    """
    files = _files(dataset, worst) if dataset.finished else Files()
    summing = Summing(worst, dataset.served)
    record = -1
    for lines in dataset.lines(COLUMNS):
        if progress is not None and lines.record != record:
            progress(record := lines.record)
        try:
            summing.add(lines)
        except ValueError as error:
            raise dataset.bad(lines.record, str(error)) from None
    if summing.rows != len(summing.seen_rows):
        raise CaptureError(
            f"its records tell {summing.rows - len(summing.seen_rows)} rows more than once; {CURE}",
            file=dataset.name,
        )
    dataset.check_rows(summing.rows)
    return summary_of(
        summing,
        dataset.whole_lines,
        groups,
        name=dataset.name,
        folder=shown(dataset.folder),
        about=dataset.about,
        unfinished=dataset.unfinished(),
        files=files,
    )


def summary_of(
    summing: Summing,
    whole_lines: Callable[[Sequence[tuple[int, int]]], Sequence[Mapping[str, Any]]],
    groups: int,
    *,
    name: str,
    folder: str,
    about: Mapping[str, Any],
    unfinished: Unfinished | None,
    files: Files,
    kind: Kind = "audit",
) -> Summary:
    """What a pass amounts to.

    Args:
        whole_lines: gives the lines at places that ``Summing`` names. groups: how many of a column.
    """
    paths = [PathTally(path, *counts) for path, counts in summing.paths()]
    paths.sort(key=lambda one: (*(-number for number in one.gravity), one.path or ""))
    grouped = {}
    for by in BY:
        gravest, more = summing.by[by].worst(groups)
        grouped[by] = Grouped(tuple(Group(key, tally) for key, tally in gravest), len(summing.by[by]), more)
    worst, errors = summing.worst.places(), summing.errors.places()
    told = whole_lines([*worst, *errors])
    return Summary(
        name=name,
        folder=folder,
        about=about,
        unfinished=unfinished,
        files=files,
        calls=len(summing.seen_calls),
        total=summing.total,
        routed=summing.routed,
        unrouted=summing.unrouted,
        verdicts=dict(zip(VERDICTS, map(int, summing.verdicts), strict=True)),
        risks=dict(zip((UNKNOWN, *LEVELS), map(int, summing.risks), strict=True)),
        paths=tuple(paths),
        groups=grouped,
        grid=summing.grid.grid(),
        shares=Shares(*map(int, summing.shares)),
        worst=tuple(told[: len(worst)]),
        errors=tuple(told[len(worst) :]),
        kind=kind,
    )


def _files(dataset: Dataset, most: int) -> Files:
    files = size = of = 0
    states: dict[str, int] = {}
    faulty: list[FileLine] = []
    for line in dataset.manifest():
        files, size = files + 1, size + (line.size or 0)
        states[line.state] = states.get(line.state, 0) + 1
        if line.error is not None:
            of += 1
            faulty += [line] if len(faulty) < most else []
    return Files(files, size, dict(sorted(states.items())), tuple(faulty), of)
