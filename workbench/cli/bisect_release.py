"""``workbench bisect-release``: the first release from which a row loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.jsonout import print_json
from workbench.cli.matrix import check_timeout, one_engine, print_about, print_matrix_notes, print_reasons, print_row
from workbench.cli.options import (
    MOST_REPEATS,
    File,
    Given,
    Json,
    Naming,
    OneRow,
    Seed,
    Timeout,
    integer,
    one_row,
    one_thread,
    open_file,
    spread,
)
from workbench.cli.tables import lines, progress, say

if TYPE_CHECKING:
    from workbench.runs.bisect import Bisection


@spread
def bisect_release(
    file: File,
    naming: Naming,
    given: Given,
    row: OneRow = None,
    engine: Annotated[
        list[str] | None, typer.Option(metavar="model|vendor", help="What judges the row in a release; model.")
    ] = None,
    calls: Annotated[int, typer.Option(**integer(1, MOST_REPEATS), help="Calls of each release.")] = 10,
    scan: Annotated[bool, typer.Option("--scan", help="Run every release, whatever is predicted.")] = False,
    seed: Seed = 0,
    timeout: Timeout = None,
    json: Json = False,
) -> int:
    """Find the first release from which a row loses nothing: by bisection where that can be, else by a scan.

    --release gives the range; by default all releases of the op, those that routing knows or, with --engine vendor,
    those that are added or installed. Routing and the analysis predict whether releases can be bisected; a release that
    contradicts them, ends that are alike, or one without a verdict lead to a scan. Exit code 1 if the row loses or
    faults in the newest release that was judged, 0 if it is clean there.

    workbench bisect-release capture.safetensors --row 3
    workbench bisect-release capture.safetensors --row 3 --release vllm==0.20.2..0.33.0 --engine vendor --calls 50
    """
    from workbench.runs.bisect import bisect_release as bisect

    judge = one_engine(engine)
    check_timeout(timeout, judge == "vendor")
    releases, given = given.release, replace(given, release=None)
    with open_file(file, naming, given) as capture:
        at = one_row(row, capture)
        held = given.apply(capture[at])
        name = capture.info.path
        with one_thread(), progress(f"bisecting row {at} of {capture.name}", 100) as done:
            found = bisect(
                held,
                releases,
                given.op,
                judge,
                calls,
                scan=scan,
                device=given.device,
                k=given.k,
                seed=seed,
                timeout=timeout,
                among=capture,
                progress=lambda ran, of: done(100 * ran // of),
            )
        notes = [*given.notes(capture), *found.notes]
    if json:
        print_json(_document(found, name, notes))
    else:
        _print(found, name, notes)
    if found.newest is None:
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.loses else CLEAN


def _print(found: Bisection, name: str, notes: Sequence[str]) -> None:
    from workbench.runs.bisect_words import bisect_sentence, method_sentence, sure_sentence

    say(bisect_sentence(found), "bold")
    for text in (method_sentence(found), sure_sentence(found)):
        if text:
            say(text)
    say(f"Row {found.row.row} of {name}: k {found.row.k}, length {found.row.length}, {found.row.dtype}")
    matrix = found.matrix()
    print_about(matrix)
    lines((f"note: {note}" for note in notes), indent="")
    say("")
    if matrix.releases:
        print_row(matrix)
    print_reasons(matrix)
    print_matrix_notes(matrix)


def _document(found: Bisection, name: str, notes: Sequence[str]) -> dict[str, object]:
    from workbench.runs.bisect_words import bisect_sentence, method_sentence, sure_sentence

    return {
        "command": "bisect-release",
        "capture": name,
        "row": found.row.row,
        "sentence": bisect_sentence(found),
        "first_clean": found.first_clean,
        "last_losing": found.last_losing,
        "newest": None if found.newest is None else found.newest.release,
        "loses": found.loses,
        "sure": found.sure,
        "how_sure": sure_sentence(found),
        "chance": found.chance,
        "regressions": [{"clean": clean, "loses": loses} for clean, loses in found.regressions],
        "method": found.method,
        "because": found.because,
        "how": method_sentence(found),
        "engine": found.engine,
        "calls": found.calls,
        "releases": found.releases,
        "not_run": found.not_run,
        "cells": found.matrix().to_records(),
        "about": found.about,
        "notes": list(notes),
    }
