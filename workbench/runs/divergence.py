"""What a comparison of captured runs found: points, tokens, and the detail of any point on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Self

from workbench.analysis.divergence.alignment import Event
from workbench.analysis.divergence.inputs import InputDifference, What, input_difference, winners
from workbench.analysis.divergence.selections import Judged, SelectionDifference, selection_difference
from workbench.analysis.divergence.states import STATES, State, parts
from workbench.analysis.divergence.tokens import TokenStep
from workbench.analysis.reference import reference
from workbench.capture import Row
from workbench.paths.transforms.recorded import recorded_positions
from workbench.rendering import Rendered
from workbench.runs.captured import CapturedRun

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is stored: the file as it was given, and the row and call within it."""

    file: str
    row: int
    call: int


@dataclass(frozen=True, slots=True)
class Point(Rendered):
    """One row of one call, in two runs.

    Attributes:
        request, step, layer, rank, op: of the call, as the first run names it; ``None`` where unknown (the rank also
            where ranks are compared).
        row: its place among the rows of its call. occurrence: how many calls of the same name came before.
        state: the first that applies. what: where inputs differ, the first thing that does.
        reordered: whether the runs have it at different places in their order, whatever its state.
        a, b: where it is stored, ``None`` where a run does not have it.
        judged_a, judged_b: each side against the exact reference, where values or ties vary.
        differing: what else the runs do not have in common about the call, as its release.
        outside: whether inputs are the same as far as they were captured, but the length leaves the row: an op may have
            read what the capture does not hold.
        mapped: whether the recorded entries are compared as they are, since their positions cannot be told.
    """

    request: str | None
    step: int | None
    layer: int | None
    rank: int | None
    op: str | None
    row: int
    occurrence: int
    state: State
    what: What | None = None
    reordered: bool = False
    a: Place | None = None
    b: Place | None = None
    judged_a: Judged | None = None
    judged_b: Judged | None = None
    differing: tuple[str, ...] = ()
    outside: bool = False
    mapped: bool = False

    @property
    def parts(self) -> bool:
        """Whether the runs part here."""
        return parts(self.state)

    @property
    def accuses(self) -> bool:
        """Whether the selector is at fault here, whatever happened before."""
        return STATES[self.state].accuses and not self.outside


@dataclass(frozen=True)
class Detail(Rendered):
    """One point in full: what its inputs differ in, or else how its selections do; ``None`` where neither applies.

    Attributes:
        outside: the length, and the cells of the row from its start on, where the same length leaves both rows. The
            verdicts of the selections are then of what was captured alone.
    """

    point: Point
    inputs: InputDifference | None = None
    selections: SelectionDifference | None = None
    outside: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Comparison(Rendered):
    """A run against the first one.

    Attributes:
        a, b: the names of the first run and of this one.
        points: every row of either run, in execution order. tokens: every token of either run, by step.
        notes: what the alignment did not take for granted, and what the runs do not have in common.
        detail: of the first point at which they part, ``None`` if there is none.
    """

    a: str
    b: str
    points: tuple[Point, ...]
    tokens: tuple[TokenStep, ...]
    notes: tuple[str, ...]
    runs: tuple[CapturedRun, CapturedRun] = field(repr=False)
    events: tuple[tuple[Event | None, Event | None], ...] = field(repr=False)
    detail: Detail | None = None

    @cached_property
    def counts(self) -> dict[State, int]:
        """Points of each state, in the order of ``STATES``."""
        found = Counter(point.state for point in self.points)
        return {state: found[state] for state in STATES}

    @property
    def first(self) -> Point | None:
        """The first point at which the runs part."""
        return next((point for point in self.points if point.parts), None)

    def first_of(self, state: State) -> Point | None:
        """The first point of a state."""
        return next((point for point in self.points if point.state == state), None)

    @property
    def first_token(self) -> TokenStep | None:
        """The first step at which tokens or logits part."""
        return next((token for token in self.tokens if token.parts), None)

    @property
    def first_flip(self) -> TokenStep | None:
        """The first step at which the runs chose different tokens."""
        return next((token for token in self.tokens if token.state == "token differs"), None)

    @property
    def parts(self) -> bool:
        """Whether the runs part anywhere."""
        return self.first is not None or self.first_token is not None

    @property
    def compared(self) -> bool:
        """Whether there was anything that could tell: a point or a token that is comparable."""
        return any(point.state != "not comparable" for point in self.points) or any(
            token.state != "not comparable" for token in self.tokens
        )

    @property
    def finding(self) -> str:
        """A paragraph that can be pasted into a bug report; its first sentence stands alone."""
        from workbench.runs.divergence_words import finding

        return finding(self)

    @property
    def headline(self) -> str:
        """The first sentence of the finding."""
        from workbench.runs.divergence_words import sentences

        return sentences(self)[0]

    def rows(self, point: Point) -> tuple[Row | None, Row | None]:
        """The rows of a point in both runs, with scores and recorded selections.

        Raises:
            CaptureError: a file cannot be read, or was changed since.
        """
        a, b = self.events[self._number(point)]
        return (None if a is None else self.runs[0].row(a)), (None if b is None else self.runs[1].row(b))

    def look(self, point: Point) -> Detail:
        """One point in full; reads its rows.

        Raises:
            CaptureError: a file cannot be read, or was changed since.
        """
        return look(point, *self.rows(point))

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {id(point): number for number, point in enumerate(self.points)}

    def _number(self, point: Point) -> int:
        """Of a point of this comparison: points are told apart by identity, for equal ones may occur."""
        number = self._numbers.get(id(point))
        return self.points.index(point) if number is None else number


def look(point: Point, a: Row | None, b: Row | None) -> Detail:
    """A point with what its two rows differ in."""
    if a is None or b is None:
        return Detail(point)
    inputs = input_difference(a, b)
    if inputs is not None or point.mapped or a.indices is None or b.indices is None:
        return Detail(point, inputs)
    exact, scores = reference(a, winners(a)).indices.cpu(), a.valid.cpu()
    found = selection_difference(scores, exact, recorded_positions(a).cpu(), recorded_positions(b).cpu())
    return Detail(point, None, found, (a.length, a.scores.numel() - a.start) if a.outside else None)


@dataclass(frozen=True, eq=False)
class Divergence(Rendered):
    """Every further run against the first one. A context manager: on leaving it, files are closed.

    Attributes:
        runs: their names. comparisons: one for each run but the first, in the order given.
    """

    runs: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def parts(self) -> bool:
        """Whether any run parts from the first one."""
        return any(comparison.parts for comparison in self.comparisons)

    @property
    def compared(self) -> bool:
        """Whether every run had something that could tell."""
        return all(comparison.compared for comparison in self.comparisons)

    @property
    def earliest(self) -> Comparison:
        """The comparison that parts first, by step and layer, then by place in its run; else the first one."""
        return min(self.comparisons, key=_when)

    @property
    def finding(self) -> str:
        """A paragraph on the earliest parting, and on how many runs part."""
        from workbench.runs.divergence_words import several

        return several(self)

    def to_records(self) -> list[dict[str, object]]:
        """One flat dictionary a point, in order; the columns of ``to_pandas``."""
        return [record for comparison in self.comparisons for record in _records(comparison)]

    def to_pandas(self) -> pd.DataFrame:
        """One line a point of every comparison: which runs and call, the state, where it is stored, both verdicts."""
        import pandas as pd

        frame = pd.DataFrame(self.to_records(), columns=list(COLUMNS))
        for name in INTEGERS:
            frame[name] = frame[name].astype("Int64")
        return frame

    def close(self) -> None:
        """Close the files; they open again when a point is looked at."""
        for comparison in self.comparisons:
            for run in comparison.runs:
                run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _when(comparison: Comparison) -> tuple[bool, float, float, int]:
    """When a comparison parts, for sorting; a token comes after the layers of its step."""
    last = float("inf")
    found = [(last, last, len(comparison.points))]
    for number, point in enumerate(comparison.points):
        if point.parts:
            layers = (last if value is None else float(value) for value in (point.step, point.layer))
            found.append((*layers, number))  # type: ignore[arg-type]
            break
    if comparison.first_token is not None:
        found.append((float(comparison.first_token.step), last, len(comparison.points)))
    return (not comparison.parts, *min(found))


_NAMED = ("request", "step", "layer", "rank", "op", "row", "occurrence")
_STATED = ("state", "what", "reordered", "outside")
COLUMNS = (
    "run",
    *_NAMED,
    *_STATED,
    *(f"{name}_{side}" for side in "ab" for name in ("file", "row", "call", "verdict", "missing")),
)
INTEGERS = ("step", "layer", "rank", "row_a", "call_a", "missing_a", "row_b", "call_b", "missing_b")


def _records(comparison: Comparison) -> Iterator[dict[str, object]]:
    for point in comparison.points:
        record: dict[str, object] = {"run": comparison.b}
        record |= {name: getattr(point, name) for name in (*_NAMED, *_STATED)}
        for side, place, judged in (("a", point.a, point.judged_a), ("b", point.b, point.judged_b)):
            for one in fields(Place):
                record[f"{one.name}_{side}"] = None if place is None else getattr(place, one.name)
            record[f"verdict_{side}"] = None if judged is None else judged.verdict
            record[f"missing_{side}"] = None if judged is None else judged.missing
        yield record
