"""One row on many paths: by the variants of each, by the engines that ran it, or as ops send it there by release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from workbench.analysis.standing import STATES
from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.ops import OPS
from workbench.rendering import Rendered
from workbench.runs.called import Called
from workbench.runs.case import Case
from workbench.runs.inspect import Inspection, census_of
from workbench.runs.judges import called_cell, counted, path_cell, routed_cell
from workbench.runs.matrix import MODEL, Cell
from workbench.runs.report import Result
from workbench.runs.run import STOCK
from workbench.words import described, listed

if TYPE_CHECKING:
    import pandas as pd

Axis = Literal["variants", "engines", "releases"]
AXES: tuple[Axis, ...] = get_args(Axis)
UNROUTED = "no path"  # the line of what cannot be said of one path
NOT_CALLED = "it was not called yet"
BASELINES = "baselines"
SYSTEMS: dict[str, tuple[str, ...]] = {
    "vllm": ("vllm",),
    "sglang": ("sglang",),
    "flashinfer": ("flashinfer",),
    BASELINES: ("torch", "tilelang"),
}
_GRAVE = {"fault": 0, "loses": 1, "can lose": 2, "unknown": 3, "clean": 4, "refused": 5}
assert set(_GRAVE) == set(STATES)

Place = tuple[str, str]  # line, column
Ran = Mapping[tuple[str, str], Cell]  # what models made of the row, by path and variant
_COLUMNS = (
    *("path", "variant", "engine", "op", "release", "state", "verdict", "calls", "lost_calls"),
    *("missing_least", "missing_most", "missing_mean", "repeatability", "risk", "p_clean", "expected_missing"),
    "clean_at_most",
)
_WHOLE, _REAL = (
    ("calls", "lost_calls", "missing_least", "missing_most"),
    ("missing_mean", "p_clean", "expected_missing", "clean_at_most"),
)


@dataclass(frozen=True, eq=False)
class Compared(Rendered):
    """One row on several paths, as cells of lines by columns.

    Attributes:
        axis: what the columns are. lines: names of paths, of ops where columns are releases; the one that is reached
            first, then by the worst that becomes of the row there, and last ``UNROUTED``, where it is needed.
        columns: variants, engines or releases, each in its usual order.
        cells: by (line, column); many places have none, as a path has few of all variants.
        reached: the line that the row takes, by its op; ``None`` where unknown. of: winners wanted, min(k, length).
    """

    axis: Axis
    lines: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[Place, Cell]
    reached: str | None
    of: int

    @checked
    def at(self, line: str) -> dict[str, Cell]:
        """The cells of a line by their columns."""
        return {column: self.cells[line, column] for column in self.columns if (line, column) in self.cells}

    @property
    def loses(self) -> bool:
        """Whether the row loses or can lose winners in a cell, or faults there."""
        return any(cell.loses for cell in self.cells.values())

    def places(self) -> list[Place]:
        """(line, column) of every cell, lines first."""
        return [(line, column) for line in self.lines for column in self.at(line)]

    def to_records(self) -> list[dict[str, object]]:
        """One dictionary a cell, with its state and why there is no verdict, or what else must be known."""
        return [
            {name: getattr(cell, name) for name in _COLUMNS} | {"why": cell.why or "; ".join(cell.notes)}
            for cell in (self.cells[place] for place in self.places())
        ]

    def to_pandas(self) -> pd.DataFrame:
        """One line a cell, lines first; integers nullable."""
        import pandas as pd

        frame = pd.DataFrame(self.to_records(), columns=[*_COLUMNS, "why"])
        for name in _WHOLE:
            frame[name] = frame[name].astype("Int64")
        for name in _REAL:
            frame[name] = frame[name].astype("Float64")
        return frame

    @checked
    def only(self, system: str | None = None, losing: bool = False) -> Compared:
        """The lines of one of ``SYSTEMS``, those on which the row loses or can lose in some column, or both; columns
        that are then empty are left out. What is of no path stays unless it does not lose."""
        if system is not None and system not in SYSTEMS:
            raise UsageError(f"system is {described(system)}; it must be {listed(SYSTEMS, 'or')}")
        lines = tuple(
            line
            for line in self.lines
            if (system is None or line == UNROUTED or line.split(".")[0] in SYSTEMS[system])
            and (not losing or any(cell.loses for cell in self.at(line).values()))
        )
        kept = {place: cell for place, cell in self.cells.items() if place[0] in lines}
        used = {column for _, column in kept}
        columns = tuple(column for column in self.columns if column in used)
        return replace(self, lines=lines, columns=columns, cells=kept)


@checked
def compare(
    row: Row,
    by: str = "variants",
    calls: int = 0,
    *,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Compared:
    """One row on every path, by the analysis and, where calls are asked for, by the models.

    Args:
        row: the row.
        by: ``"variants"`` of each path, or ``"releases"``: each op in every release that has it, on the path that it
            sends the row to there.
        calls: of each model that takes the row, under random arrival orders by seed, from 0; 0 for the analysis alone,
            which takes every arrival order.
        op, release, device, k: those of the call where not given.
        progress: called with the number of models done, and of all.

    Raises:
        UsageError: an unknown name, or a negative number of calls. CaptureError: k is not known.
    """
    if by not in (ways := {"variants": by_variants, "releases": by_releases}):
        raise UsageError(f"unknown way {by!r} to compare; known: {listed(ways)}")
    if calls < 0:
        raise UsageError(f"calls is {calls}; it must not be negative")
    case = Case(row, op, release, device, k)
    ran: dict[tuple[str, str], Cell] = {}
    found = ways[by](case, ran)
    todo = cells_to_run(found, ran) if calls else []
    for done, cell in enumerate(todo, 1):
        ran[str(cell.path), str(cell.variant)] = run_cell(case, cell, calls)
        if progress is not None:
            progress(done, len(todo))
    return ways[by](case, ran) if todo else found


def _compared(case: Case, axis: Axis, columns: Sequence[str], cells: Mapping[Place, Cell]) -> Compared:
    reached = case.op if axis == "releases" else None if case.route is None else case.route.path
    worst: dict[str, int] = {}
    for (line, _), cell in cells.items():
        worst[line] = min(worst.get(line, len(_GRAVE)), _GRAVE[cell.state])
    lines = sorted(worst, key=lambda line: (line == UNROUTED, line != reached, worst[line]))
    of = max(0, min(case.k, case.row.length))
    return Compared(axis, tuple(lines), tuple(columns), cells, reached, of)


def by_variants(case: Case, ran: Ran) -> Compared:
    """Every path in each of its variants, ``stock`` first: by the analysis, and by the models that ran."""
    cells = {
        (path.name, variant.name): ran.get((path.name, variant.name)) or path_cell(case, path, variant.name)
        for path in PATHS
        for variant in path.variants
    }
    names = dict.fromkeys([STOCK, *(variant.name for path in PATHS for variant in path.variants)])
    return _compared(case, "variants", tuple(names), cells)


def by_engines(
    found: Inspection, ran: Ran, called: Mapping[tuple[str, str], Called | str], engines: Sequence[str]
) -> Compared:
    """What each engine makes of the row on each path: in its release's variant on the path that the op takes, else as
    ``stock``; an engine that stands for the op on the reached path alone.

    Args:
        called: what is known of engines besides ``model`` and ``recorded``, by line and engine: calls, or why there can
            be none; an empty text where none was made yet. engines: the columns, in their order.
    """
    case = found.case
    variants = {risk.path: risk.variant for risk in census_of(case)}
    cells: dict[Place, Cell] = {}
    if MODEL in engines:
        for path, variant in variants.items():
            cells[path, MODEL] = ran.get((path, variant)) or path_cell(case, get_path(path), variant)
    if found.recorded is not None and found.recorded.line.engine in engines:
        cells[found.reached or UNROUTED, found.recorded.line.engine] = _of_result(found.recorded)
    for (line, engine), calls in called.items():
        if isinstance(calls, Called):
            cells[line, engine] = cell_of(calls, engine)
            continue
        named = (line, variants[line]) if line in variants else (None, None)
        cell = Cell(case.release or "", engine, case.op, *named)
        cells[line, engine] = replace(cell, refused=calls, unknown="" if calls else NOT_CALLED)
    return _compared(case, "engines", engines, cells)


def by_releases(case: Case, ran: Ran) -> Compared:
    """The row given to every op in each release that has it, on the path that the op sends it to there; lines are ops,
    the row's own first."""
    cells: dict[Place, Cell] = {}
    for op in OPS:
        given = case.with_op(op.name)
        for release in op.releases:
            cell = routed_cell(given, release)
            made = ran.get((cell.path, cell.variant)) if cell.path and cell.variant else None
            cells[op.name, release] = cell if made is None else replace(made, release=release, op=op.name)
    columns = dict.fromkeys(release for op in OPS for release in op.package_releases)
    return _compared(case, "releases", tuple(columns), cells)


def cells_to_run(found: Compared, ran: Ran) -> list[Cell]:
    """The cells that a model can still be called for, one a path and variant, those of the first line first."""
    open_ = {
        (cell.path, cell.variant): cell
        for line in found.lines
        for cell in found.at(line).values()
        if cell.engine == MODEL and not (cell.why or cell.path is None or cell.variant is None)
    }
    return [cell for key, cell in open_.items() if key not in ran and get_path(key[0]).variant(key[1]).modelled]


def run_cell(case: Case, cell: Cell, calls: int) -> Cell:
    """Call the model of a cell's path, under random arrival orders by seed, from 0."""
    return called_cell(replace(cell, release=""), case, calls)


def _of_result(result: Result) -> Cell:
    """One selection as a cell."""
    line = result.line
    cell = Cell(
        line.release or "",
        line.engine,
        line.op,
        line.path,
        line.variant,
        refused=line.refused or "",
        fault=line.finding or "",
        notes=(line.note,) if line.note else (),
    )
    return counted(cell, [(line.verdict, line.missing or 0)] if line.verdict is not None else [])


def cell_of(called: Called, engine: str) -> Cell:
    """Calls of an engine as a cell; of the values missing there is the span and no mean."""
    cell = _of_result(called.worst)
    if called.why_none:
        return replace(cell, engine=engine)
    return replace(
        cell,
        engine=engine,
        calls=called.calls,
        lost_calls=called.lost,
        missing_least=called.least,
        missing_most=called.most,
        missing_mean=None if called.least != called.most else float(called.most),
        repeatability=called.repeatability,  # type: ignore[arg-type]
    )
