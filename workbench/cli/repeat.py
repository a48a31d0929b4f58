"""``workbench repeat``: many calls on one row, and what comes and goes between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import (
    MOST_REPEATS,
    File,
    Given,
    Json,
    Naming,
    Rows,
    Seed,
    integer,
    one_thread,
    open_file,
    parse_rows,
    spread,
)
from workbench.cli.tables import NONE, counted, lines, number, print_refusals, progress, say, score, table
from workbench.errors import UsageError
from workbench.paths.orders import DEFAULT_SEED

if TYPE_CHECKING:
    from workbench.runs.repeat import Repeated, Repeats

MEMBERS_SHOWN = 12


@spread
def repeat(
    file: File,
    naming: Naming,
    given: Given,
    row: Rows = None,
    repeats: Annotated[int, typer.Option(**integer(2, MOST_REPEATS), help="Calls of each path.")] = 50,
    paths: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Paths to call; by default the reached one, else all.")
    ] = None,
    variants: Annotated[str, typer.Option(metavar="GLOB", help="A glob over variants.")] = "stock",
    engine: Annotated[
        str | None,
        typer.Option(metavar="model|recorded", help="How paths are called; by default both, where there are both."),
    ] = None,
    seed: Seed = DEFAULT_SEED,
    json: Json = False,
) -> int:
    """Call selectors many times on one row: how often order, ties or values vary, and which indices come and go.

    Models are called under random arrival orders. Recorded selections count where the capture holds several calls on
    the same input. Exit code 1 if values vary, a call lost winners or returned invalid slots, or the row is not safe;
    ties and order that vary lose nothing and give 0.

    workbench repeat capture.safetensors --row 3
    workbench repeat capture.safetensors --row 3 --paths sglang.fast_topk --repeats 200
    workbench repeat capture.safetensors --row 0 --engine recorded
    """
    from workbench.runs.repeat import repeat as call_often

    with open_file(file, naming, given) as capture:
        numbers = parse_rows(row, len(capture))
        if len(numbers) != 1:
            raise UsageError(f"one row is called many times, these are {len(numbers)}; choose one with --row N")
        with one_thread(), progress(f"calling on row {numbers[0]} of {capture.name}", repeats) as done:
            found = call_often(
                given.apply(capture[numbers[0]]),
                repeats,
                paths=paths,
                variants=variants,
                engine=engine,
                among=capture,
                op=given.op,
                release=given.release,
                device=given.device,
                seed=seed,
                progress=done,
            )
        notes = given.notes(capture)
    if json:
        print_json(_document(found, notes))
    else:
        _print(found, notes)
    if found.worst is None and not any(line.finding for line in found.lines):
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.loses else CLEAN


def _document(found: Repeats, notes: Sequence[str]) -> object:
    return {
        "command": "repeat",
        "capture": found.row.capture,
        "row": found.row.index,
        "k": found.k,
        "length": found.row.length,
        "dtype": found.row.dtype,
        "notes": list(notes),
        "judged_because": found.judged_because,
        "loses": found.loses,
        "lines": [{**asdict(line), "loses": line.loses, "sentence": line.sentence} for line in found.lines],
    }


def _print(found: Repeats, notes: Sequence[str]) -> None:
    row, worst = found.row, found.worst
    say("Nothing was called." if worst is None else worst.sentence, "bold")
    say(f"{row.capture}, row {row.index}: k {found.k}, length {row.length}, {row.dtype}")
    say(f"Called: {found.judged_because}")
    lines((f"note: {note}" for note in notes), indent="")
    say("")
    called = [line for line in found.lines if line.repeatability is not None]
    if called:
        table(
            [
                Column("path", "word"),
                Column("variant", "word"),
                Column("engine", "word"),
                Column("calls"),
                Column("repeatability", "word"),
                Column("orders"),
                Column("sets"),
                Column("values"),
                Column("come\nand go"),
                Column("missing"),
                Column("risk", "word"),
            ],
            [_cells(line) for line in called],
        )
    if worst is not None and worst.repeatability is not None and worst.repeatability.members:
        _print_members(worst)
    print_refusals(
        (
            (f"{line.path} ({line.variant})" if line.path else line.engine, 0, line.refused or "")
            for line in found.lines
            if line.refused
        ),
        several=False,
    )


def _cells(line: Repeated) -> tuple[object, ...]:
    found = line.repeatability
    assert found is not None
    least, most = line.missing_least, line.missing_most
    return (
        line.path or NONE,
        line.variant or NONE,
        line.engine,
        found.calls,
        found.kind,
        found.orders,
        found.sets,
        found.values,
        len(found.members),
        NONE if line.unjudged else str(most) if least == most else f"{least} to {most}",
        line.risk,
    )


def _print_members(line: Repeated) -> None:
    found = line.repeatability
    assert found is not None
    # around the cut, where winners are lost to what lies just below it
    near = sorted(found.members, key=lambda member: (abs(member.gap), member.index))[:MEMBERS_SHOWN]
    shown = [member for member in found.members if member in near]
    more = f", the {len(shown)} nearest to the cut" if len(found.members) > len(shown) else ""
    table(
        [*map(Column, ("rank", "index", "score", "from the cut", "in ULPs", "held by"))],
        [
            (
                member.rank,
                member.index,
                score(member.score),
                number(member.gap),
                number(member.ulps),
                f"{member.held} of {found.calls}",
            )
            for member in shown
        ],
        title=f"Indices that come and go with {line.name}{more}",
    )
    if more:
        say(f"{counted(len(found.members), 'index', 'indices')} in all; --json lists them.")
