"""Several releases on the rows of a capture: the matrix as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import Given, Naming, one_thread, open_file, parse_rows
from workbench.cli.output import write_output
from workbench.cli.tables import NONE, WIDTH, counted, lines, named, probability, progress, ranges, say, table
from workbench.errors import UsageError
from workbench.words import listed

if TYPE_CHECKING:
    from workbench.capture import Capture, Row
    from workbench.runs.matrix import Cell, Matrix

FEW_ROWS = 6  # rows that stand side by side, the releases down; beyond them the releases stand side by side
WORST_SHOWN = 20
NOTES_SHOWN = 6
_GAP = 2


@dataclass(frozen=True)
class Asked:
    """What ``workbench run`` was asked for, as its options say it. ``whole``: whether nothing was asked for that only
    single paths or callables heed."""

    engine: Sequence[str] | None
    op: Sequence[str] | None
    repeats: int
    seed: int
    arrival: str
    whole: bool
    timeout: float | None


@dataclass(frozen=True)
class Chosen:
    """Rows of an open capture under the call as given, read as they are needed."""

    capture: Capture
    numbers: Sequence[int]
    apply: Callable[[Row], Row]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Row]:
        return (self.apply(self.capture[at]) for at in self.numbers)


def names_several(release: str | None) -> bool:
    """Whether ``--release`` stands for several: a range, or a list."""
    return release is not None and (".." in release or "," in release)


def one_engine(engine: Sequence[str] | None) -> str:
    """The engine that releases are compared by.

    Raises:
        UsageError: several of them.
    """
    names = [name.strip() for text in engine or ("model",) for name in text.split(",")]
    if len(names) > 1:
        raise UsageError(f"releases are compared by one engine, model or vendor; these are {listed(names)}")
    return names[0]


def check_timeout(timeout: float | None, heeded: bool) -> None:
    """Refuse a timeout where nothing heeds it.

    Raises:
        UsageError: there is one.
    """
    if timeout is not None and not heeded:
        raise UsageError(
            "--timeout is for the vendor and cuda engines and for callables; the others make no call that can hang"
        )


def run_matrix(
    file: str,
    naming: Naming,
    given: Given,
    row: list[str] | None,
    asked: Asked,
    *,
    target: Path | None,
    force: bool,
    json: bool,
) -> int:
    """``workbench run`` where ``--release`` names several releases."""
    from workbench.runs.judges import make_judge
    from workbench.runs.matrix import judge_all
    from workbench.runs.matrix_saved import SUFFIX, check_size, to_document
    from workbench.runs.matrix_words import matrix_sentence
    from workbench.runs.releases import find_releases, ops_given

    if not asked.whole:
        raise UsageError(
            "several releases are compared on the path that each of them takes; leave out --paths, --variants, "
            "--import and --cuda, or give one release"
        )
    from workbench.engines.named import is_callable_name

    if callables := [text for text in asked.op or () if is_callable_name(text)]:
        raise UsageError(
            f"{listed(callables)}: a callable is of no release, so that there is nothing to compare; leave it out, or "
            "give one release or none beside it"
        )
    engine, ops = one_engine(asked.engine), ops_given(list(asked.op or ()) or None)
    check_timeout(asked.timeout, engine == "vendor")
    tried = find_releases(given.release, ops, engine)
    given = replace(given, release=None)
    with open_file(file, naming, given) as capture:
        chosen = Chosen(capture, parse_rows(row, len(capture)), given.apply)
        total = len(chosen) * len(tried.releases)
        if target is not None and target.suffix == SUFFIX:
            check_size(total, str(target))
        judge = make_judge(
            *(engine, ops, given.device, given.k, asked.repeats, asked.seed, asked.arrival, asked.timeout, capture)
        )
        with one_thread(), progress(f"{counted(len(tried.releases), 'release')} on {capture.name}", total) as done:
            try:
                found = judge_all(
                    chosen,
                    tried.releases,
                    judge,
                    asked.repeats,
                    k=given.k,
                    notes=(*given.notes(capture), *tried.notes),
                    progress=lambda cells, _: done(cells),
                )
            finally:
                judge.close()
        about = f"{counted(len(chosen), 'row')} of {capture.info.path}"
    if target is not None:
        write_output(found, target, force, lambda: to_document(found))
    if json:
        print_json(
            {"command": "run", "sentence": matrix_sentence(found), "loses": found.loses, "matrix": to_document(found)}
        )
    else:
        print_matrix(found, about)
        if target is not None:
            what = "the matrix" if target.suffix == ".json" else counted(total, "line")
            say(f"{what[0].upper()}{what[1:]} {'is' if target.suffix == '.json' else 'are'} written to {target}")
    if not found.judged:
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.loses else CLEAN


def print_matrix(found: Matrix, about: str) -> None:
    """The sentence, the table, and why cells have no verdict."""
    from workbench.runs.matrix_words import matrix_sentence, row_sentence

    say(matrix_sentence(found), "bold")
    say(f"{counted(len(found.releases), 'release')} on {about}, {found.cells[0][0].engine} engine")
    print_about(found)
    lines((f"note: {note}" for note in found.notes), indent="")
    say("")
    if len(found.rows) == 1:
        print_row(found)
    elif len(found.rows) <= FEW_ROWS:
        _print_rows_across(found)
    else:
        _print_releases_across(found)
    if 1 < len(found.rows) <= FEW_ROWS:
        lines(row_sentence(found, at) for at in range(len(found.rows)))
        say("")
    print_reasons(found)
    print_matrix_notes(found)


def print_about(found: Matrix) -> None:
    """The machine in one line, then each release's library."""
    machine = [f"{name} {value}" for name, value in found.about.items() if name not in found.releases]
    lines([listed(machine)] if machine else [], indent="")
    lines((f"{name}: {found.about[name]}" for name in found.releases if name in found.about), indent="")


def print_row(found: Matrix) -> None:
    """One row: every release with its numbers."""
    from workbench.runs.law_words import law_notes

    table(
        [
            Column("release", "word"),
            Column("path", "word"),
            Column("verdict", "word"),
            Column("calls\nthat lost"),
            Column("missing\na call"),
            Column("repeatability", "word"),
            Column("risk", "word"),
            Column("p_clean"),
        ],
        [
            (
                cell.release,
                named(cell.path, cell.variant),
                cell.verdict or (cell.state if cell.why else NONE),
                f"{cell.lost_calls} of {cell.calls}" if cell.calls else NONE,
                _span(cell),
                cell.repeatability,
                cell.risk,
                probability(cell.p_clean, cell.risk),
            )
            for cell in found.cells[0]
        ],
    )
    lines(law_notes((cell.path, cell.risk, cell.clean_at_most) for cell in found.cells[0]), indent="")


def _print_rows_across(found: Matrix) -> None:
    from workbench.runs.matrix_words import cell_text

    table(
        [Column("release", "word"), *(Column(f"row {row.row}\nof {row.length}", "word") for row in found.rows)],
        [
            (release, *(cell_text(cells[place]) for cells in found.cells))
            for place, release in enumerate(found.releases)
        ],
        title="Verdict of the worst call, and values missing on average",
    )


def _print_releases_across(found: Matrix) -> None:
    from workbench.runs.matrix_words import cell_text

    order = found.worst_first[:WORST_SHOWN]
    shown = "" if len(order) == len(found.rows) else f", worst {len(order)} of {len(found.rows)} rows"
    for package, places in found.of_package().items():
        for group in _groups(found, places, order):
            table(
                [
                    Column("row"),
                    Column("length"),
                    *(Column(found.releases[place].partition("==")[2], "word") for place in group),
                ],
                [
                    (
                        found.rows[at].row,
                        found.rows[at].length,
                        *(cell_text(found.cells[at][place]) for place in group),
                    )
                    for at in order
                ],
                title=f"{package}: verdict of the worst call, and values missing on average{shown}",
            )


def _groups(found: Matrix, places: Sequence[int], order: Sequence[int]) -> list[Sequence[int]]:
    """Releases in groups that fit side by side, as many in each."""
    from workbench.runs.matrix_words import cell_text

    def wide(place: int) -> int:
        texts = [found.releases[place].partition("==")[2], *(cell_text(found.cells[at][place]) for at in order)]
        return max(map(len, texts)) + _GAP

    rows = [found.rows[at] for at in order]
    before = max(3, *(len(str(row.row)) for row in rows)) + max(6, *(len(str(row.length)) for row in rows)) + _GAP
    for size in range(len(places), 1, -1):
        even = -(-len(places) // -(-len(places) // size))
        groups = [places[at : at + even] for at in range(0, len(places), even)]
        if all(before + sum(map(wide, group)) <= WIDTH for group in groups):
            return groups
    return [[place] for place in places]


def print_reasons(found: Matrix) -> None:
    """Why cells have no verdict."""
    from workbench.runs.case import DEVICE_UNKNOWN
    from workbench.runs.matrix_words import reasons, releases_text

    cures = {DEVICE_UNKNOWN: f"{DEVICE_UNKNOWN}; give it (--device)"}
    told = [
        (state, releases_text(found, releases), ranges(rows), cures.get(why, why) or NONE)
        for state, releases, rows, why in reasons(found)
    ]
    if told:
        columns = [
            Column("no verdict", "word"),
            Column("releases", "text"),
            Column("rows", "text"),
            Column("why", "text"),
        ]
        table(columns, told)


def print_matrix_notes(found: Matrix) -> None:
    """What must be known of cells: each note once, with its releases and rows."""
    from workbench.runs.matrix_words import releases_text

    noted: dict[str, tuple[list[str], list[int]]] = {}
    for row, cells in zip(found.rows, found.cells, strict=True):
        for cell in cells:
            for note in cell.notes:
                releases, rows = noted.setdefault(note, ([], []))
                releases += [] if cell.release in releases else [cell.release]
                rows += [] if row.row in rows else [row.row]
    texts = [
        f"note, {releases_text(found, releases)}, row{'' if len(rows) == 1 else 's'} {ranges(sorted(rows))}: {note}"
        for note, (releases, rows) in noted.items()
    ]
    lines(texts[:NOTES_SHOWN], indent="")
    if len(texts) > NOTES_SHOWN:
        say(f"… and {len(texts) - NOTES_SHOWN} more notes; --json lists all")


def _span(cell: Cell) -> str:
    least, most = cell.missing_least, cell.missing_most
    if least is None:
        return NONE
    return str(most) if least == most else f"{least} to {most}"
