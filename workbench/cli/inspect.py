"""``workbench inspect``: every row of a capture in one table, or one row in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import (
    File,
    Given,
    Json,
    Naming,
    Order,
    Rows,
    Seed,
    one_thread,
    open_file,
    parse_rows,
    spread,
)
from workbench.cli.order import order_unreliable, order_warning
from workbench.cli.output import CURE, check_file, is_of
from workbench.cli.tables import (
    NONE,
    counted,
    lines,
    named,
    number,
    print_refusals,
    progress,
    ranges,
    say,
    table,
)
from workbench.errors import UsageError
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED

if TYPE_CHECKING:
    from workbench.capture import Capture
    from workbench.runs.inspect import Inspection
    from workbench.runs.report import Line


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


@spread
def inspect(
    file: File,
    naming: Naming,
    given: Given,
    row: Rows = None,
    paths: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Paths to judge; by default the reached one, else all.")
    ] = None,
    seed: Seed = DEFAULT_SEED,
    arrival: Order = DEFAULT_ORDER,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write one row as a page with pictures that needs no network."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a page that is there.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Of one row every path, condition and value, safe ones too.")
    ] = False,
    json: Json = False,
) -> int:
    """Judge the rows of a capture: which selector loses winners, how many, and why.

    The path that a row reaches is judged where op, release and device are known, else every path. A judged path, or
    the recorded selection, that is lossy, invalid or not safe gives exit code 1, and so does one that would hang or
    leave its memory, which is told and never run.

    workbench inspect capture.safetensors
    workbench inspect capture.safetensors --row 3 --all
    workbench inspect capture.safetensors --row 0-7 --paths 'vllm.*'
    workbench inspect capture.safetensors --row 3 --html row-3.html
    workbench inspect dump.safetensors --scores logits --lengths lens --k 2048
    """
    from workbench.cli import brief, detail

    if force and html is None:
        raise UsageError("--force is for --html; name a file for the page")
    target = check_file("--html", html, force)
    if target is not None and is_of(target, Path(file)):
        raise UsageError(f"{html}: this is of what is read; name another file")
    written: list[str] = []
    with open_file(file, naming, given) as capture:
        numbers = parse_rows(row, len(capture))
        if html is not None and len(numbers) != 1:
            raise UsageError(f"--html is of one row, and {len(numbers)} are asked for; name one by --row")
        notes = given.notes(capture)
        one: Inspection | None = None
        seen: list[Seen] = []
        for inspection in _inspections(capture, numbers, given, paths, seed, arrival):
            seen.append(summarise(inspection))
            if len(numbers) == 1:
                one = inspection
        findings = sum(row_seen.finding for row_seen in seen)
        if html is not None and one is not None:
            written.append(_write_page(one, html, force, Asked(capture, naming, given, notes, seed, arrival)))
        if json:
            print_json(
                {
                    "command": "inspect",
                    "capture": capture.info.path,
                    "notes": notes,
                    "inspected": len(seen),
                    "findings": findings,
                    "rows": seen,
                    "detail": None if one is None else detail.document(one),
                }
            )
        elif one is not None:
            (detail if every else brief).show(one, notes)
        else:
            _print(capture, seen, notes)
        if not json:
            lines(written, indent="")
    if not any(row_seen.tells for row_seen in seen):
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if findings else CLEAN


@dataclass(frozen=True)
class Asked:
    """What was asked for of the row on a page."""

    capture: Capture
    naming: Naming
    given: Given
    notes: list[str]
    seed: int
    arrival: str


def _write_page(inspection: Inspection, target: str, force: bool, asked: Asked) -> str:
    """Write one row as a page; what is said of it."""
    from workbench.audit.words import size_words
    from workbench.figures.page import save
    from workbench.figures.row_page import Origin, row_page

    path = asked.capture.path
    options = {**vars(asked.naming), **vars(asked.given)}
    named = [(name, value) for name, value in options.items() if value is not None]
    origin = Origin(
        file="" if path is None else path.name,
        digest=asked.capture.digest,
        arguments=tuple(part for name, value in named for part in (_option(name), str(value))),
        seed=asked.seed,
        arrival=asked.arrival,
        notes=tuple(f"Note: {note}." for note in asked.notes),
    )
    made = save(row_page(inspection, origin, "workbench inspect"), target, force, CURE)
    return f"The page is written to {target} ({size_words(made.stat().st_size)})"


def _option(name: str) -> str:
    """An option as it is typed, of the name of its field."""
    return f"--{name.removesuffix('_dtype').replace('_', '-')}"


def _inspections(
    capture: Capture, numbers: list[int], given: Given, paths: str | None, seed: int, arrival: str
) -> Iterator[Inspection]:
    """One row after the other, so that only one is in memory."""
    from workbench.runs.inspect import inspect_row

    with one_thread(), progress(f"inspecting {capture.name}", len(numbers)) as done:
        for count, at in enumerate(numbers, 1):
            yield inspect_row(
                given.apply(capture[at]),
                paths=paths,
                op=given.op,
                release=given.release,
                device=given.device,
                seed=seed,
                arrival=arrival,
            )
            done(count)


def summarise(inspection: Inspection) -> Seen:
    """What the table and the JSON document say of a row."""
    from workbench.runs.inspect import damage
    from workbench.runs.report import line_loses
    from workbench.runs.sentence import finding

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


def heading(seen: list[Seen]) -> str:
    """How the inspected rows fared, in one sentence."""
    kinds = Counter(_fate(row) for row in seen)
    parts = [counted(kinds["invalid"], "has invalid slots", "have invalid slots")] if kinds["invalid"] else []
    if kinds["lossy"]:
        parts.append(f"{kinds['lossy']} lost winners ({_most(seen)})")
    if kinds["at risk"]:
        parts.append(counted(kinds["at risk"], "lost none but is at risk", "lost none but are at risk"))
    if kinds["not run, at risk"]:
        parts.append(counted(kinds["not run, at risk"], "was not run but is at risk", "were not run but are at risk"))
    if kinds["harm"]:
        harm = "would hang, trap or leave {} memory"
        parts.append(counted(kinds["harm"], harm.format("its"), harm.format("their")))
    if kinds["clean"]:
        parts.append(f"{kinds['clean']} lost none")
    if kinds["not run"]:
        parts.append(counted(kinds["not run"], "was not run", "were not run"))
    models = kinds["lossy"] + kinds["invalid"] and not any(row.recorded for row in seen)
    return (
        f"Of {counted(len(seen), 'row')}, {', '.join(parts)}{', by the models in one arrival order' if models else ''}."
    )


def _fate(row: Seen) -> str:
    if row.worst is not None and row.worst.refused is not None and row.worst.finding is not None:
        return "harm"
    if "invalid" in row.verdicts:
        return "invalid"
    if "lossy" in row.verdicts:
        return "lossy"
    ran = bool(row.verdicts - {None})
    if row.finding:
        return "at risk" if ran else "not run, at risk"
    return "clean" if ran else "not run"


def _most(seen: list[Seen]) -> str:
    lost, row, k = max((line.missing or 0, -row.row, row.wanted) for row in seen for line in _lines(row))
    return f"most in row {-row}: {lost} of {k}"


def _lines(row: Seen) -> Iterator[Line]:
    yield from (line for line in (row.worst, row.recorded) if line is not None)


def _print(capture: Capture, seen: list[Seen], notes: list[str]) -> None:
    ks, calls = {row.k for row in seen}, {row.call for row in seen}
    shared = [f"k {ks.copy().pop()}"] if len(ks) == 1 else []
    shared += [f"call {calls.copy().pop()}"] if len(calls) == 1 else []
    say(heading(seen), "bold")
    say(", ".join([capture.info.path, capture.info.dtype, *shared]))
    lines((f"note: {note}" for note in notes), indent="")
    _print_judged(seen)
    say("")
    columns = _columns(seen, several_ks=len(ks) > 1, several_calls=len(calls) > 1)
    table([column for column, _ in columns], zip(*(cells for _, cells in columns), strict=True))
    lines(order_warning(row.row for row in seen if row.order_unreliable), indent="")
    told = dict.fromkeys((row.call, row.of_the_call) for row in seen if row.of_the_call)
    lines((f"Call {call}: {words}" for call, words in told), indent="")
    print_refusals(
        (named(one.path, one.variant) or "the op", row.row, one.reasons) for row in seen for one in row.refused
    )
    if capture.info.rows > 1:
        say("One row in full: workbench inspect FILE --row N")


def _print_judged(seen: list[Seen]) -> None:
    groups: dict[tuple[str, str], list[Seen]] = {}
    for row in seen:
        groups.setdefault((row.judged, row.judged_because), []).append(row)
    for (judged, because), rows in groups.items():
        numbers = [row.row for row in rows]
        which = f" in {'row' if len(numbers) == 1 else 'rows'} {ranges(numbers)}" if len(groups) > 1 else ""
        what = f"{judged}, {because}" if because == "as asked" else because
        shown = sorted({f"{line.op}, {line.release}" for row in rows for line in _lines(row) if line.op})
        say(f"Judged{which}: {what}" + (f" ({'; '.join(shown)})" if judged == "reached" and shown else ""))
    if any(row.paths_judged > 1 for row in seen):
        say("Where several paths are judged, the worst one is shown.")


def _columns(seen: list[Seen], several_ks: bool, several_calls: bool) -> list[tuple[Column, Sequence[object]]]:
    """The columns that say something about these rows, with their cells."""
    several_paths = any(row.paths_judged > 1 for row in seen)
    recorded = any(row.recorded is not None for row in seen)
    columns: list[tuple[bool, Column, Sequence[object]]] = [
        (True, Column("row"), [row.row for row in seen]),
        (several_calls, Column("call"), [row.call for row in seen]),
        (several_ks, Column("k"), [row.k for row in seen]),
        (True, Column("length"), [row.length for row in seen]),
        (
            True,
            Column("path", "word"),
            [named(row.worst.path, row.worst.variant) if row.worst else None for row in seen],
        ),
        (
            True,
            Column("verdict", "word"),
            [_verdict(row.worst, row.refused) for row in seen],
        ),
        (True, Column("missing"), [row.worst.missing if row.worst else None for row in seen]),
        (True, Column("risk", "word"), [row.worst.risk if row.worst else None for row in seen]),
        (True, Column("expected\nmissing"), [_expected(row.worst) for row in seen]),
        (True, Column("population /\ncapacity"), [_fill(row.worst) for row in seen]),
        (several_paths, Column("paths\nat risk"), [_at_risk(row) for row in seen]),
        (recorded, Column("recorded", "word"), [_recorded(row.recorded) for row in seen]),
    ]
    return [(column, cells) for wanted, column, cells in columns if wanted]


def _expected(line: Line | None) -> str:
    return number(None if line is None else line.expected_missing)


def _verdict(line: Line | None, refused: object = ()) -> str | None:
    if line is None:
        return "refused" if refused else None
    return "refused" if line.refused is not None else line.verdict


def _fill(line: Line | None) -> str:
    if line is None or line.population is None or line.capacity is None:
        return NONE
    return f"{line.population} / {line.capacity}"


def _at_risk(row: Seen) -> str:
    return f"{row.paths_at_risk} of {row.paths_judged}" if row.paths_judged else NONE


def _recorded(line: Line | None) -> str | None:
    verdict = _verdict(line)
    return f"{verdict}, {line.missing}" if line is not None and line.missing else verdict
