"""Engines that stand for a whole op, on rows of a capture: their answers as lines of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from workbench.analysis.repeatability import Fingerprint, fingerprint, kind_of
from workbench.analysis.verdict import judge
from workbench.capture import Capture
from workbench.capture.row import Row
from workbench.engines.launch import Answer, OpEngine, is_op_engine
from workbench.errors import UsageError
from workbench.paths.catalog import get_path
from workbench.paths.selection import UNWRITTEN
from workbench.runs.case import Case
from workbench.runs.launches import LIMIT, Laid, launches
from workbench.runs.report import Line, Report, ran_text, risk_fields, verdict_fields
from workbench.vendor.release import parse_wheel

RowEngine = Callable[[Row], Iterable[Line]]
ANSWER_LIMIT = 256 * 2**20  # bytes of the selections that are asked for at once
NO_OP = "the op is not known; give it (--op)"


def run_launched(
    rows: Row | Iterable[Row],
    engines: OpEngine | Sequence[OpEngine | RowEngine],
    repeats: int = 1,
    *,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    limit: int = LIMIT,
    among: Capture | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Call engines that stand for a whole op on rows, beside the exact reference.

    Every row has one line for each engine and call. Path, risk and ``reached`` are those of the op's route in the
    engine's release (for an engine without one, in ``release``) on the device, and unknown where routing does not know
    the release. A row whose launch or op is refused, or that the op did not return from, has one line for all calls,
    after those of the calls that returned: ``refused`` or ``finding`` tells why.

    Args:
        rows: rows, those of one call one after another, or one row.
        engines: one or more; functions among them are called on each row and give its lines.
        repeats: calls of each launch.
        op, device, k: those of the calls where not given. release: of engines without one; that of the call where not
            given.
        limit: the most bytes that the scores of a launch may have.
        among: the capture that the rows are of: a row of a call that it holds whole is called with the others.
        progress: called with the number of rows done.

    Raises:
        UsageError: an op or device is given that is not known, a release that is none, or fewer than one repeat.
        CaptureError: a row that cannot be read, or whose k is not known.
    """
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}; it must be at least 1")
    if release is not None:
        parse_wheel(release)
    every: list[OpEngine | RowEngine] = [engines] if is_op_engine(engines) else list(engines)  # type: ignore[arg-type]
    about: dict[str, dict[str, str]] = {}
    found: list[tuple[int, int, Line]] = []
    done = 0
    for laid in launches([rows] if isinstance(rows, Row) else rows, op=op, k=k, limit=limit, among=among):
        judged = _Judged(laid, [Case(row, op, None, device, k) for row in laid.rows], release)
        for rank, engine in enumerate(every):
            if is_op_engine(engine):
                found += [(laid.places[slot], rank, line) for slot, line in judged.lines(engine, repeats, about)]
            elif callable(engine):
                for place, row in zip(laid.places, laid.rows, strict=True):
                    found += [(place, rank, line) for line in engine(row)]
        done += len(laid.rows)
        del laid, judged  # before the next launch is made
        if progress is not None:
            progress(done)
    found.sort(key=lambda one: one[:2])
    return Report([line for _, _, line in found], about)


@dataclass
class _Calls:
    """The calls of one engine on one row: its lines so far, and the prints of what it selected."""

    about: dict[str, object]
    lines: list[Line] = field(default_factory=list)
    prints: set[Fingerprint] = field(default_factory=set)

    def add(self, **fields: object) -> None:
        """One more line."""
        self.lines.append(Line(**self.about, repeat=len(self.lines), **fields))  # type: ignore[arg-type]

    def settled(self) -> list[Line]:
        """The lines, each with how much the calls agree where there were several."""
        returned = sum(line.verdict is not None for line in self.lines)
        kind = kind_of(self.prints) if returned > 1 else None
        return [replace(line, repeatability=kind) for line in self.lines]


@dataclass(frozen=True)
class _Judged:
    """A launch with its rows as they are judged."""

    laid: Laid
    cases: list[Case]
    release: str | None

    def lines(self, engine: OpEngine, repeats: int, about: dict[str, dict[str, str]]) -> Iterator[tuple[int, Line]]:
        """(slot, line) of every row and call of one engine; what it tells of itself goes into ``about``."""
        calls: list[_Calls] = []
        for answer in self._answers(engine, repeats):
            calls = calls or [_Calls(self._about(case, engine, answer.about)) for case in self.cases]
            if answer.about:
                about.setdefault(engine.release or answer.about.get("release") or engine.name, {}).update(answer.about)
            note = "; ".join(filter(None, (self.laid.note, *answer.notes))) or None
            self._take(answer, calls, engine, note)
        for slot, one in enumerate(calls):
            yield from ((slot, line) for line in one.settled())

    def _answers(self, engine: OpEngine, repeats: int) -> Iterator[Answer]:
        """Those of all calls, as many at a time as memory should take; none after one that gave no selections."""
        launch = self.laid.launch
        reasons = [self.laid.refused] if launch is None else []
        if engine.release is not None and all(case.op is None for case in self.cases):
            reasons.append(NO_OP)
        if reasons or launch is None:
            yield Answer(refused=tuple(reasons))
            return
        most = max(1, ANSWER_LIMIT // (4 * launch.k * len(launch.slots)))
        for first in range(0, repeats, most):
            count = min(most, repeats - first)
            answer = engine.answer(launch, count)
            if answer.indices is not None and (shape := tuple(answer.indices.shape)) != (
                needed := (count, len(launch.slots), launch.k)
            ):
                raise UsageError(f"{engine.name} answered with selections {list(shape)}; {list(needed)} is needed")
            yield answer
            if answer.indices is None:
                return

    def _take(self, answer: Answer, calls: list[_Calls], engine: OpEngine, note: str | None) -> None:
        if answer.indices is None:
            refused = "; ".join(answer.refused) or None
            fault = None if refused else answer.fault or f"{engine.name} gave no selection and no reason"
            for one in calls:
                one.add(**({"refused": refused} if refused else {"finding": fault}), note=note)
            return
        for slot, (case, one) in enumerate(zip(self.cases, calls, strict=True)):
            scores = case.row.valid
            for indices in answer.indices[:, slot].to(scores.device):
                one.prints.add(fingerprint(scores, indices))
                verdict = judge(scores, case.exact.indices, indices, UNWRITTEN)
                one.add(**verdict_fields(verdict), note=note)

    def _about(self, case: Case, engine: OpEngine, ran: dict[str, str]) -> dict[str, object]:
        """What all lines of one row and engine have in common. ``ran``: what the engine tells of itself."""
        row = case.row
        case = case.in_release(engine.release or _public(ran) or self.release or case.release)
        route = case.route
        path = None if route is None else route.path
        about: dict[str, object] = {
            "capture": row.capture,
            "row": row.index,
            "op": case.op,
            "release": case.release,
            "path": path,
            "variant": None if route is None else route.variant,
            "engine": engine.name,
            "reached": None if path is None else True,
            "k": case.k,
            "length": row.length,
            "dtype": row.dtype,
            "ran": ran_text(ran) or None,
        }
        if route is not None and path is not None and route.variant is not None:
            spec = get_path(path)
            fields = risk_fields(case.risk(spec, spec.variant(route.variant)))
            del fields["finding"]  # what the path is said to do; what was done is seen
            about |= fields
        return about


def _public(ran: dict[str, str]) -> str | None:
    """The release that ran as routing spells it: ``vllm==0.26.0+cu129`` is 0.26.0."""
    if "release" not in ran:
        return None
    wheel = parse_wheel(ran["release"])
    return f"{wheel.package}=={wheel.version.public}"
