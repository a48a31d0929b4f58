"""Run selectors on rows and judge what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from workbench.analysis.risk import Risk
from workbench.analysis.verdict import judge
from workbench.arguments import checked
from workbench.capture import Capture
from workbench.capture.row import Row
from workbench.engines.base import Engine, SelectionFaultError, Task
from workbench.engines.registry import get_engine
from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.catalog import find_paths, get_path
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED, RANDOM, OrderKind
from workbench.paths.routing import OPS
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path, Variant
from workbench.paths.walk import walk_of
from workbench.runs.case import Case
from workbench.runs.engines import EngineLike, run_engines
from workbench.runs.report import Line, Report, Result, cost_fields, risk_fields, verdict_fields
from workbench.words import listed

REACHED = "reached"
POSSIBLE = "possible"
SERVED = "served"
SYSTEMS = tuple(dict.fromkeys(op.name.split(".", 1)[0] for op in OPS))
STOCK = "stock"
ORDERS: dict[str, OrderKind] = {RANDOM: "random", "index": "index", "reverse": "reverse", "walk": "walk"}


@checked
def run(
    rows: Row | Iterable[Row],
    paths: str = REACHED,
    variants: str = STOCK,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    engine: EngineLike | Sequence[EngineLike] = "model",
    repeats: int = 1,
    seed: int = DEFAULT_SEED,
    arrival: str = DEFAULT_ORDER,
    k: int | None = None,
    timeout: float | None = None,
    among: Capture | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run paths on rows beside the exact reference.

    Args:
        rows: a capture, rows, or one row.
        paths: a glob over path names, or ``"reached"``: each row on the path that the op sends it to, or
            ``"possible"``: each on the paths that the op could send it to, whatever release and device are not known,
            or ``"served"``: every path of the systems whose ops are known, without the baselines.
        variants: a glob over variant names; with ``"reached"``, ``stock`` stands for the release's own variant.
        op, release, device: those of the capture where not given. Where neither names a release of the op's package,
            ``vendor`` calls what is installed.
        engine: ``model``, ``cuda`` (whose arrival order is the device's own), ``recorded`` or ``vendor`` (the
            release's real op), any callable that stands in for the op (see ``workbench.engines.callable``), or several
            of these in a list. A callable is never told of paths.
        repeats: runs of each. seed, arrival: repeat i of a ``random`` arrival order is that of seed + i, and so with
            ``walk``, which follows how the path's threads walk the row; ``index`` and ``reverse`` follow the positions,
            where one repeat is enough.
        k: winners wanted; the calls' where not given.
        timeout: seconds that one call may take of the vendor engine, or of a kernel of ``cuda`` whose blocks wait for
            each other; 20 by default. A callable runs in this process, where nothing ends it.
        among: the capture that the rows are of, where they are not all of it. Engines that stand for the op then get a
            row of a call that is captured whole with the others, as it was called; else in copies of itself.
        progress: called with the number of rows done.

    Raises:
        UsageError: an unknown name, or ``"reached"`` without op, release and device.
        CaptureError: a row that cannot be read.
    """

    def on_row(name: str, alone: bool, row: Row) -> list[Line]:
        judges_op = not (alone or get_engine(name).runs_paths)  # beside others, which paths and variants are for
        results = run_case(
            Case(row, op, release, device, k),
            paths=REACHED if judges_op else paths,
            variants=STOCK if judges_op else variants,
            engine=name,
            repeats=repeats,
            seed=seed,
            arrival=arrival,
            timeout=timeout,
        )
        return [result.line for result in results]

    return run_engines(
        [rows] if isinstance(rows, Row) else rows,
        engine,
        on_row,
        repeats,
        whole_op=paths == REACHED and variants == STOCK,
        op=op,
        release=release,
        device=device,
        k=k,
        timeout=timeout,
        among=among,
        progress=progress,
    )


def run_case(
    case: Case,
    *,
    paths: str = REACHED,
    variants: str = STOCK,
    engine: str = "model",
    repeats: int = 1,
    seed: int = DEFAULT_SEED,
    arrival: str = DEFAULT_ORDER,
    timeout: float | None = None,
) -> list[Result]:
    """Run paths on one row and keep what the lines were made from; arguments as for ``run``."""
    if repeats < 1:
        raise UsageError(f"repeats is {repeats}; it must be at least 1")
    if arrival not in ORDERS:
        raise UsageError(f"unknown arrival order {arrival!r}; known orders: {listed(ORDERS)}")
    how = get_engine(engine)
    if paths == REACHED and how.runs_paths and case.route is None:
        raise UsageError(f"{case.unrouted}; {case.cure}, or choose paths (--paths) by a glob as in 'vllm.*'")
    results = []
    for path, variant in _plan(case, paths, variants, how):
        found = case.risk(path, variant) if path is not None and variant is not None else None
        for repeat in range(1 if how.repeatable else repeats):
            order = _order(arrival, path, variant, seed + repeat)
            results.append(_run_one(case, how, path, variant, found, repeat, order, timeout))
            if results[-1].faulty:  # one line for all calls, of which each could take as long
                break
    return results


def _order(arrival: str, path: Path | None, variant: Variant | None, seed: int) -> Arrival:
    """An arrival order by its name; without a path there is nothing to arrive at."""
    if path is None or variant is None:
        return Arrival()
    kind = ORDERS[arrival]
    walk = walk_of(path.as_variant(variant)) if kind == "walk" else None
    return Arrival(kind, path.arrival_unit, seed, walk=walk)


def _plan(case: Case, paths: str, variants: str, engine: Engine) -> Iterator[tuple[Path | None, Variant | None]]:
    """The paths and variants to run; (None, None) for a row that no path is known for."""
    if not engine.runs_paths and (paths != REACHED or variants != STOCK):
        raise UsageError(f"the {engine.name} engine stands for the op as a whole; leave paths and variants as they are")
    if paths == REACHED:
        taken = case.route
        if taken is None or taken.path is None or taken.variant is None:
            yield None, None
            return
        yield from _matching([get_path(taken.path)], taken.variant if variants == STOCK else variants)
        return
    if paths == POSSIBLE:
        if case.possible is None:
            raise UsageError("the op is not known; give it (--op), or choose paths (--paths) by a glob as in 'vllm.*'")
        yield from _matching(case.possible, variants) if case.possible else iter([(None, None)])
        return
    chosen = [path for path in find_paths() if path.system in SYSTEMS] if paths == SERVED else find_paths(paths)
    yield from _matching(chosen, variants)


def _matching(paths: Iterable[Path], pattern: str) -> Iterator[tuple[Path, Variant]]:
    every = [(path, variant) for path in paths for variant in path.variants]
    found = [pair for pair in every if fnmatchcase(pair[1].name, pattern)]
    if not found:
        names = ", ".join(dict.fromkeys(variant.name for _, variant in every))
        raise UsageError(f"no variant matches {pattern!r}; known here: {names}")
    yield from found


def _run_one(
    case: Case,
    engine: Engine,
    path: Path | None,
    variant: Variant | None,
    found: Risk | None,
    repeat: int,
    order: Arrival,
    timeout: float | None,
) -> Result:
    task = Task(case.row, case.k, order, path, variant.name if variant else STOCK, case.profile, timeout)
    about: dict[str, object] = {
        "capture": case.row.capture,
        "row": case.row.index,
        "op": case.op,
        "release": case.release,
        "path": path.name if path else None,
        "variant": variant.name if variant else None,
        "engine": engine.name,
        "repeat": repeat,
        "reached": _reached(case, path, variant),
        "k": case.k,
        "length": case.row.length,
        "dtype": case.row.dtype,
    }
    if found is not None:
        about |= risk_fields(found)
    unrouted = path is None and engine.runs_paths
    refusals = list(filter(None, (case.unrouted, case.cure))) if unrouted else engine.refusals(task)
    if refusals:
        return Result(Line(**about, refused="; ".join(refusals)), risk=found)  # type: ignore[arg-type]
    try:
        selection = engine.select(task)
    except SelectionFaultError as fault:
        return Result(Line(**about | {"finding": str(fault)}), risk=found)  # type: ignore[arg-type]
    poison = UNWRITTEN if engine.poisons else None
    verdict = judge(case.row.valid, case.exact.indices, selection.indices, poison)
    return Result(Line(**about, **verdict_fields(verdict), **cost_fields(selection)), selection, verdict, found)  # type: ignore[arg-type]


def _reached(case: Case, path: Path | None, variant: Variant | None) -> bool | None:
    if path is None or variant is None or case.route is None or case.route.path is None:
        return None
    return (case.route.path, case.route.variant) == (path.name, variant.name)
