"""Repeated calls on one row in parts: what they amount to, the pictures, the indices that come and go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.errors import UsageError
from workbench.figures import palette
from workbench.figures.of_rows import agreement_colour, repeatability_parts
from workbench.figures.parts import Cell, Folded, Kind, Note, Part, Picture, Said, Table, facts
from workbench.figures.repeat import frequency_figure, held_figure, missing_figure
from workbench.figures.words import count
from workbench.paths.catalog import get_path
from workbench.runs.repeat import Repeated, Repeats

if TYPE_CHECKING:
    import plotly.graph_objects as go


def repeated_colour(line: Repeated) -> str:
    """The colour of what calls amount to: what was lost stands over what varies."""
    found = line.repeatability
    if found is None:
        return palette.REFUSED_TEXT
    return palette.LOSSY_TEXT if line.lossy_calls else agreement_colour(found.kind)


def repeats_parts(found: Repeats) -> list[Part]:
    """Many calls on one row: what came of them by path, and the pictures of those that agree least."""
    worst = found.worst
    said = worst.sentence if worst is not None else "Nothing was called."
    colour = palette.LOSSY_TEXT if found.loses else palette.REFUSED_TEXT if worst is None else repeated_colour(worst)
    columns: tuple[tuple[str, Kind], ...] = (
        *(("path", "word"), ("engine", "word"), ("calls", "number"), ("state", "word"), ("sets", "number")),
        *(("come and go", "number"), ("always held", "number"), ("missing", "number"), ("risk", "word")),
        ("why", "text"),
    )
    rows = tuple(_row(line) for line in found.lines)
    parts: list[Part] = [Said(said, colour), Note(f"Judged: {found.judged_because}."), Table("", columns, rows)]
    if worst is not None:
        about = f": {worst.name}" if len(found.lines) > 1 else ""
        parts += [*repeated_pictures(worst, about), *_members(worst)]
    return parts


def repeated_parts(line: Repeated) -> list[Part]:
    """The calls of one path, or of the op as recorded."""
    columns: tuple[tuple[str, Kind], ...] = (("verdict", "word"), ("calls", "number"))
    told: dict[str, Cell] = {"engine": line.engine, "risk": line.risk or "–"}
    if line.repeatability is not None and not line.unjudged:
        told["missing"] = f"{_missing(line)} of {count(line.of)}"
    parts: list[Part] = [Said(line.sentence, repeated_colour(line))]
    parts += [Note(f"{line.finding[:1].upper()}{line.finding[1:]}.")] if line.finding else []
    parts += [*repeated_pictures(line), facts("", told)]
    parts += [Table("Verdicts", columns, tuple(line.verdicts.items()))] if line.verdicts else []
    return [*parts, *_members(line)]


def _members(line: Repeated) -> list[Part]:
    """The table of the indices that come and go, where some do; the picture of them comes before it."""
    found = line.repeatability
    if found is None or not found.members:
        return []
    table = repeatability_parts(found)[-1]
    assert isinstance(table, Table)
    return [Folded(table.title, (replace(table, title=""),))]


def _row(line: Repeated) -> tuple[Cell, ...]:
    seen = line.repeatability
    missing = None if line.unjudged or seen is None else _missing(line)
    agree = (None,) * 4 if seen is None else (seen.calls, seen.kind, seen.sets, len(seen.members))
    held = None if seen is None else seen.steady
    return line.name, line.engine, *agree, held, missing, line.risk, line.refused or line.unjudged or line.finding


def _missing(line: Repeated) -> str:
    least, most = line.missing_least, line.missing_most
    return count(most) if least == most else f"{count(least)} – {count(most)}"


def repeated_pictures(line: Repeated, about: str = "") -> list[Picture]:
    """The pictures that tell something of these calls; none where they are not judged."""
    found = line.repeatability
    if found is None or line.unjudged:
        return []
    views = repeated_views(line)
    titles = {"held": "What calls select"}
    if found.members:
        titles["frequency"] = "How often each index is selected that comes and goes"
    if line.lossy_calls:
        titles["missing"] = "Values missing, call by call"
    return [Picture(f"{title}{about}", views[view]) for view, title in titles.items()]


def repeated_views(line: Repeated) -> dict[str, Callable[[], go.Figure]]:
    """The pictures of these calls by name.

    Raises:
        UsageError: there are no calls, or they are not judged, so that there is nothing to draw.
    """
    found = line.repeatability
    if found is None or line.unjudged:
        raise UsageError(f"there is nothing to draw: {line.refused or line.unjudged}")

    def frequency() -> go.Figure:
        if not found.members:
            raise UsageError("no index comes and goes: there is nothing to draw")
        return frequency_figure(found, line.of)

    return {
        "held": lambda: held_figure(found),
        "frequency": frequency,
        "missing": lambda: missing_figure(line.missing, line.of),
    }


def line_of(found: Repeats, path: str | None) -> Repeated:
    """The calls that are drawn: those of a path, else those that agree least.

    Raises:
        UsageError: no such path, or no calls of it.
    """
    name = None if path is None else get_path(path).name
    lines = [line for line in found.lines if line.path == name or name is None]
    if not lines:
        raise UsageError(f"there are no calls of {name}")
    return lines[0] if name is not None else found.worst or lines[0]
