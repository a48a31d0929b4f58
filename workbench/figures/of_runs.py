"""Reports, matrices, bisections, shrunk rows, benchmarks and what was written, in parts."""

from __future__ import annotations

from collections import Counter

from workbench.audit.front import Audited
from workbench.export.writing import Exported
from workbench.figures import palette
from workbench.figures.of_inspection import colour_of
from workbench.figures.of_rows import row_parts
from workbench.figures.parts import LINES, Cell, Folded, Kind, Note, Part, Picture, Said, Table, facts, first_lines
from workbench.figures.releases import places_shown, releases_figure
from workbench.figures.tables import shrunk_lines
from workbench.figures.words import count, plural, probability, value
from workbench.runs.bench import Bench, BenchCell
from workbench.runs.bench_words import bench_sentence
from workbench.runs.bisect import Bisection
from workbench.runs.bisect_words import bisect_sentence, method_sentence
from workbench.runs.law_words import law_note, law_notes
from workbench.runs.matrix import Cell as OfRelease
from workbench.runs.matrix import Matrix
from workbench.runs.matrix_words import cell_sentence, cell_text, clean_notes, matrix_sentence
from workbench.runs.report import Line, Report, line_loses
from workbench.runs.sentence import shrunk_sentence
from workbench.runs.shrink import Shrunk

Columns = tuple[tuple[str, Kind], ...]


def report_parts(report: Report) -> list[Part]:
    """A report: how its lines fared, and the first of them."""
    lines = report.lines
    kinds = Counter(line.verdict or "not run" for line in lines)
    told = ", ".join(f"{count(number)} {kind}" for kind, number in kinds.items())
    losing = sum(line_loses(line) for line in lines)
    said = f"{plural(len(lines), 'line')}: {told}" if lines else "No lines"
    if losing:
        said += f"; {count(losing)} of them {'tells' if losing == 1 else 'tell'} of a loss or a risk"
    worst = next((name for name in ("invalid", "lossy") if kinds[name]), None)
    colour = colour_of(worst, "at risk" if losing else "safe") if report.judged else palette.REFUSED_TEXT
    # of many lines those that tell of something come first
    order = lines if len(lines) <= LINES else sorted(lines, key=lambda line: not line_loses(line))
    shown = order[:LINES]
    named: Columns = tuple(
        (name, kind)
        for name, kind in _LINE
        if name in ("row", "verdict") or any(_line_cell(name, line) is not None for line in shown)
    )
    rows = [[_line_cell(name, line) for name, _ in named] for line in shown]
    about = [Note(f"{name}: {', '.join(f'{a} {b}' for a, b in what.items())}") for name, what in report.about.items()]
    table = Table("", named, tuple(map(tuple, rows)), _more(len(shown), len(lines), losing))
    laws = law_notes((line.path, line.risk, line.clean_at_most) for line in shown)
    return [Said(f"{said}.", colour), *about, table, *map(Note, laws)]


def _more(shown: int, of: int, losing: int) -> str:
    if shown == of:
        return ""
    first = ", those that tell of a loss or a risk first" if losing else ""
    return f"{count(shown)} of {count(of)} lines are shown{first}; to_pandas() has them all"


_LINE: Columns = (
    *(("row", "number"), ("path", "word"), ("variant", "word"), ("engine", "word"), ("repeat", "number")),
    *(("verdict", "word"), ("missing", "number"), ("risk", "word"), ("p clean", "number"), ("mean lost", "number")),
    *(("population", "number"), ("capacity", "number"), ("why", "text")),
)


def _line_cell(name: str, line: Line) -> Cell:
    if name == "p clean":
        return None if line.p_clean is None else probability(line.p_clean, possible=line.risk == "at risk")
    if name == "mean lost":
        return None if line.expected_missing is None else value(line.expected_missing, 5)
    if name == "repeat":
        return line.repeat or None
    if name == "why":
        return line.finding or line.refused
    found: Cell = getattr(line, name)
    return found


def matrix_parts(matrix: Matrix) -> list[Part]:
    """A matrix row × release: the sentence, the picture, the cells."""
    colour = palette.LOSSY_TEXT if matrix.loses else palette.SAFE_TEXT if matrix.judged else palette.REFUSED_TEXT
    parts: list[Part] = [Said(matrix_sentence(matrix), colour)]
    return [*parts, *matrix_pictures(matrix), *(Note(note) for note in matrix.notes), *_cells(matrix)]


def matrix_pictures(matrix: Matrix) -> list[Picture]:
    """The picture of a matrix that holds a cell."""
    if not matrix.rows or not matrix.releases:
        return []
    rows, releases = places_shown(matrix)
    left = [f"{count(len(rows))} of {count(len(matrix.rows))} rows"] if len(rows) < len(matrix.rows) else []
    left += [f"the newest {len(releases)} releases"] if len(releases) < len(matrix.releases) else []
    return [
        Picture("Rows by release", lambda: releases_figure(matrix), f"Shown are {' and '.join(left)}." if left else "")
    ]


def _cells(matrix: Matrix) -> list[Part]:
    if not matrix.rows or not matrix.releases:
        return []
    several = len(matrix.of_package()) > 1
    names = [one if several else one.partition("==")[2] for one in matrix.releases]
    columns: Columns = (("row", "text"), ("length", "number"), *((name, "word") for name in names))
    rows: list[tuple[Cell, ...]] = [
        (matrix.row_name(at), matrix.rows[at].length, *map(cell_text, matrix.cells[at]))
        for at in matrix.worst_first[:LINES]
    ]
    return [first_lines("Verdict of the worst call, and values missing a call", columns, rows, len(matrix.rows), "row")]


def cell_parts(cell: OfRelease) -> list[Part]:
    """What one release made of one row."""
    least, most = cell.missing_least, cell.missing_most
    told: dict[str, Cell] = {
        "release": cell.release or None,
        "engine": cell.engine,
        "op": cell.op,
        "path": f"{cell.path} ({cell.variant})" if cell.path else None,
        "state": cell.state,
        "verdict of the worst call": cell.verdict or "–",
        "calls": cell.calls,
        "of them lossy": cell.lost_calls,
        "missing a call": "–" if least is None or most is None else f"{count(least)} – {count(most)}",
        "risk": cell.risk or "–",
        "p clean": probability(cell.p_clean, possible=cell.risk == "at risk"),
        "mean lost": "–" if cell.expected_missing is None else value(cell.expected_missing, 5),
    }
    said = Said(cell_sentence(cell), palette.STANDING_TEXTS[cell.state])
    return [said, facts("", told), *(Note(note) for note in (*cell.notes, *clean_notes(cell)))]


def bisection_parts(found: Bisection) -> list[Part]:
    """In which release a row stops to lose: the sentence, how it was found, and each release."""
    colour = palette.LOSSY_TEXT if found.loses else palette.SAFE_TEXT
    parts: list[Part] = [Said(bisect_sentence(found), colour)]
    parts += [Note(text) for text in (method_sentence(found), *found.notes) if text]
    matrix = found.matrix()
    return [*parts, *matrix_pictures(matrix), *_cells(matrix)]


def shrunk_parts(found: Shrunk) -> list[Part]:
    """A row before and after it shrank."""
    name = f"row {found.row.index} of {found.row.capture}" if found.row.capture else "the row"
    said = Said(shrunk_sentence(found, name), colour_of(None, found.after.risk.level))
    columns: Columns = (("of the row", "word"), ("before", "number"), ("after", "number"))
    how = "a local minimum" if found.is_minimum else "stopped before the end"
    about = f"{plural(found.tried, 'candidate')} tried, {count(found.kept)} kept: {how}."
    law = law_note(found.path, found.after.risk.level, found.after.risk.clean_at_most)
    notes = [Note(note) for note in filter(None, (about, *found.notes, law))]
    return [
        said,
        *notes,
        Table("", columns, tuple(shrunk_lines(found))),
        Folded("The row", tuple(row_parts(found.row))),
    ]


def bench_parts(bench: Bench) -> list[Part]:
    """Times side by side: the sentence, the machine, and the cells."""
    colour = palette.LOSSY_TEXT if bench.wrong else palette.SAFE_TEXT if bench.measured else palette.REFUSED_TEXT
    machine = bench.machine
    about = f"{machine.name}: reads {value(machine.read_gbs, 4)} GB/s; a call that does nothing takes "
    about += f"{value(machine.floor_us, 3)} µs; {', '.join(f'{name} {told}' for name, told in machine.about.items())}"
    columns: Columns = (
        *(("batch", "text"), ("cache", "word"), ("who", "text"), ("paths", "text"), ("verdict", "word")),
        *(("µs", "number"), ("p10–p90", "number"), ("GB/s", "number"), ("why not", "text")),
    )
    rows = [_bench_cell(cell) for cell in bench.cells[: 4 * LINES]]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return [Said(bench_sentence(bench), colour), Note(about), first_lines("", columns, rows, len(bench.cells), "cell")]


def _bench_cell(cell: BenchCell) -> tuple[Cell, ...]:
    shape, spread, gbs = cell.shape, cell.spread, cell.gbs
    kind = " (ragged)" if shape.lengths == "ragged" else ""
    batch = f"{plural(shape.rows, 'row')} of {count(shape.length)}{kind}, k {count(shape.k)}"
    verdict: Cell = None if cell.verdict is None else cell.verdict.kind
    if cell.verdict is not None and cell.verdict.missing_most:
        verdict = f"{verdict}, {count(cell.verdict.missing_most)}"
    times = (None, None) if spread is None else (value(spread.median), f"{value(spread.p10)}–{value(spread.p90)}")
    why = cell.fault or "; ".join(cell.refused) or None
    return batch, cell.l2, str(cell.contender), ", ".join(cell.paths), verdict, *times, gbs and value(gbs, 3), why


def audited_parts(found: Audited) -> list[Part]:
    """What an audit found, in numbers."""
    said = f"{count(found.found_rows)} of {plural(found.rows, 'row')} in {plural(found.files, 'file')} tell of a loss, "
    said += "a risk or a harm"
    faulty = found.failed_files or found.failed_rows
    colour = palette.LOSSY_TEXT if found.found_rows else palette.REFUSED_TEXT if faulty else palette.SAFE_TEXT
    told: dict[str, Cell] = {
        "records": found.out,
        "files": found.files,
        "not audited whole": found.failed_files,
        "rows": found.rows,
        "judged": found.judged_rows,
        "not read or judged": found.failed_rows,
        "lines": found.lines,
    }
    notes = [Note(f"{plural(len(found.appeared), 'file')} appeared since it was planned.")] if found.appeared else []
    return [Said(f"{said}.", colour), *notes, facts("", told)]


def exported_parts(done: Exported) -> list[Part]:
    """What was exported, and how it is run."""
    told: dict[str, Cell] = {
        "path": f"{done.path} ({done.variant})",
        "risk": done.risk,
        "p clean": probability(done.p_clean, possible=done.risk == "at risk"),
        "missing": done.missing,
        "repeats": done.repeats,
        "files": ", ".join(map(str, done.files)),
        "run it with": done.run or "–",
    }
    said = f"A row and its test ({done.style}) are written; proved: {', '.join(done.proved)}."
    return [Said(said, palette.SAFE_TEXT), facts("", told), Note(done.why)]
