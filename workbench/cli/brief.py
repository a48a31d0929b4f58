"""One inspected row on a screen: what happened, what is at risk and by how much, and the rest in a line each."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.risk import LOSING, Risk
from workbench.cli.detail import (
    REACHED,
    losing_result,
    outlook_cells,
    print_head,
    print_values,
    reached_by,
    remarks,
    who,
)
from workbench.cli.layout import Column
from workbench.cli.tables import NONE, counted, lines, named, print_refusals, say, table
from workbench.runs.inspect import Inspection, damage
from workbench.runs.report import Result, line_loses
from workbench.words import UNKNOWN, listed

VALUES_SHOWN = 3
NAMES_SHOWN = 3


def show(inspection: Inspection, notes: Sequence[str]) -> None:
    """Print the row for people, the most important first; ``detail.show`` leaves nothing out."""
    row = inspection.row
    print_head(inspection, notes)
    if inspection.route is not None:
        say(f"Route: {named(inspection.route.path, inspection.route.variant) or UNKNOWN}", "bold")
    elif inspection.unrouted not in inspection.judged_because:
        say(f"Route: {UNKNOWN}, since {inspection.unrouted}", "bold")
    if inspection.of_the_call:
        say(f"Call {row.call.index}: {inspection.of_the_call}")
    say("")
    _print_at_risk(inspection)
    _print_rest(inspection)
    print_refusals(
        (
            (who(result.line), row.index, result.line.refused or "")
            for result in inspection.every
            if result.line.refused is not None and _says_why(result)
        ),
        several=False,
    )
    losing = losing_result(inspection)
    if losing is not None:
        print_values(inspection, losing, VALUES_SHOWN)
    say("Every path, condition and value: --all")


def _says_why(result: Result) -> bool:
    """Whether a refusal is told in full: no path's own conditions, and not that it has no model."""
    return result.risk is None or not (result.risk.refused or result.risk.observed)


def _print_at_risk(inspection: Inspection) -> None:
    """The judged paths that lost or can lose, the recorded selection, and the path that the row reaches."""
    shown = [
        result
        for result in inspection.every
        if result is inspection.recorded or line_loses(result.line) or _reached(inspection, result)
    ]
    shown.sort(key=damage, reverse=True)
    shown.sort(key=lambda result: (result is not inspection.recorded, not _reached(inspection, result)))
    if not shown:
        return
    risks = [result.risk for result in shown if result.risk is not None and result is not inspection.recorded]
    arrows = any(_reached(inspection, result) for result in shown)
    columns = [
        *([Column("", "word")] if arrows else []),
        Column("path", "word"),
        Column("verdict", "word"),
        Column("missing"),
        Column("risk", "word"),
        Column("p_clean"),
        Column("expected\nmissing"),
        Column("least – most"),
        Column("population"),
        Column("buffer\ntakes"),
    ]
    table(
        columns,
        [([REACHED if _reached(inspection, one) else ""] if arrows else []) + _cells(inspection, one) for one in shown],
    )
    told = remarks(risks)
    if told:
        lines(told, indent="")
        say("")


def _reached(inspection: Inspection, result: Result) -> bool:
    recorded = result is inspection.recorded
    return not recorded and result.risk is not None and reached_by(result.risk, inspection.route)


def _cells(inspection: Inspection, result: Result) -> list[object]:
    line, risk = result.line, result.risk
    if result is inspection.recorded or risk is None:
        return [who(line), "refused" if line.refused else line.verdict, line.missing, *[NONE] * 6]
    return [
        named(risk.path, risk.variant),
        "not run" if line.refused is not None else line.verdict,
        line.missing,
        NONE if risk.refused else risk.told,
        *outlook_cells(risk),
        risk.population,
        risk.room,
    ]


def _print_rest(inspection: Inspection) -> None:
    """The other paths, in a line for each way in which they stand."""
    judged = {result.risk.path for result in inspection.results if result.risk is not None}
    told = [*_stand("Safe", [risk for risk in _risks(inspection, judged) if risk.judged and risk.level == "safe"])]
    told += _stand("Unknown", [risk for risk in _risks(inspection, judged) if _is_unknown(risk)])
    others = [risk for risk in inspection.census if risk.path not in judged and risk.judged]
    able = [risk for risk in others if risk.level in LOSING or risk.finding]
    if others:
        lead = "Not judged" if inspection.reached is None else "Not judged, as the row does not reach them"
        rest = counted(len(others) - len(able), "is safe", "are safe") if len(able) < len(others) else ""
        told.append(f"{lead}: {'; '.join(filter(None, (_able(_names(able)), rest)))}.")
    told += _stand("Not modelled", [risk for risk in inspection.census if risk.observed])
    refusing = [risk for risk in inspection.census if risk.refused]
    verb = "does" if len(refusing) == 1 else "do"
    told += [f"{counted(len(refusing), 'path')} {verb} not take the row."] if refusing else []
    lines(told, indent="")
    say("")


def _risks(inspection: Inspection, judged: set[str]) -> list[Risk]:
    return [risk for risk in inspection.census if risk.path in judged and not reached_by(risk, inspection.route)]


def _is_unknown(risk: Risk) -> bool:
    return not (risk.refused or risk.judged or risk.observed)


def _able(names: Sequence[str]) -> str:
    """That such paths can lose winners: all by name, or how many, some of them, and what names the rest."""
    if len(names) <= NAMES_SHOWN + 1:
        return f"{listed(names)} can lose winners" if names else ""
    return f"{len(names)} can lose winners, among them {listed(names[:NAMES_SHOWN])} (--all names all {len(names)})"


def _stand(lead: str, risks: Sequence[Risk]) -> list[str]:
    return [f"{lead}: {', '.join(_names(risks))}."] if risks else []


def _names(risks: Sequence[Risk]) -> list[str]:
    return [str(named(risk.path, risk.variant)) for risk in risks]
