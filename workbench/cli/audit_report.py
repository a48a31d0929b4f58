"""``workbench audit report``: what an audit found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import Json, integer
from workbench.cli.output import CURE, check_file
from workbench.cli.tables import lines, progress, say, table
from workbench.errors import UsageError
from workbench.targets import put_in_place
from workbench.words import because, probability

if TYPE_CHECKING:
    import pyarrow as pa

    from workbench.audit.dataset import Dataset
    from workbench.audit.summary import Summary
    from workbench.audit.tables import Cell, Table

MOST = 10_000
FORMULA = "=+-@"  # what a cell begins with that spreadsheets take for a formula

Output = Annotated[str, typer.Argument(metavar="OUT", help="The output folder of an audit.")]


def report(
    folder: Output,
    top: Annotated[
        int, typer.Option("--top", **integer(1, MOST), help="Worst rows, and groups of a kind, that are listed.")
    ] = 10,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write a page with pictures that needs no network.")
    ] = None,
    csv: Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Write the worst rows as CSV.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="With --csv: every line that is a finding, not the worst rows alone.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Json = False,
) -> int:
    """Say what an audit found: rows at risk and lost winners by path, layer, step, rank, file, op and release, the
    worst rows, and what could not be read. The exit code is 1 if a row loses winners or can, and 2 if a file could not
    be read to its end or the audit is not finished.

    workbench audit report audited/
    workbench audit report audited/ --html audited.html --csv worst.csv
    """
    from workbench.audit.dataset import Dataset, is_kept
    from workbench.audit.words import audit_sentence
    from workbench.capture.values import shown

    if every and csv is None:
        raise UsageError("--all is for --csv; name a file for the lines")
    targets = [check_file(option, file, force) for option, file in (("--html", html), ("--csv", csv))]
    if None not in targets and targets[0] == targets[1]:
        raise UsageError("--html and --csv name one file; name two")
    dataset = Dataset(folder)
    for target in targets:
        if target is not None and is_kept(dataset.path, target):
            raise UsageError(f"{shown(target)}: it is of the audit that is reported; choose another name")
    found = summary_of(dataset, top)
    written = []
    if html is not None:
        from workbench.figures.audit_page import audit_page
        from workbench.figures.page import save

        save(audit_page(found), html, force, CURE)
        written.append(f"The page is written to {html}")
    if csv is not None:
        told, formulas = _write_csv(dataset, found, Path(csv), every, force)
        written += [f"{told} to {csv}", *([_formula_words(formulas)] if formulas else [])]
    if json:
        print_json(
            {"command": "audit report", "sentence": audit_sentence(found), "loses": found.loses, "summary": found}
        )
    else:
        print_summary(found)
        lines(written, indent="")
    return _code(found)


def summary_of(dataset: Dataset, top: int) -> Summary:
    """What an audit found, with so many of the worst rows and groups of a kind; shows how far it has read."""
    from workbench.audit.summary import summarize

    with progress("record files", len(dataset.records)) as done:
        return summarize(dataset, worst=top, groups=top, progress=done)


def _code(found: Summary) -> int:
    """As ``workbench audit`` has it: what could not be audited goes before what was found."""
    from workbench.audit.words import fault_words, unfinished_words

    if told := unfinished_words(found) or fault_words(found):
        complain(f"{found.name}: {told.rstrip('.')}")
        return BAD
    if not found.total.rows or found.total.unjudged == found.total.rows:
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.loses else CLEAN


def _formula_words(cells: int) -> str:
    text = f"{cells} text {'cell begins' if cells == 1 else 'cells begin'} with one of {' '.join(FORMULA)}"
    return f"{text}, written as it is: a spreadsheet takes that for a formula unless the columns are imported as text"


def _formulas(piece: pa.Table) -> int:
    """Cells of text columns that a spreadsheet would take for formulas."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = (column for column in piece.columns if pa.types.is_string(column.type))
    return sum(pc.sum(pc.match_substring_regex(column, "^[=+@-]")).as_py() or 0 for column in texts)


def _write_csv(dataset: Dataset, found: Summary, target: Path, every: bool, force: bool) -> tuple[str, int]:
    """The lines as they are, text in quotes, numbers without; what was written, and how many cells look as formulas.

    No cell is altered for the sake of spreadsheets: programs read the file, and a name with an apostrophe before it is
    another name.
    """
    import pyarrow as pa
    from pyarrow import csv

    from workbench.audit.findings import findings
    from workbench.audit.schema import arrow_schema

    def pieces() -> Iterator[pa.Table]:
        return findings(dataset) if every else iter([pa.Table.from_pylist(list(found.worst), schema=arrow_schema())])

    written = formulas = 0
    try:
        with (
            put_in_place(target, str(target), overwrite=force, cure=CURE) as temporary,
            csv.CSVWriter(str(temporary), arrow_schema()) as out,
        ):
            for piece in pieces():
                out.write_table(piece)
                written, formulas = written + piece.num_rows, formulas + _formulas(piece)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {because(error)}") from None
    if every:
        many = f"{written} {'line that is a finding is' if written == 1 else 'lines that are findings are'} written"
        return many, formulas
    return (f"The {written} worst rows are written" if written != 1 else "The worst row is written"), formulas


def print_summary(found: Summary) -> None:
    """The sentence, then the tables."""
    from workbench.audit.tables import tables
    from workbench.audit.words import about_words, audit_sentence

    say(audit_sentence(found), "bold")
    say(about_words(found))
    say("")
    print_tables(tables(found))


def print_tables(tables: Iterable[Table]) -> None:
    """Tables, each with what it leaves out."""
    for one in tables:
        columns = [Column(title, kind) for title, kind in one.columns]
        table(columns, [[_cell(cell) for cell in row] for row in one.rows], title=one.title)
        if one.more:
            say(one.more)
            say("")


def _cell(cell: Cell) -> Cell:
    return probability(cell, possible=True) if isinstance(cell, float) else cell
