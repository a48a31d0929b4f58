"""What tells of a row in a release: the models behind routing, or an engine that stands for the whole op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from workbench.analysis.repeatability import Fingerprint, fingerprint, kind_of
from workbench.analysis.risk import NOT_MODELLED
from workbench.analysis.verdict import LOST
from workbench.arguments import check_timeout
from workbench.capture import Capture
from workbench.capture.row import Row
from workbench.engines.launch import OpEngine
from workbench.engines.registry import vendor_engine
from workbench.errors import UsageError, WorkbenchError
from workbench.paths.catalog import get_path
from workbench.paths.ops import OPS
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED
from workbench.paths.spec import Path
from workbench.runs.case import Case
from workbench.runs.launched import run_launched
from workbench.runs.matrix import MODEL, VENDOR, VERDICTS, Cell, Judge
from workbench.runs.releases import op_in
from workbench.runs.repeat import keeps_order
from workbench.runs.report import Line, library_text
from workbench.runs.run import ORDERS, run_case
from workbench.words import listed


class ModelJudge:
    """Routes a row and runs the model of its path; what is known of one row is kept until the next one.

    Args:
        ops: what rows are given to, at most one of a package; the call's where empty. device, k: those of the call
            where not given. repeats: calls of each cell; 0 for the risk alone. seed, arrival: as for ``run``.
    """

    name = MODEL
    by_release = False

    def __init__(
        self,
        ops: Sequence[str] = (),
        device: str | None = None,
        k: int | None = None,
        repeats: int = 10,
        seed: int = DEFAULT_SEED,
        arrival: str = DEFAULT_ORDER,
    ) -> None:
        self._ops, self._device, self._k = ops, device, k
        self._repeats, self._seed, self._arrival = repeats, seed, arrival
        self._case: Case | None = None
        self._ran: dict[tuple[str, str], Cell] = {}
        self.about: dict[str, str] = {}

    def __call__(self, row: Row, release: str) -> Cell:
        """What the release makes of the row."""
        cell, case = self.outlook(row, release)
        if case is None or not self._repeats or cell.path is None or cell.variant is None:
            return cell
        key = (cell.path, cell.variant)
        if key not in self._ran:
            self._ran[key] = self._run(cell, case)
        return replace(self._ran[key], release=release, op=cell.op)

    def column(self, rows: Iterable[Row], release: str) -> Iterator[Cell]:
        """What the release makes of each row."""
        return (self(row, release) for row in rows)

    def close(self) -> None:
        """Let go of the last row."""
        self._case, self._ran = None, {}

    def outlook(self, row: Row, release: str) -> tuple[Cell, Case | None]:
        """The route and the risk without a call, and the case to run; ``None`` where it has no path."""
        op = op_in(release, self._ops, row.call.op)
        cell = Cell(release, MODEL, op)
        if op is None:
            return _no_op(cell, self._ops or ((row.call.op,) if row.call.op else ())), None
        if self._case is None or self._case.row is not row:
            self._ran = {}
            self._case = Case(row, None, None, self._device, self._k)
        if self._case.op != op:
            self._case = Case(row, op, None, self._device, self._k)
        cell = routed_cell(self._case, release)
        return cell, None if cell.path is None else self._case.in_release(release)

    def _run(self, cell: Cell, case: Case) -> Cell:
        return called_cell(cell, case, self._repeats, self._seed, self._arrival)


def routed_cell(case: Case, release: str) -> Cell:
    """Where a release sends a row, and what the analysis says of it there, before a model is called."""
    there = case.in_release(release)
    taken = there.route
    if taken is None or taken.path is None or taken.variant is None:
        known = taken is not None and not taken.unknown
        cell = Cell(release, MODEL, case.op)
        return replace(cell, **{"refused" if known else "unknown": there.unrouted})  # type: ignore[arg-type]
    return path_cell(there, get_path(taken.path), taken.variant, release)


def path_cell(case: Case, path: Path, variant: str, release: str = "") -> Cell:
    """What the analysis says of a row on a path and one of its variants, before a model is called. ``release``: that
    sends it there; empty where the path is judged by itself."""
    risk = case.risk(path, path.variant(variant))
    if risk.observed and not release:  # what is known of it, is known of the releases that have it
        return Cell(release, MODEL, case.op, risk.path, risk.variant, unknown=f"{NOT_MODELLED}: {risk.note}")
    return Cell(
        release,
        MODEL,
        case.op,
        risk.path,
        risk.variant,
        risk=risk.level,
        p_clean=risk.p_clean,
        expected_missing=risk.expected_missing,
        order_correlation=risk.order_correlation,
        clean_at_most=risk.clean_at_most,
        refused="; ".join(risk.refused),
        fault=risk.finding,
        notes=(risk.note,) if risk.note else (),
    )


def called_cell(cell: Cell, case: Case, repeats: int, seed: int = DEFAULT_SEED, arrival: str = DEFAULT_ORDER) -> Cell:
    """A cell of ``path_cell`` with what its path's model makes of the row in so many calls; where there is no call it
    says why."""
    assert cell.path is not None
    assert cell.variant is not None
    calls: list[tuple[str, int]] = []
    prints: set[Fingerprint] = set()
    same = keeps_order(cell.path, cell.variant)
    for number in range(repeats):
        at = seed + (0 if same else number)
        (made,) = run_case(case, paths=cell.path, variants=cell.variant, seed=at, arrival=arrival)
        if made.selection is None or made.verdict is None:  # what is refused once is refused always
            why = made.line.refused or ""
            if cell.state in ("unknown", "refused", "fault"):
                return cell if cell.why else replace(cell, unknown=why)
            return replace(cell, notes=tuple(dict.fromkeys(filter(None, (*cell.notes, why)))))
        calls.append((made.verdict.kind, made.verdict.missing))
        prints.add(fingerprint(case.row.valid, made.selection.indices))
    return replace(counted(cell, calls), repeatability=kind_of(prints) if len(calls) > 1 else None)


def _no_op(cell: Cell, ops: Sequence[str]) -> Cell:
    """Why a release has no op to give a row to."""
    package = cell.release.partition("==")[0]
    if ops:
        return replace(cell, refused=f"{listed(ops)} {_is(ops)} of {package}")
    known = [op.name for op in OPS if op.package == package]
    return replace(cell, unknown=f"the op is not known; give it{f', as --op {known[0]}' if known else ''}")


def _is(ops: Sequence[str]) -> str:
    return "is no op" if len(ops) == 1 else "are no ops"


class OpJudge:
    """Gives rows to what runs a whole op, beside what routing and the analysis say of them.

    Args:
        name: of the engine. open_engine: opens what runs a release; it is held until the next release is asked for.
        ops, device, k, repeats: as for the model. among: the capture that rows are of, for the others of their calls.
    """

    by_release = True

    def __init__(
        self,
        name: str,
        open_engine: Callable[[str], OpEngine],
        ops: Sequence[str] = (),
        device: str | None = None,
        k: int | None = None,
        repeats: int = 10,
        among: Capture | None = None,
    ) -> None:
        self.name, self._open, self._among = name, open_engine, among
        self._ops, self._device, self._k, self._repeats = ops, device, k, repeats
        self._engine: OpEngine | None = None
        self._release = ""
        self.about: dict[str, str] = {}

    def __call__(self, row: Row, release: str) -> Cell:
        """What the release makes of the row."""
        (cell,) = self.column([row], release)
        return cell

    def column(self, rows: Iterable[Row], release: str) -> Iterator[Cell]:
        """What the release makes of each row; rows of one call that are all there are given to it in one call."""
        for op, same in groupby(rows, lambda row: op_in(release, self._ops, row.call.op)):
            if op is None:
                yield from (self._without_op(row, release) for row in same)
                continue
            try:
                engine = self._engine_of(release)
            except WorkbenchError as error:
                yield from (Cell(release, self.name, op, refused=str(error)) for _ in same)
                continue
            report = run_launched(same, engine, self._repeats, op=op, device=self._device, k=self._k, among=self._among)
            for told in report.about.values():
                self.about = merged(self.about, told, release)
            lines: list[Line] = []
            for line in report:
                if line.repeat == 0 and lines:
                    yield _of_lines(lines, self.name, release)
                    lines = []
                lines.append(line)
            if lines:
                yield _of_lines(lines, self.name, release)

    def close(self) -> None:
        """Close what runs the last release."""
        if self._engine is not None:
            self._engine.close()
        self._engine, self._release = None, ""

    def _engine_of(self, release: str) -> OpEngine:
        if self._engine is None or self._release != release:
            self.close()
            self._engine, self._release = self._open(release), release
        return self._engine

    def _without_op(self, row: Row, release: str) -> Cell:
        return _no_op(Cell(release, self.name), self._ops or ((row.call.op,) if row.call.op else ()))


def _of_lines(lines: Sequence[Line], engine: str, release: str) -> Cell:
    """The lines of all calls on one row as a cell: what came back counts, and why the rest did not."""
    first = lines[0]
    refused = "; ".join(dict.fromkeys(line.refused for line in lines if line.refused))
    fault = "; ".join(dict.fromkeys(line.finding for line in lines if line.finding))
    cell = Cell(
        release,
        engine,
        first.op,
        first.path,
        first.variant,
        risk=first.risk,  # type: ignore[arg-type]
        p_clean=first.p_clean,
        expected_missing=first.expected_missing,
        order_correlation=first.order_correlation,
        clean_at_most=first.clean_at_most,
        repeatability=first.repeatability,  # type: ignore[arg-type]
        refused=refused,
        fault=fault,
        notes=tuple(dict.fromkeys(line.note for line in lines if line.note)),
    )
    return counted(cell, [(line.verdict, line.missing or 0) for line in lines if line.verdict is not None])


def counted(cell: Cell, calls: Sequence[tuple[str, int]]) -> Cell:
    """A cell with what calls amount to, each told by its verdict and the values missing; as it is without any."""
    if not calls:
        return cell
    missing = [lost for _, lost in calls]
    return replace(
        cell,
        calls=len(calls),
        verdict=next(kind for kind in reversed(VERDICTS) if any(verdict == kind for verdict, _ in calls)),
        lost_calls=sum(verdict in LOST for verdict, _ in calls),
        missing_least=min(missing),
        missing_most=max(missing),
        missing_mean=sum(missing) / len(missing),
    )


def make_judge(
    engine: str | Callable[[str], OpEngine],
    ops: Sequence[str] = (),
    device: str | None = None,
    k: int | None = None,
    repeats: int = 10,
    seed: int = DEFAULT_SEED,
    arrival: str = DEFAULT_ORDER,
    timeout: float | None = None,
    among: Capture | None = None,
) -> Judge:
    """The judge of an engine: ``model``, ``vendor``, or what opens an engine of a release.

    Args:
        timeout: seconds that one call of the vendor engine may take. among: the capture that rows are of.
        The others: as for ``matrix``.

    Raises:
        UsageError: an unknown arrival order, or a timeout that is none.
    """
    check_timeout(timeout)
    if arrival not in ORDERS:
        raise UsageError(f"unknown arrival order {arrival!r}; known orders: {listed(ORDERS)}")
    if engine == MODEL:
        return ModelJudge(ops, device, k, repeats, seed, arrival)
    name, opener = ("callable", engine) if callable(engine) else (VENDOR, partial(vendor_engine, call_s=timeout))
    return OpJudge(name, opener, ops, device, k, repeats, among)


OF_A_RELEASE = ("release", "from", "library", "sha256")


def merged(known: dict[str, str], told: dict[str, str], release: str) -> dict[str, str]:
    """What ran so far, with what the run of one more release tells: its library under the release's name, by its file's
    name and the start of its digest, since folders differ by machine; the rest once, with every value that was told."""
    found = dict(known)
    for name, value in told.items():
        if name not in OF_A_RELEASE and value not in found.get(name, "").split(" and "):
            found[name] = f"{found[name]} and {value}" if name in found else value
    if library := library_text(told):
        found[release] = library
    return found
