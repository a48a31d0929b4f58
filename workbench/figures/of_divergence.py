"""Runs held against each other in parts: where they part, each point, and one point in full."""

from __future__ import annotations

from workbench.analysis.divergence.inputs import ScoreDifference, describe
from workbench.analysis.divergence.selections import Held, SelectionDifference
from workbench.analysis.divergence.states import STATES
from workbench.figures import palette
from workbench.figures.parts import LINES, Beside, Cell, Kind, Note, Part, Picture, Said, Table, facts, first_lines
from workbench.figures.timeline import timeline, timeline_figure
from workbench.figures.words import count, value
from workbench.runs.divergence import Comparison, Detail, Divergence, Point
from workbench.runs.divergence import Place as Stored
from workbench.runs.divergence_words import outside_words, place, sentences

Columns = tuple[tuple[str, Kind], ...]


def divergence_parts(found: Divergence) -> list[Part]:
    """Runs against the first one: the finding, and the one that parts first in full."""
    if len(found.comparisons) == 1:
        return comparison_parts(found.comparisons[0])
    rows = tuple(
        (one.b, "parts" if one.parts else "does not part", place(one.first) if one.first is not None else "–")
        for one in found.comparisons
    )
    table = Table("Runs", (("run", "text"), (f"from {found.comparisons[0].a}", "word"), ("first at", "text")), rows)
    told = _told(found.finding, found.earliest, _parting(found.parts, found.compared))
    return [*told, table, *_comparison(found.earliest)]


def comparison_parts(one: Comparison) -> list[Part]:
    """Two runs: the finding, the timeline, points by state, and where they part."""
    return [*_told(one.finding, one, _parting(one.parts, one.compared)), *_comparison(one)]


def _told(finding: str, one: Comparison, colour: str) -> list[Part]:
    """The first sentence, and beneath what follows it."""
    first = sentences(one)[0]
    rest = finding.removeprefix(first).strip()
    return [Said(finding, colour)] if rest == finding else [Said(first, colour), *([Note(rest)] if rest else [])]


def _comparison(one: Comparison) -> list[Part]:
    laid = timeline(one)
    parts: list[Part] = []
    if laid.cells or laid.tokens:
        parts.append(Picture(f"{one.b} against {one.a}", lambda: timeline_figure(laid)))
        parts += [Note(f"{note[:1].upper()}{note[1:]}.") for note in laid.notes]
    states = [
        (state, number, place(first))
        for state, number in one.counts.items()
        if number and (first := one.first_of(state)) is not None
    ]
    columns: Columns = (("state", "word"), ("points", "number"), ("first at", "text"))
    parts += [Table("Points by state", columns, tuple(states))] if states else []
    parting = [point for point in one.points if point.parts]
    if parting:
        rows: list[tuple[Cell, ...]] = [
            (place(point), point.state, point.what, *(_judged(point, side) for side in "ab"))
            for point in parting[:LINES]
        ]
        wide: Columns = (("point", "text"), ("state", "word"), ("differs in", "word"), (one.a, "text"), (one.b, "text"))
        parts.append(first_lines("Where they part", wide, rows, len(parting), "point"))
    return parts


def _judged(point: object, side: str) -> Cell:
    judged = getattr(point, f"judged_{side}")
    if judged is None:
        return None
    return f"{judged.verdict}, {count(judged.missing)} lost" if judged.missing else str(judged.verdict)


def _parting(parts: bool, compared: bool) -> str:
    return palette.LOSSY_TEXT if parts else palette.SAFE_TEXT if compared else palette.REFUSED_TEXT


def point_parts(point: Point) -> list[Part]:
    """One row of one call, in two runs."""
    return [_state(point), facts("", _point_facts(point))]


def detail_parts(found: Detail) -> list[Part]:
    """A point with what its inputs differ in, or its selections."""
    point = found.point
    said = _state(point) if found.outside is None else Said(f"{outside_words(*found.outside)}.", palette.REFUSED_TEXT)
    parts: list[Part] = [said, facts("", _point_facts(point))]
    if found.inputs is not None:
        parts.append(Note(f"The inputs: {describe(found.inputs)}."))
        if found.inputs.scores is not None:
            parts.append(facts("Scores", _score_facts(found.inputs.scores)))
    if found.selections is not None:
        parts += _selection_parts(found.selections)
    return parts


def _state(point: Point) -> Said:
    where = place(point)
    text = f"{where[:1].upper()}{where[1:]}: {point.state}: {STATES[point.state].meaning}."
    return Said(text, palette.STATE_TEXTS.get(point.state, palette.REFUSED_TEXT))


def _point_facts(point: Point) -> dict[str, Cell]:
    names = ("request", "step", "layer", "rank", "op", "row", "occurrence")
    told: dict[str, Cell] = {name: getattr(point, name) for name in names}
    told |= {"stored in a": _stored(point.a), "stored in b": _stored(point.b)}
    if point.what is not None:
        told["inputs differ in"] = point.what
    told |= {f"verdict {side}": judged for side in "ab" if (judged := _judged(point, side)) is not None}
    if point.differing:
        told["calls differ in"] = ", ".join(point.differing)
    return told


def _stored(where: Stored | None) -> str:
    return "not there" if where is None else f"row {where.row} of {where.file}"


def _score_facts(scores: ScoreDifference) -> dict[str, Cell]:
    return {
        "cells that differ": f"{count(scores.cells)} of {count(scores.compared)}",
        "first at index": str(scores.first),
        "in a": value(scores.first_a, 9),
        "in b": value(scores.first_b, 9),
        "ULPs there": count(scores.first_ulps),
        "most ULPs": count(scores.max_ulps),
        "greatest difference": "–" if scores.max_abs is None else value(scores.max_abs),
    }


def _selection_parts(found: SelectionDifference) -> list[Part]:
    told: dict[str, Cell] = {
        "slots that differ": found.slots,
        "first of them": count(found.first_slot),
        "k-th best score": "–" if found.cut is None else value(found.cut, 9),
    }
    sides = [(f"Only in {side}", [one for one in found.held if one.side == side]) for side in "ab"]
    return [facts("Selections", told), Beside(tuple(_held(title, held) for title, held in sides if held))]


def _held(title: str, held: list[Held]) -> Table:
    columns: Columns = (("index", "number"), ("score", "number"), ("from the cut", "number"))
    near = sorted(held, key=lambda one: (abs(one.gap), one.index))[:LINES]
    rows = [(one.index, value(one.score, 9), value(one.gap, 4)) for one in near]
    return first_lines(title, columns, rows, len(held), "line")
