"""The matrix row × release: what each release of an op makes of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from workbench.analysis.reference import winners_wanted
from workbench.analysis.repeatability import Kind as Repeatability
from workbench.analysis.risk import ORDERED, Level
from workbench.analysis.standing import LOSING_STATES, State, standing
from workbench.analysis.verdict import Kind as Verdict
from workbench.arguments import checked
from workbench.capture import Capture, Row
from workbench.engines.launch import OpEngine
from workbench.errors import UsageError
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED
from workbench.rendering import Rendered
from workbench.runs.law_words import arrives_together

if TYPE_CHECKING:
    import pandas as pd

MODEL, VENDOR = "model", "vendor"
VERDICTS: tuple[Verdict, ...] = ("exact", "ties", "lossy", "invalid")  # the worst last


@dataclass(frozen=True)
class MatrixRow:
    """A row of a matrix, told without its scores: capture, number, winners wanted, length, dtype, and its digest."""

    capture: str
    row: int
    k: int
    length: int
    dtype: str
    digest: str


@dataclass(frozen=True)
class Cell(Rendered):
    """What one release made of one row.

    Attributes:
        release: as in ``vllm==0.26.0``. engine: ``model``, ``vendor`` or another engine's name. op: what was called.
        path, variant: where the release sends the row, by routing; ``None`` where that is not known.
        calls: how many there were; the model makes none of a variant that it has no model of.
        verdict: of the worst call. lost_calls: calls that were lossy or invalid.
        missing_least, missing_most, missing_mean: values of the exact top-k that a call lacked.
        repeatability: how much the calls agree.
        risk, p_clean, expected_missing, order_correlation, clean_at_most: of the row on the path, by the analysis.
        refused: why the release does not take the row, every reason. fault: what happened instead of a selection, or
            beside it: a hang, an illegal access. unknown: why it could not be told. Empty where they do not apply.
        notes: what else a reader must know.
    """

    release: str
    engine: str
    op: str | None = None
    path: str | None = None
    variant: str | None = None
    calls: int = 0
    verdict: Verdict | None = None
    lost_calls: int = 0
    missing_least: int | None = None
    missing_most: int | None = None
    missing_mean: float | None = None
    repeatability: Repeatability | None = None
    risk: Level | None = None
    p_clean: float | None = None
    expected_missing: float | None = None
    order_correlation: float | None = None
    clean_at_most: float | None = None
    refused: str = ""
    fault: str = ""
    unknown: str = ""
    notes: tuple[str, ...] = ()

    @property
    def observed(self) -> bool:
        """Whether a real op was called, and not its model."""
        return self.engine != MODEL

    @property
    def follows(self) -> bool:
        """Whether the scores follow their position in the threshold bin: real threads arrive by position, not at
        random."""
        return self.order_correlation is not None and abs(self.order_correlation) > ORDERED

    @property
    def p_pass(self) -> float | None:
        """The probability that a call loses nothing, by the analysis, or the most that it can be where scores arrive
        warp by warp; ``None`` where it claims none, since the scores follow their position, or the bound is not known.
        """
        if self.follows:
            return None
        return self.clean_at_most if self.risk == "at risk" and arrives_together(self.path) else self.p_clean

    @property
    def state(self) -> State:
        """Where the row stands in this release."""
        if self.fault:
            return "fault"
        return standing(
            verdict=self.verdict,
            calls=self.calls,
            risk=self.risk,
            p_clean=self.p_pass,
            observed=self.observed,
            refused=bool(self.refused),
        )

    @property
    def loses(self) -> bool:
        """Whether the row loses or can lose winners here, or the op did something else that it must not."""
        return self.state in (*LOSING_STATES, "fault")

    @property
    def why(self) -> str:
        """Why there is no verdict, in words; empty where there is one."""
        return self.fault or self.refused or self.unknown


@dataclass(frozen=True, eq=False)
class Matrix(Rendered):
    """Rows by releases.

    Attributes:
        rows: one each. releases: in the order of their packages as asked for, each package's oldest first.
        cells: one tuple a row, one cell a release in it. calls: that were asked for, of each cell.
        about: what ran, as in ``{"gpu": "NVIDIA H200"}``, and of
            a release its library. notes: what a reader must know, in words.
    """

    rows: tuple[MatrixRow, ...]
    releases: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    calls: int
    about: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def loses(self) -> bool:
        """Whether a row loses or can lose winners in a release, or faults there."""
        return any(cell.loses for cells in self.cells for cell in cells)

    @property
    def judged(self) -> bool:
        """Whether anything was: a cell with a verdict, a risk or a fault."""
        return any(cell.state not in ("refused", "unknown") for cells in self.cells for cell in cells)

    @cached_property
    def worst_first(self) -> tuple[int, ...]:
        """Numbers of the rows, the greatest damage first: faults, invalid, lossy, at risk; then by values missing."""
        return tuple(sorted(range(len(self.rows)), key=lambda at: (*_damage(self.cells[at]), at)))

    @checked
    def row_name(self, at: int) -> str:
        """A row by its number in its capture, with the capture where there are several: ``row 3 of some``.

        Raises:
            UsageError: there is no row at that place.
        """
        if not -len(self.rows) <= at < len(self.rows):
            raise UsageError(f"at is {at}; the matrix has rows at 0 to {len(self.rows) - 1}")
        row = self.rows[at]
        if len({one.capture for one in self.rows}) < 2:
            return f"row {row.row}"
        return f"row {row.row} of {row.capture.rsplit('/', 1)[-1].removesuffix('.safetensors')}"

    def of_package(self) -> dict[str, tuple[int, ...]]:
        """The places of each package's releases."""
        found: dict[str, list[int]] = {}
        for at, release in enumerate(self.releases):
            found.setdefault(release.partition("==")[0], []).append(at)
        return {package: tuple(places) for package, places in found.items()}

    def to_records(self) -> list[dict[str, object]]:
        """One dictionary a row and release, rows first."""
        return [
            vars(row) | {one.name: getattr(cell, one.name) for one in fields(Cell)} | {"state": cell.state}
            for row, cells in zip(self.rows, self.cells, strict=True)
            for cell in cells
        ]

    def to_pandas(self) -> pd.DataFrame:
        """One line a row and release; integers nullable, notes as one text."""
        import pandas as pd

        records = [record | {"notes": "; ".join(_notes(record))} for record in self.to_records()]
        names = [one.name for kind in (MatrixRow, Cell) for one in fields(kind)] + ["state"]
        frame = pd.DataFrame(records, columns=names)
        for one in (*fields(MatrixRow), *fields(Cell)):
            if str(one.type).startswith("int"):
                frame[one.name] = frame[one.name].astype("Int64")
            elif str(one.type).startswith("float"):
                frame[one.name] = frame[one.name].astype("float64")
        return frame


def _notes(record: dict[str, object]) -> tuple[str, ...]:
    notes = record["notes"]
    return notes if isinstance(notes, tuple) else ()


def _damage(cells: Sequence[Cell]) -> tuple[int, int, float, int]:
    """How a row sorts by its damage, the greatest first."""
    gravity = {"fault": 3, "loses": 2, "can lose": 1}
    grave = max((gravity.get(cell.state, 0) for cell in cells), default=0)
    invalid = any(cell.verdict == "invalid" for cell in cells)
    missing = max((cell.missing_mean or cell.expected_missing or 0.0 for cell in cells), default=0.0)
    return -grave, -invalid, -missing, -sum(cell.loses for cell in cells)


class Rows(Protocol):
    """Rows that can be gone through more than once, as a capture's: they are read as they are needed."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Row]: ...


class Judge(Protocol):
    """What tells of a row in a release: see ``workbench.runs.judges``.

    Attributes:
        name: of the engine. by_release: whether it is given all rows of a release before the next one, since it holds
            what runs the release and makes whole calls; else all releases of a row before the next one.
        about: what ran, as far as calls told.
    """

    name: str
    by_release: bool
    about: dict[str, str]

    def __call__(self, row: Row, release: str) -> Cell:
        """What a release makes of a row; never raises for what the release does."""

    def column(self, rows: Iterable[Row], release: str) -> Iterator[Cell]:
        """What a release makes of each of several rows, in their order."""

    def close(self) -> None:
        """Give back what it holds."""


@checked
def matrix(
    rows: Row | Iterable[Row],
    releases: str | Sequence[str] | None = None,
    op: str | Sequence[str] | None = None,
    engine: str | Callable[[str], OpEngine] = MODEL,
    repeats: int = 10,
    *,
    device: str | None = None,
    k: int | None = None,
    seed: int = DEFAULT_SEED,
    arrival: str = DEFAULT_ORDER,
    timeout: float | None = None,
    among: Capture | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Matrix:
    """Give each row to each release of its op.

    Args:
        rows: a capture, rows, or one row.
        releases: ranges or releases, as in ``"vllm==0.20.2..0.33.0"``; of several packages if need be. With the model,
            those that routing knows in the range; with ``vendor``, those added or installed. By default all of the op.
        op: what the rows are given to; by default what each row's call says. Of several ops, one a package, a release
            takes that of its package.
        engine: ``model``, ``vendor``, or what opens an engine of a release.
        repeats: calls of each cell. device, k: those of the call where not given. seed, arrival: as for ``run``.
        timeout: seconds that one call of the vendor engine may take. among: as for ``run``.
        progress: called with the number of cells done, and of all.

    Raises:
        UsageError: an unknown name, a range without a release, or one whose ends are not there.
        CaptureError: a row that cannot be read.
    """
    from workbench.runs.judges import make_judge
    from workbench.runs.releases import find_releases, ops_given

    if repeats < 1:
        raise UsageError(f"repeats is {repeats}; it must be at least 1")
    ops = ops_given(op)
    among = rows if among is None and isinstance(rows, Capture) else among
    held: Rows = [rows] if isinstance(rows, Row) else rows if isinstance(rows, Capture | Sequence) else list(rows)
    tried = find_releases(releases, ops or (() if releases is not None else _ops_of(held)), engine)
    with closing(make_judge(engine, ops, device, k, repeats, seed, arrival, timeout, among)) as judge:
        return judge_all(held, tried.releases, judge, repeats, k=k, notes=tried.notes, progress=progress)


def _ops_of(rows: Rows) -> tuple[str, ...]:
    calls = rows.calls if isinstance(rows, Capture) else (row.call for row in rows)
    return tuple(dict.fromkeys(call.op for call in calls if call.op is not None))


def judge_all(
    rows: Rows,
    releases: Sequence[str],
    judge: Judge,
    calls: int,
    *,
    k: int | None = None,
    notes: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Matrix:
    """Fill a matrix with what a judge says; rows are read as they are needed."""
    total, done = len(rows) * len(releases), 0
    told: list[MatrixRow] = []
    cells: list[list[Cell]] = [[] for _ in range(len(rows))]

    def fill(at: int, cell: Cell) -> None:
        nonlocal done
        cells[at].append(cell)
        done += 1
        if progress is not None:
            progress(done, total)

    def noted(row: Row) -> Row:
        if len(told) < len(rows):
            told.append(tell_row(row, k))
        return row

    if judge.by_release:
        for release in releases:
            for at, cell in enumerate(judge.column(map(noted, rows), release)):
                fill(at, cell)
    else:
        for at, row in enumerate(map(noted, rows)):
            for release in releases:
                fill(at, judge(row, release))
    return Matrix(tuple(told), tuple(releases), tuple(map(tuple, cells)), calls, dict(judge.about), tuple(notes))


def tell_row(row: Row, k: int | None = None) -> MatrixRow:
    """A row, told without its scores.

    Raises:
        CaptureError: k is not known.
    """
    return MatrixRow(row.capture, row.index, winners_wanted(row, k), row.length, row.dtype, row.digest)
