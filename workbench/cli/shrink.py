"""``workbench shrink``: the smallest row that still shows the same fault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import CLEAN, FOUND, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import (
    SEEDS,
    File,
    Given,
    Json,
    Naming,
    OneRow,
    PathOfRow,
    integer,
    one_row,
    one_thread,
    open_file,
    spread,
)
from workbench.cli.tables import counted, lines, number, probability, progress, say, table
from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.runs.shrink import Figures, Shrunk

DAY = 86_400


@spread
def shrink(
    file: File,
    naming: Naming,
    given: Given,
    row: OneRow = None,
    path: PathOfRow = None,
    variant: Annotated[str, typer.Option(metavar="NAME", help="Its variant.")] = "stock",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the smallest row to a capture.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--force", help="Let --output replace a file.")] = False,
    seed: Annotated[int, typer.Option("--seed", **integer(0, SEEDS), help="Of every random choice.")] = 0,
    time_limit: Annotated[
        int | None, typer.Option(**integer(1, DAY), help="Stop after so many seconds, with the smallest row so far.")
    ] = None,
    json: Json = False,
) -> int:
    """Shrink a row to the smallest one that shows the same fault on the same path: fewer scores, smaller k, simpler
    values.

    The fault is held by the row's risk over every arrival order. The result is a local minimum: shrunk again, it stays
    as it is. Stopped by Ctrl-C or --time-limit, --output holds the smallest row so far, and the same command goes on
    from it. A row that shows no fault on the path gives exit code 0.

    workbench shrink capture.safetensors --row 2 --path sglang.fast_topk
    workbench shrink capture.safetensors --row 2 --path sglang.fast_topk --output small.safetensors
    """
    from workbench.runs.shrink import shrink as shrink_row

    with open_file(file, naming, given) as capture:
        at = one_row(row, capture)
        notes = given.notes(capture)
        _apart(file, output)
        held = given.apply(capture[at])
        name = capture.info.path
        about = f"row {at} of {name}"
        with one_thread(), progress(f"shrinking row {at} of {capture.name}", held.length) as done:
            try:
                found = shrink_row(
                    held,
                    path,
                    variant,
                    seed=seed,
                    output=output,
                    overwrite=overwrite,
                    time_limit=time_limit,
                    progress=done,
                )
            except KeyboardInterrupt:
                if output is not None and Path(output).is_file():
                    complain(f"the smallest row so far is in {output}; the same command goes on from it")
                raise
    written = output if found.fault is not None else None
    if json:
        print_json(_document(found, about, name, at, notes, written))
    else:
        _print(found, about, notes, written)
    return CLEAN if found.fault is None else FOUND


def _apart(file: str, output: str | None) -> None:
    """Refuse to write over the capture that is read."""
    if output is None or "\0" in output or not os.path.exists(output):  # noqa: PTH110
        return
    if Path(output).samefile(file):
        raise UsageError(f"{output}: this is the capture that is read; name another file")


def _print(found: Shrunk, about: str, notes: list[str], written: str | None) -> None:
    from workbench.runs.law_words import law_notes
    from workbench.runs.sentence import shrunk_sentence

    say(shrunk_sentence(found, about), "bold")
    lines((f"note: {note}" for note in (*notes, *found.notes)), indent="")
    if found.fault is None:
        return
    say("")
    table(
        [Column("", "word"), Column("before"), Column("after")],
        [
            (name.replace("_", " "), _shown(name, one, found.before), _shown(name, other, found.after))
            for (name, one), other in zip(found.before.named.items(), found.after.named.values(), strict=True)
            if one is not None or other is not None
        ],
    )
    lines(law_notes([(found.path, found.after.risk.level, found.after.risk.clean_at_most)]), indent="")
    how = "a local minimum" if found.is_minimum else "stopped before the end"
    say(f"{counted(found.tried, 'candidate')} tried, {found.kept} kept: {how}, seed {found.seed}.")
    if written is None:
        say("The row was not kept: --output FILE writes it to a capture.")
    else:
        more = "" if found.is_minimum else "; the same command goes on from it"
        say(f"Written to {written}{more}.")


def _shown(name: str, value: object, figures: Figures) -> object:
    if name == "p_clean":
        return probability(figures.risk.p_clean, figures.risk.level)
    return number(value) if isinstance(value, int | float) else value


def _document(
    found: Shrunk, about: str, capture: str, row: int, notes: list[str], written: str | None
) -> dict[str, object]:
    from workbench.runs.sentence import shrunk_sentence

    return {
        "command": "shrink",
        "capture": capture,
        "row": row,
        "path": found.path,
        "variant": found.variant,
        "sentence": shrunk_sentence(found, about),
        "fault": found.fault,
        "before": found.before,
        "after": found.after,
        "call": found.row.call,
        "is_minimum": found.is_minimum,
        "route_held": found.route_held,
        "most_clean": found.most_clean,
        "tried": found.tried,
        "kept": found.kept,
        "seconds": found.seconds,
        "seed": found.seed,
        "notes": [*notes, *found.notes],
        "output": written,
    }
