"""An inspected row in parts: the sentence, its pictures, what the judged paths returned, the risk on every path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.analysis.risk import Risk
from workbench.analysis.verdict import LOST
from workbench.errors import UsageError
from workbench.figures import palette
from workbench.figures.bins import bin_window, bins_figure
from workbench.figures.capacity import capacity_figure, in_order
from workbench.figures.diff import Comparison, compare, diff_figure
from workbench.figures.of_rows import refused_table, risk_table, selection_parts, verdict_parts
from workbench.figures.parts import Cell, Folded, Kind, Note, Part, Picture, Said, Table, first_lines
from workbench.figures.words import count, plural, value
from workbench.paths.catalog import PATHS, get_path
from workbench.runs.inspect import Inspection, damage
from workbench.runs.report import Result
from workbench.runs.run import run_case
from workbench.runs.sentence import finding, result_sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

RADIUS = 24  # bins to either side of the threshold
SELECTIONS = 8  # that a table shows
VALUES = 10  # lost, and kept, that a table shows
_COARSE = tuple(path.name for path in PATHS if path.key_bits is not None)


def default_path(found: Inspection, options: Sequence[str]) -> str:
    """The path to show where none was chosen, the first of these among ``options``: what the sentence is about, the
    reached path, the judged that fares worst, one that takes the row, the first."""
    ran = [one for one in sorted(found.every, key=damage, reverse=True) if one.line.refused is None]
    head = found.headline
    wanted = [head.line.path] if head is not None and head.line.refused is None else []
    wanted += [found.reached, *(one.line.path for one in ran)]
    wanted += [risk.path for risk in found.census if not risk.refused]
    return next((name for name in wanted if name is not None and name in options), options[0])


def colour_of(verdict: str | None, risk: str | None) -> str:
    """The colour of a finding: the verdict's where something was lost, else the risk's."""
    if verdict in LOST:
        return palette.VERDICTS[verdict]
    return palette.risk_colour(risk) if risk is not None else palette.VERDICTS.get(verdict or "", palette.REFUSED_TEXT)


def said_of(found: Inspection) -> Said:
    """The sentence of an inspected row, in the colour of the finding."""
    head = found.headline
    line = None if head is None else head.line
    risk = None if line is None else line.risk or ("certain" if line.finding else None)
    return Said(finding(found), colour_of(line.verdict if line else None, risk))


def inspection_parts(found: Inspection) -> list[Part]:
    """What a notebook shows of an inspected row."""
    row = found.row
    about = f"{row.capture or 'A row in memory'}{f', row {row.index}' if row.capture else ''}: k {count(found.k)}, "
    about += f"{plural(row.length, 'score')}, {row.dtype}. Judged: {found.judged_because}."
    parts: list[Part] = [said_of(found), Note(about)]
    parts += [Note(found.of_the_call)] if found.of_the_call else []
    parts += bins_parts(found)
    if table := selections_table(found):
        parts.append(table)
    return [*parts, *census_parts(found)]


def result_parts(made: Result) -> list[Part]:
    """What one selector made of a row: the sentence, the verdict's numbers, the risk, what it saw."""
    line = made.line
    parts: list[Part] = [Said(result_sentence(made), colour_of(line.verdict, line.risk))]
    if made.verdict is not None:
        parts += verdict_parts(made.verdict)[1:]
    if made.risk is not None and not made.risk.refused:
        parts.append(risk_table([made.risk], "Risk"))
    if made.selection is not None:
        parts.append(Folded("Its selection", tuple(selection_parts(made.selection))))
    return parts


def bins_parts(found: Inspection, path: str | None = None, title: str = "") -> list[Part]:
    """The histogram of coarse bins on one path, or why there is none."""
    name = coarse_path(found, path)
    if not found.case.profile.countable:
        return []
    told = title or "Coarse bins around the threshold"
    return [Picture(f"{told}: {name}", lambda: bins_picture(found, name))]


def coarse_path(found: Inspection, path: str | None) -> str:
    """The path whose bins are shown: the one asked for, else the one that matters most.

    Raises:
        UsageError: it has no coarse bins.
    """
    if path is None:
        return default_path(found, _COARSE)
    if get_path(path).name not in _COARSE:
        raise UsageError(f"{path} has no coarse bins")
    return path


def bins_picture(found: Inspection, path: str | None = None, radius: int = RADIUS) -> go.Figure:
    """The histogram of coarse bins around the threshold.

    Raises:
        UsageError: the path has no coarse bins, or the row has none under any key.
    """
    name = coarse_path(found, path)
    if not found.case.profile.countable:
        raise UsageError(
            "the row has no coarse bins: all of it is selected, or its dtype is none that coarse keys take"
        )
    bits = get_path(name).key_bits
    assert bits is not None
    return bins_figure(bin_window(found.case.profile, bits, radius), risk_on(found, name))


def risk_on(found: Inspection, path: str) -> Risk:
    """The risk on a path, of the census."""
    return next(risk for risk in found.census if risk.path == path)


def capacity_picture(found: Inspection) -> go.Figure:
    """Every path that takes the row, its threshold bin against its buffer."""
    risks = in_order(found.census, found.reached)
    return capacity_figure([risk for risk in risks if not risk.refused] or risks, found.reached)


def shown_result(found: Inspection, path: str | None = None) -> Result | None:
    """The selection that is compared with the exact one: the headline's, else the worst there is; of ``path`` if given.

    Raises:
        UsageError: no such path.
    """
    if path is not None:
        name = get_path(path).name
        made = next((one for one in found.results if one.line.path == name and one.selection is not None), None)
        return made or next((one for one in run_case(found.case, paths=name) if one.selection is not None), None)
    head = found.headline
    if head is not None and head.selection is not None:
        return head
    return max((one for one in found.every if one.selection is not None), key=damage, default=None)


def comparison(found: Inspection, made: Result) -> Comparison:
    """A selection against the exact one."""
    assert made.selection is not None
    assert made.verdict is not None
    return compare(found.row.valid, found.exact.indices, made.selection.indices, made.verdict)


def diff_picture(found: Inspection, path: str | None = None) -> go.Figure:
    """Where in the sequence winners were lost, and what was kept instead.

    Raises:
        UsageError: there is no selection to compare.
    """
    made = shown_result(found, path)
    if made is None:
        raise UsageError("no judged path was run on the row, and no selection is recorded: there is nothing to compare")
    return diff_figure(comparison(found, made))


def who(made: Result) -> str:
    """Whose selection a result is."""
    line = made.line
    if line.engine == "recorded":
        return "the recorded selection"
    return f"{line.path} ({line.variant})" if line.path else line.op or "the op"


def selections_table(found: Inspection) -> Table | None:
    """What the judged paths returned; ``None`` where none ran."""
    ran = [one for one in found.every if one.line.refused is None]
    lines = [one.line for one in sorted(ran, key=damage, reverse=True)][:SELECTIONS]
    columns: tuple[tuple[str, Kind], ...] = (
        *(("path", "word"), ("variant", "word"), ("engine", "word"), ("verdict", "word")),
        *(("missing", "number"), ("recall", "number"), ("greatest gap", "number")),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(line.path or palette.UNKNOWN, line.variant, line.engine, line.verdict, line.missing),
            None if line.recall is None else f"{line.recall:.6g}",
            None if line.max_score_gap is None else value(line.max_score_gap, 4),
        )
        for line in lines
    ]
    rest = ran[len(lines) :] and f"the first {len(lines)} of {len(ran)}, the worst first"
    return Table("Selections", columns, tuple(rows), rest or "") if rows else None


def census_parts(found: Inspection) -> list[Part]:
    """The risk on every path that takes the row, and why the others do not."""
    risks = in_order(found.census, found.reached)
    taken = [risk for risk in risks if not risk.refused]
    refused = [risk for risk in risks if risk.refused]
    parts: list[Part] = []
    if taken:
        marked = " (▸ the one it reaches)" if found.reached in {risk.path for risk in taken} else ""
        parts.append(risk_table(taken, f"Risk on every path that takes the row{marked}", found.reached))
    notes: dict[str, list[str]] = {}
    for risk in taken:
        if risk.note:
            notes.setdefault(risk.note, []).append(risk.path)
    parts += [Note(f"{', '.join(names)}: {note}") for note, names in notes.items()]
    if refused:
        parts.append(Folded(f"Refused by {plural(len(refused), 'path')}", (refused_table(refused),)))
    return parts


def lost_tables(compared: Comparison, most: int = VALUES) -> tuple[Table, ...]:
    """The first winners that a selection lost, and what it kept instead; none where it lost none."""
    columns: tuple[tuple[str, Kind], ...] = (
        *(("rank", "number"), ("index", "number"), ("score", "number"), ("gap to the k-th", "number")),
    )
    tables = []
    for side, title in ((compared.exact, "Winners lost"), (compared.selection, "Kept instead")):
        if side.different:
            shown = slice(min(most, side.different))
            numbers = zip(side.rank[shown], side.index[shown], side.score[shown], side.gap[shown], strict=True)
            rows = [
                (count(int(rank)), int(index), value(float(score), 9), value(float(gap), 3))
                for rank, index, score, gap in numbers
            ]
            tables.append(first_lines(title, columns, rows, side.different, "value"))
    return tuple(tables)
