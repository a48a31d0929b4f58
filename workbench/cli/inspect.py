"""``workbench inspect``: every row of a capture in one table, or one row in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.options import (
    File,
    Given,
    Json,
    Naming,
    Order,
    Rows,
    Seed,
    one_thread,
    open_file,
    parse_rows,
    spread,
)
from workbench.cli.output import CURE, check_file, is_of
from workbench.cli.tables import (
    lines,
    progress,
)
from workbench.errors import UsageError
from workbench.paths.orders import DEFAULT_ORDER, DEFAULT_SEED

if TYPE_CHECKING:
    from workbench.capture import Capture
    from workbench.runs.inspect import Inspection


@spread
def inspect(
    file: File,
    naming: Naming,
    given: Given,
    row: Rows = None,
    paths: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Paths to judge; by default the reached one, else all.")
    ] = None,
    seed: Seed = DEFAULT_SEED,
    arrival: Order = DEFAULT_ORDER,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write one row as a page with pictures that needs no network."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a page that is there.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Of one row every path, condition and value, safe ones too.")
    ] = False,
    json: Json = False,
) -> int:
    """Judge the rows of a capture: which selector loses winners, how many, and why.

    The path that a row reaches is judged where op, release and device are known, else every path. A judged path, or
    the recorded selection, that is lossy, invalid or not safe gives exit code 1, and so does one that would hang or
    leave its memory, which is told and never run.

    workbench inspect capture.safetensors
    workbench inspect capture.safetensors --row 3 --all
    workbench inspect capture.safetensors --row 0-7 --paths 'vllm.*'
    workbench inspect capture.safetensors --row 3 --html row-3.html
    workbench inspect dump.safetensors --scores logits --lengths lens --k 2048
    """
    from workbench.cli import brief, detail, several
    from workbench.cli.seen import Seen, summarise

    if force and html is None:
        raise UsageError("--force is for --html; name a file for the page")
    target = check_file("--html", html, force)
    if target is not None and is_of(target, Path(file)):
        raise UsageError(f"{html}: this is of what is read; name another file")
    written: list[str] = []
    with open_file(file, naming, given) as capture:
        numbers = parse_rows(row, len(capture))
        if html is not None and len(numbers) != 1:
            raise UsageError(f"--html is of one row, and {len(numbers)} are asked for; name one by --row")
        notes = given.notes(capture)
        one: Inspection | None = None
        seen: list[Seen] = []
        for inspection in _inspections(capture, numbers, given, paths, seed, arrival):
            seen.append(summarise(inspection))
            if len(numbers) == 1:
                one = inspection
        findings = sum(row_seen.finding for row_seen in seen)
        if html is not None and one is not None:
            written.append(_write_page(one, html, force, Asked(capture, naming, given, notes, seed, arrival)))
        if json:
            print_json(
                {
                    "command": "inspect",
                    "capture": capture.info.path,
                    "notes": notes,
                    "inspected": len(seen),
                    "findings": findings,
                    "rows": seen,
                    "detail": None if one is None else detail.document(one),
                }
            )
        elif one is not None:
            (detail if every else brief).show(one, notes)
        else:
            several.show(capture, seen, notes)
        if not json:
            lines(written, indent="")
    if not any(row_seen.tells for row_seen in seen):
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if findings else CLEAN


@dataclass(frozen=True)
class Asked:
    """What was asked for of the row on a page."""

    capture: Capture
    naming: Naming
    given: Given
    notes: list[str]
    seed: int
    arrival: str


def _write_page(inspection: Inspection, target: str, force: bool, asked: Asked) -> str:
    """Write one row as a page; what is said of it."""
    from workbench.audit.words import size_words
    from workbench.figures.page import save
    from workbench.figures.row_page import Origin, row_page

    path = asked.capture.path
    options = {**vars(asked.naming), **vars(asked.given)}
    named = [(name, value) for name, value in options.items() if value is not None]
    origin = Origin(
        file="" if path is None else path.name,
        digest=asked.capture.digest,
        arguments=tuple(part for name, value in named for part in (_option(name), str(value))),
        seed=asked.seed,
        arrival=asked.arrival,
        notes=tuple(f"Note: {note}." for note in asked.notes),
    )
    made = save(row_page(inspection, origin, "workbench inspect"), target, force, CURE)
    return f"The page is written to {target} ({size_words(made.stat().st_size)})"


def _option(name: str) -> str:
    """An option as it is typed, of the name of its field."""
    return f"--{name.removesuffix('_dtype').replace('_', '-')}"


def _inspections(
    capture: Capture, numbers: list[int], given: Given, paths: str | None, seed: int, arrival: str
) -> Iterator[Inspection]:
    """One row after the other, so that only one is in memory."""
    from workbench.runs.inspect import inspect_row

    with one_thread(), progress(f"inspecting {capture.name}", len(numbers)) as done:
        for count, at in enumerate(numbers, 1):
            yield inspect_row(
                given.apply(capture[at]),
                paths=paths,
                op=given.op,
                release=given.release,
                device=given.device,
                seed=seed,
                arrival=arrival,
            )
            done(count)
