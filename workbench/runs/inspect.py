"""Everything the faces show of one row: its route, the risk on every path, what the judged paths return."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.analysis.risk import Risk
from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.paths.catalog import PATHS
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED
from workbench.paths.routing import Route
from workbench.paths.selection import Selection
from workbench.paths.spec import Path
from workbench.rendering import Rendered
from workbench.runs.case import Case
from workbench.runs.report import Result, line_loses
from workbench.runs.run import POSSIBLE, REACHED, SERVED, STOCK, SYSTEMS, run_case
from workbench.words import listed


@dataclass(frozen=True, eq=False)
class Inspection(Rendered):
    """One row, inspected.

    Attributes:
        case: the row with its circumstances: k, the exact reference, the route, the profile.
        judged: ``"reached"``, ``"possible"``, ``"served"`` or the glob of the judged paths. judged_because: why those.
        results: of the judged paths, by the model. recorded: of the recorded selection, if the capture holds one.
        census: the risk on every path, judged or not; of the path that the op takes in its release's variant, of the
            others as ``stock``.
    """

    case: Case
    judged: str
    judged_because: str
    results: tuple[Result, ...]
    recorded: Result | None
    census: tuple[Risk, ...]

    @property
    def row(self) -> Row:
        """The row."""
        return self.case.row

    @property
    def k(self) -> int:
        """Winners wanted."""
        return self.case.k

    @property
    def exact(self) -> Selection:
        """The reference's selection."""
        return self.case.exact

    @property
    def route(self) -> Route | None:
        """Where the op sends the row; ``None`` where op, release or device is not known."""
        return self.case.route

    @property
    def unrouted(self) -> str:
        """Why the row has no path, in words; empty if it has one."""
        return self.case.unrouted

    @property
    def of_the_call(self) -> str:
        """What the other rows of the call do to the row's path, in words; empty if nothing is known of it."""
        return self.case.of_the_call

    @property
    def reached(self) -> str | None:
        """The path that the op sends the row to; ``None`` where unknown."""
        return None if self.route is None else self.route.path

    @property
    def every(self) -> tuple[Result, ...]:
        """The judged paths' results and the recorded one."""
        return self.results if self.recorded is None else (*self.results, self.recorded)

    @property
    def finding(self) -> bool:
        """Whether a judged path, or the recorded selection, is lossy, invalid or not safe, or does harm otherwise."""
        return any(line_loses(result.line) for result in self.every)

    @property
    def headline(self) -> Result | None:
        """What to speak of first: what production returned, where it was recorded, else the worst result."""
        if self.recorded is not None and self.recorded.line.refused is None:
            return self.recorded
        return self.worst

    @property
    def worst(self) -> Result | None:
        """The result with the greatest damage; ``None`` if nothing was judged."""
        return max(self.every, key=damage, default=None)


def damage(result: Result) -> tuple[bool, bool, bool, int, float, float]:
    """How bad a result is, for sorting: a selector that hangs or leaves its memory first, then one that ran before one
    that did not, an invalid one before others, then by values missing, values expected to be missing, and how full the
    buffer was."""
    line, found = result.line, result.risk
    full = 0.0
    if found is not None and found.buffered and found.population is not None and found.stored:
        full = found.population / found.stored
    harm = line.verdict is None and line.finding is not None
    return harm, line.refused is None, line.verdict == "invalid", line.missing or 0, line.expected_missing or 0.0, full


@checked
def inspect_row(
    row: Row,
    *,
    paths: str | None = None,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    seed: int = DEFAULT_SEED,
    arrival: str = DEFAULT_ORDER,
    k: int | None = None,
) -> Inspection:
    """Inspect one row.

    Args:
        row: the row. paths: a glob of paths to judge; by default the path that the row reaches where op, release and
            device are known and decide it, else every path.
        op, release, device, k: those of the call where not given.
        seed, arrival: of the arrival order: ``random`` or ``walk`` by seed, ``index`` or ``reverse``.
    """
    case = Case(row, op, release, device, k)
    judged, because = judged_paths(paths, case)
    recorded = run_case(case, engine="recorded")[0] if row.indices is not None else None
    made = Inspection(
        case=case,
        judged=judged,
        judged_because=because,
        results=tuple(run_case(case, paths=judged, seed=seed, arrival=arrival)),
        recorded=recorded,
        census=tuple(census_of(case)),
    )
    case.profile.keys.forget()  # inspections are kept, by the app and by whoever lists rows
    return made


def census_of(case: Case, paths: tuple[Path, ...] = PATHS) -> list[Risk]:
    """The risk of a row on each path: of the one that the op takes in its release's variant, of the others as stock."""
    own = {case.route.path: case.route.variant} if case.route is not None else {}
    return [case.risk(path, path.variant(own.get(path.name) or STOCK)) for path in paths]


def judged_paths(paths: str | None, case: Case) -> tuple[str, str]:
    """Which paths to judge a row on, and why those: the ones asked for, else the reached one, else all that may be."""
    if paths is not None:
        return paths, "as asked"
    if not case.unrouted:
        return REACHED, "the path that the op sends the row to"
    if case.route is not None and case.route.refused:
        return REACHED, "the op refuses the row"
    if case.possible is None:
        return SERVED, f"every path of {listed(SYSTEMS)}, since {case.unrouted}"
    return POSSIBLE, f"every path that {case.op} could take, since {case.unrouted}"
