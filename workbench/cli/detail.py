"""One inspected row in full: route, census, selections, and the first values lost and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from workbench.analysis.diff import DiffEntry, value_diff
from workbench.analysis.risk import Risk
from workbench.cli.layout import Column
from workbench.cli.order import order_unreliable
from workbench.cli.route import print_route
from workbench.cli.tables import (
    NONE,
    counted,
    lines,
    named,
    number,
    print_refusals,
    probability,
    say,
    score,
    table,
)
from workbench.paths.routing import Route
from workbench.runs.inspect import Inspection, damage
from workbench.runs.law_words import law_notes
from workbench.runs.report import Line, Result
from workbench.runs.sentence import finding
from workbench.words import MINUS, UNKNOWN

VALUES_SHOWN = 10
REACHED = "→"


def document(inspection: Inspection) -> dict[str, object]:
    """The row for machines; ``difference`` holds every lost and kept value of the selection that lost most."""
    losing = losing_result(inspection)
    return {
        "route": None if inspection.route is None else asdict(inspection.route),
        "of_the_call": inspection.of_the_call,
        "lines": [result.line for result in inspection.every],
        "census": list(inspection.census),
        "difference": None
        if losing is None
        else {
            "engine": losing.line.engine,
            "path": losing.line.path,
            "variant": losing.line.variant,
            "values": _values(inspection, losing),
        },
    }


def show(inspection: Inspection, notes: Sequence[str]) -> None:
    """Print the row for people, with every path and condition; ``brief.show`` keeps to a screen."""
    print_head(inspection, notes)
    say("")
    if inspection.of_the_call:
        say(f"Call {inspection.row.call.index}: {inspection.of_the_call}")
        say("")
    _print_selections(inspection)
    _print_census(inspection)
    if inspection.route is not None:
        print_route(inspection.route, about="Route")
    else:
        say(f"Route: {UNKNOWN}, since {inspection.unrouted}", "bold")
    say("")
    losing = losing_result(inspection)
    if losing is not None:
        print_values(inspection, losing, VALUES_SHOWN)


def print_head(inspection: Inspection, notes: Sequence[str]) -> None:
    """Print what happened, to which row, and which paths are judged."""
    row = inspection.row
    say(finding(inspection), "bold")
    asked = f", {inspection.judged}" if inspection.judged_because == "as asked" else ""
    say(f"{row.capture}, row {row.index} of call {row.call.index}: k {inspection.k}, length {row.length}, {row.dtype}")
    say(f"Judged: {inspection.judged_because}{asked}")
    lines((f"note: {note}" for note in notes), indent="")


def _print_selections(inspection: Inspection) -> None:
    ran = [result.line for result in inspection.every if result.line.refused is None]
    if ran:
        columns = [
            Column("path", "word"),
            Column("variant", "word"),
            Column("engine", "word"),
            Column("verdict", "word"),
            Column("missing"),
            Column("recall"),
            Column("max score\ngap"),
        ]
        rows = [
            (
                line.path or UNKNOWN,
                line.variant,
                line.engine,
                line.verdict,
                line.missing,
                number(line.recall, 6),
                number(line.max_score_gap),
            )
            for line in ran
        ]
        table(columns, rows, title="Selections")
    taken = {(risk.path, risk.variant) for risk in inspection.census if not risk.refused}
    refused = [result.line for result in inspection.every if result.line.refused is not None]
    # What the path itself refuses stands below the census.
    print_refusals(
        (
            (who(line), line.row, line.refused or "")
            for line in refused
            if line.path is None or line.engine == "recorded" or (line.path, line.variant) in taken
        ),
        several=False,
    )


def who(line: Line) -> str:
    if line.engine == "recorded":
        return "the recorded selection"
    return named(line.path, line.variant) or line.op or "the op"


def _print_census(inspection: Inspection) -> None:
    taking = [risk for risk in inspection.census if not risk.refused]
    reached = [risk for risk in taking if reached_by(risk, inspection.route)]
    columns = [
        *([Column("", "word")] if reached else []),
        Column("path", "word"),
        Column("population"),
        Column("buffer\ntakes"),
        Column("dropped"),
        Column("need"),
        Column("risk", "word"),
        Column("p_clean"),
        Column("expected\nmissing"),
        Column("least – most"),
    ]
    rows = [
        (
            *([REACHED if risk in reached else ""] if reached else []),
            named(risk.path, risk.variant),
            risk.population,
            risk.room,
            _dropped(risk),
            risk.need,
            risk.told,
            *outlook_cells(risk),
        )
        for risk in taking
    ]
    title = "Census: risk on every path that takes this row"
    table(columns, rows, title=f"{title} ({REACHED} the one it reaches)" if reached else title)
    told = remarks(taking)
    if told:
        lines(told, indent="")
        say("")
    refusing = [risk for risk in inspection.census if risk.refused]
    said = {(result.line.path, result.line.variant): result.line.refused for result in inspection.results}
    table(
        [Column("path that does not take it", "word"), Column("population"), Column("capacity"), Column("why", "text")],
        [
            (
                named(risk.path, risk.variant),
                risk.population,
                risk.capacity,
                said.get((risk.path, risk.variant)) or "; ".join(risk.refused),
            )
            for risk in refusing
        ],
    )


def outlook_cells(risk: Risk) -> list[str]:
    """p_clean, the mean, and the least and most missing; nothing where no model worked them out."""
    if risk.observed or risk.refused:
        return [NONE] * 3
    span = NONE if risk.least_missing is None else f"{risk.least_missing} – {risk.most_missing}"
    return [probability(risk.p_clean, risk.level), number(risk.expected_missing), span]


def reached_by(risk: Risk, route: Route | None) -> bool:
    return route is not None and (route.path, route.variant) == (risk.path, risk.variant)


def remarks(taking: Sequence[Risk]) -> list[str]:
    """What the table cannot hold."""
    by_note: dict[str, list[str]] = {}
    for risk in taking:
        if risk.note:
            by_note.setdefault(risk.note, []).append(str(named(risk.path, risk.variant)))
    notes = [f"{', '.join(names)}: {note}" for note, names in by_note.items()]
    notes += [
        f"{named(risk.path, risk.variant)}: a block of the cluster overflows before the whole buffer of {risk.capacity}"
        for risk in taking
        if risk.room != risk.capacity
    ]
    ordered = [
        f"{named(risk.path, risk.variant)} {risk.order_correlation:.2f}".replace("-", MINUS)
        for risk in taking
        if order_unreliable(risk.order_correlation)
    ]
    if ordered:
        notes.append(
            "Expected missing is unreliable where scores follow their position in the threshold bin, since real "
            "threads arrive roughly by position; least and most hold, and --arrival walk follows the threads. Rank "
            f"correlation: {', '.join(ordered)}"
        )
    return notes + law_notes((risk.path, risk.level, risk.clean_at_most) for risk in taking)


def _dropped(risk: Risk) -> int | None:
    """Members of the threshold bin that find no room."""
    if risk.population is None or risk.stored is None:
        return None
    return risk.population - risk.stored if risk.buffered else 0


def losing_result(inspection: Inspection) -> Result | None:
    losing = [result for result in inspection.every if result.line.missing]
    return max(losing, key=damage, default=None)


def _values(inspection: Inspection, result: Result) -> list[DiffEntry]:
    assert result.verdict is not None
    return value_diff(inspection.row.valid, inspection.exact.indices, result.verdict)


def print_values(inspection: Inspection, result: Result, most: int) -> None:
    """Print the first values that a selection lost, and as many that it kept instead."""
    line, entries = result.line, _values(inspection, result)
    whose = f"{line.path} ({line.variant})" if line.engine == "model" else f"the {line.engine} selection"
    lost = [entry for entry in entries if entry.status == "lost"]
    kept = [entry for entry in entries if entry.status == "kept"]
    shown = lost[:most] + kept[:most]
    table(
        [Column("", "word"), Column("rank"), Column("index"), Column("score"), Column("gap to\nthe k-th")],
        [(entry.status, entry.rank, entry.index, score(entry.score), number(entry.gap)) for entry in shown],
        title=f"Winners lost by {whose}, and what it kept instead",
    )
    more = [
        f"{len(group) - most} more {status}" for status, group in (("lost", lost), ("kept", kept)) if len(group) > most
    ]
    if more:
        say(f"… and {' and '.join(more)} ({counted(len(entries), 'value')} in all; --json lists them)")
