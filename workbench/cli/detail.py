"""One inspected row in full: route, census, selections, and the first values lost and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from workbench.analysis.diff import DiffEntry, value_diff
from workbench.analysis.risk import Risk
from workbench.cli.route import print_route
from workbench.cli.tables import NONE, UNKNOWN, Column, counted, lines, number, say, score, table
from workbench.runs.inspect import Inspection, damage
from workbench.runs.report import Result
from workbench.runs.sentence import finding

VALUES_SHOWN = 10
NOTABLE_CORRELATION = 0.5


def document(inspection: Inspection) -> dict[str, object]:
    """The row for machines; ``difference`` holds every lost and kept value of the selection that lost most."""
    losing = _losing(inspection)
    return {
        "route": None if inspection.route is None else asdict(inspection.route),
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
    """Print the row for people."""
    row = inspection.row
    say(finding(inspection), "bold")
    asked = f", {inspection.judged}" if inspection.judged_because == "as asked" else ""
    say(f"{row.capture}, row {row.index} of call {row.call.index}: k {inspection.k}, length {row.length}, {row.dtype}")
    say(f"Judged: {inspection.judged_because}{asked}")
    lines((f"note: {note}" for note in notes), indent="")
    say("")
    if inspection.route is not None:
        print_route(inspection.route, about="Route")
    else:
        say(f"Route: {UNKNOWN}, since {inspection.unrouted}", "bold")
    say("")
    _print_selections(inspection)
    _print_census(inspection)
    losing = _losing(inspection)
    if losing is not None:
        _print_values(_values(inspection, losing), losing)


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
    refused = [result.line for result in inspection.every if result.line.refused is not None]
    if refused:
        say("Not run", "bold")
        lines(f"{line.path or line.op or line.engine} ({line.engine}): {line.refused}" for line in refused)
        say("")


def _print_census(inspection: Inspection) -> None:
    reached = inspection.route.path if inspection.route is not None else None
    columns = [
        Column("path", "word"),
        Column("this\nrow", "word"),
        Column("population"),
        Column("capacity"),
        Column("fill"),
        Column("need"),
        Column("risk", "word"),
        Column("p_clean"),
        Column("expected\nmissing"),
        Column("least – most"),
    ]
    rows = [
        (
            risk.path,
            "refused" if risk.refused else "reached" if risk.path == reached else "taken",
            risk.population,
            risk.capacity,
            _fill(risk),
            risk.need,
            risk.level or (NONE if risk.refused else UNKNOWN),
            # A chance that some order has is not 0, only too small for a float64.
            "<1e-300" if risk.p_clean == 0 and risk.least_missing == 0 else number(risk.p_clean, 3),
            number(risk.expected_missing),
            NONE if risk.least_missing is None else f"{risk.least_missing} – {risk.most_missing}",
        )
        for risk in inspection.census
    ]
    table(columns, rows, title="Census: every path as released (stock)")
    said = {result.line.path for result in inspection.every if result.line.refused is not None}
    remarks = _remarks(inspection.census, said)
    if remarks:
        lines(remarks, indent="")
        say("")


def _remarks(census: Sequence[Risk], said: set[str | None]) -> list[str]:
    """What the table cannot hold; refusals only of paths of which they were not said before."""
    refusals = [
        f"{risk.path} refuses the row: {'; '.join(risk.refused)}"
        for risk in census
        if risk.refused and risk.path not in said
    ]
    others = [f"{risk.path}: {risk.note}" for risk in census if risk.note and not risk.refused]
    ordered = [
        f"{risk.path}: score and position in the threshold bin correlate by {risk.order_correlation:.2f}, so real "
        "arrival is not random and the expected loss may be far off; least and most hold"
        for risk in census
        if risk.order_correlation is not None and abs(risk.order_correlation) >= NOTABLE_CORRELATION
    ]
    return refusals + others + ordered


def _fill(risk: Risk) -> str:
    if risk.population is None or not risk.capacity:
        return NONE
    return f"{risk.population / risk.capacity:.2f}"


def _losing(inspection: Inspection) -> Result | None:
    losing = [result for result in inspection.every if result.line.missing]
    return max(losing, key=damage, default=None)


def _values(inspection: Inspection, result: Result) -> list[DiffEntry]:
    assert result.verdict is not None
    return value_diff(inspection.row.valid, inspection.exact.indices, result.verdict)


def _print_values(entries: Sequence[DiffEntry], result: Result) -> None:
    line = result.line
    whose = f"{line.path} ({line.variant})" if line.engine == "model" else f"the {line.engine} selection"
    lost = [entry for entry in entries if entry.status == "lost"]
    kept = [entry for entry in entries if entry.status == "kept"]
    shown = lost[:VALUES_SHOWN] + kept[:VALUES_SHOWN]
    table(
        [Column("", "word"), Column("rank"), Column("index"), Column("score"), Column("gap to\nthe k-th")],
        [(entry.status, entry.rank, entry.index, score(entry.score), number(entry.gap)) for entry in shown],
        title=f"Winners lost by {whose}, and what it kept instead",
    )
    more = [
        f"{len(group) - VALUES_SHOWN} more {status}"
        for status, group in (("lost", lost), ("kept", kept))
        if len(group) > VALUES_SHOWN
    ]
    if more:
        say(f"… and {' and '.join(more)} ({counted(len(entries), 'value')} in all; --json lists them)")
