"""``workbench run``: paths on rows, as a report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import dumps, print_json
from workbench.cli.layout import Column
from workbench.cli.options import (
    MOST_REPEATS,
    File,
    Given,
    Json,
    Naming,
    Order,
    Rows,
    Seed,
    integer,
    one_thread,
    open_file,
    parse_rows,
    spread,
)
from workbench.cli.order import order_unreliable, order_warning
from workbench.cli.tables import NONE, counted, lines, named, number, print_refusals, progress, say, table
from workbench.errors import UsageError
from workbench.targets import check_target, put_in_place

if TYPE_CHECKING:
    from workbench.runs.report import Line, Report

WORST_SHOWN = 10
SUFFIXES = (".csv", ".parquet", ".json")
CURE = "give --force"


@spread
def run(
    file: File,
    naming: Naming,
    given: Given,
    row: Rows = None,
    paths: Annotated[
        str,
        typer.Option(
            metavar="GLOB|reached|possible",
            help="A glob over paths; or each row on the path that it reaches, or on all that its op could take.",
        ),
    ] = "reached",
    variants: Annotated[str, typer.Option(metavar="GLOB", help="A glob over variants.")] = "stock",
    engine: Annotated[str, typer.Option(metavar="model|recorded", help="How paths are run.")] = "model",
    repeats: Annotated[
        int, typer.Option(**integer(1, MOST_REPEATS), help="Runs of each, every one with another arrival order.")
    ] = 1,
    seed: Seed = 0,
    arrival: Order = "random",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help=f"Write all lines: {', '.join(SUFFIXES)}.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --output replace a file.")] = False,
    json: Json = False,
) -> int:
    """Run paths on the rows of a capture beside the exact reference, and report verdicts and risks.

    workbench run capture.safetensors
    workbench run capture.safetensors --paths 'vllm.*' --repeats 20 --output report.csv
    workbench run capture.safetensors --engine recorded
    """
    from workbench.runs.run import run as run_paths

    target = None if output is None else _target(output, force)
    with open_file(file, naming, given) as capture:
        numbers = parse_rows(row, len(capture))
        with one_thread(), progress(f"running on {capture.name}", len(numbers)) as done:
            report = run_paths(
                (given.apply(capture[at]) for at in numbers),
                paths=paths,
                variants=variants,
                op=given.op,
                release=given.release,
                device=given.device,
                engine=engine,
                repeats=repeats,
                seed=seed,
                arrival=arrival,
                progress=done,
            )
        notes, about = given.notes(capture), f"{counted(len(numbers), 'row')} of {capture.info.path}"
    if target is not None:
        _write(report, target, force)
    if json:
        print_json(report.to_records())
    else:
        _print(report, about, notes)
        if target is not None:
            say(f"{counted(len(report), 'line')} written to {output}")
    if len(report) and not any(line.verdict or line.risk or line.finding for line in report):
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if report.loses else CLEAN


def _print(report: Report, about: str, notes: Sequence[str]) -> None:
    say(f"{counted(len(report), 'line')}, {about}", "bold")
    lines((f"note: {note}" for note in notes), indent="")
    groups: dict[tuple[str | None, str | None, str], list[Line]] = {}
    for line in report:
        groups.setdefault((line.path, line.variant, line.engine), []).append(line)
    verdicts, risks = ("exact", "ties", "lossy", "invalid"), ("safe", "at risk", "certain")
    say("")
    table(
        [
            Column("path", "word"),
            Column("variant", "word"),
            Column("engine", "word"),
            *(Column(name) for name in (*verdicts, "refused", "missing\nin all", *risks)),
        ],
        [
            (*(name or NONE for name in names), *_counts(group, verdicts), *_totals(group), *_risks(group, risks))
            for names, group in groups.items()
        ],
        title="Lines by path and verdict",
    )
    _print_worst(report)
    lines(order_warning(line.row for line in report if order_unreliable(line.order_correlation)), indent="")
    print_refusals(
        (named(line.path, line.variant) or line.op or line.engine, line.row, line.refused)
        for line in report
        if line.refused
    )


def _counts(group: Sequence[Line], verdicts: Sequence[str]) -> list[int]:
    counts = Counter(line.verdict for line in group)
    return [counts[verdict] for verdict in verdicts]


def _totals(group: Sequence[Line]) -> tuple[int, int]:
    return sum(line.refused is not None for line in group), sum(line.missing or 0 for line in group)


def _risks(group: Sequence[Line], risks: Sequence[str]) -> list[int]:
    counts = Counter(line.risk for line in group)
    return [counts[risk] for risk in risks]


def _print_worst(report: Report) -> None:
    from workbench.runs.inspect import damage
    from workbench.runs.report import Result, line_loses

    found = [line for line in report if line_loses(line)]
    refused = sum(line.refused is not None for line in report)
    if refused:
        every = refused == len(report)
        which = f"{'The only' if len(report) == 1 else f'All {refused}'}" if every else f"{refused} of {len(report)}"
        say(f"{which} {'line was' if len(report) == 1 else 'lines were'} refused: nothing ran there.")
    if not found:
        say("No line is lossy, invalid or at risk." if refused < len(report) else "Nothing is known to be at risk.")
        say("")
        return
    worst = sorted(found, key=lambda line: damage(Result(line)), reverse=True)[:WORST_SHOWN]
    table(
        [
            Column("row"),
            Column("path", "word"),
            Column("variant", "word"),
            Column("repeat"),
            Column("verdict", "word"),
            Column("missing"),
            Column("recall"),
            Column("max\ngap"),
            Column("risk", "word"),
            Column("expected\nmissing"),
        ],
        [
            (
                line.row,
                line.path,
                line.variant,
                line.repeat,
                "refused" if line.refused is not None else line.verdict,
                line.missing,
                number(line.recall, 5),
                number(line.max_score_gap),
                line.risk,
                number(line.expected_missing),
            )
            for line in worst
        ],
        title="Lines that lose, can lose or do harm"
        if len(worst) == len(found)
        else f"Worst {len(worst)} of {len(found)} lines that lose, can lose or do harm",
    )


def _target(output: str, force: bool) -> Path:
    """Where the report goes, looked at before anything runs.

    Raises:
        UsageError: an unknown suffix, no such folder, a file that is there already, or something that is no file.
    """
    if "\0" in output:
        raise UsageError(f"{output}: not a path: it holds a NUL character")
    target = Path(output)
    if not output:
        raise UsageError("--output is empty; name a file")
    if target.name != os.path.basename(output):  # noqa: PTH119  Path drops an ending such as "/"
        raise UsageError(f"{output}: this names a folder; name a file in it")
    if target.suffix not in SUFFIXES:
        raise UsageError(f"{output}: a report is written as {', '.join(SUFFIXES)}; end its name in one of them")
    check_target(target, output, overwrite=force, cure=CURE)
    return target


def _write(report: Report, target: Path, force: bool) -> None:
    """Write beside the target, then put in place: the target is whole or not there."""
    try:
        with put_in_place(target, str(target), overwrite=force, cure=CURE) as temporary:
            if target.suffix == ".json":
                temporary.write_text(dumps(report.to_records()) + "\n", encoding="utf-8")
            elif target.suffix == ".csv":
                report.to_pandas().to_csv(temporary, index=False)
            else:
                report.to_pandas().to_parquet(temporary, index=False)
    except UnicodeError as error:
        raise UsageError(f"{target}: cannot be written: {error}; .json can hold any name") from None
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from None
