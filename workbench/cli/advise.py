"""``workbench advise``: what would keep every winner of the rows of a capture or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, NOTHING_JUDGED, complain
from workbench.cli.folders import Below, is_folder_of_captures
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import Engine, Given, Json, Naming, Rows, one_thread, open_file, parse_rows, spread
from workbench.cli.tables import counted, lines, progress, say, table
from workbench.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from workbench.runs.advise import Advising
    from workbench.runs.remedy import Advice, Part, Remedy

SHOWN = 4  # remedies that are told in full
HOLDS = {True: "every length", False: "these rows", None: "not known"}


_OPTIONS = {"the op": "--op", "the release": "--release", "the device": "--device"}  # of needs; others bear their names


@spread
def advise(
    file: Annotated[
        str, typer.Argument(metavar="FILE|DIR", help="A capture, a dump that import reads, or a folder of them.")
    ],
    naming: Naming,
    given: Given,
    engine: Engine,
    row: Rows = None,
    json: Json = False,
) -> int:
    """Tell which releases, backends, ops, repairs, batches and inputs keep every winner of rows that can lose some.

    Each is held against every row by the risk over every arrival order. What it costs is told where it was measured.
    Exit code 0 if no row can lose a winner as it is, 1 if one can or did.

    workbench advise capture.safetensors
    workbench advise capture.safetensors --row 3 --release vllm==0.26.0 --device h200
    workbench advise dumps/ --op vllm.persistent_topk --release vllm==0.26.0 --device h200 --json
    """
    from workbench.runs.advise import Advising

    setup = engine.setup
    advising = Advising(given.op, given.release, given.device, given.k, setup if setup.given else None)
    bad = False
    if is_folder_of_captures(file):
        if row:
            raise UsageError(f"--row chooses a row of one capture, and {file} is a folder; name a capture of it")
        about, notes, bad = _read_folder(file, naming, given, advising)
    else:
        about, notes = _read_file(file, naming, given, row, advising)
    found = advising.advice()
    if json:
        print_json(_document(found, notes))
    else:
        _print(found, about, notes)
    if bad:
        return BAD
    if not found.judged:
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.at_risk else CLEAN


def _read_file(
    file: str, naming: Naming, given: Given, row: list[str] | None, advising: Advising
) -> tuple[str, list[str]]:
    with open_file(file, naming, given) as capture:
        numbers = parse_rows(row, len(capture))
        with one_thread(), progress(f"advising on {capture.name}", len(numbers)) as done:
            for at, number in enumerate(numbers, 1):
                advising.add(given.apply(capture[number]))
                done(at)
        return f"{counted(len(numbers), 'row')} of {capture.info.path}", given.notes(capture)


def _read_folder(file: str, naming: Naming, given: Given, advising: Advising) -> tuple[str, list[str], bool]:
    """Every row below a folder; what cannot be read is told, and whether there was any."""
    below = Below(file, naming, given)
    notes: dict[str, None] = {}
    read: dict[str, None] = {}
    at = 0
    with one_thread(), progress(f"advising on {file}", below.rows) as done:
        for name, capture in below.captures():
            try:
                for one in capture:
                    advising.add(given.apply(one))
                    read[name] = None
                    at += 1
                    done(at)
            except CaptureError as error:
                below.unread[name] = error.in_file
            notes |= dict.fromkeys(f"{name}: {note}" for note in given.notes(capture))
    below.complain()
    return f"{counted(at, 'row')} of {counted(len(read), 'file')} below {file}", list(notes), bool(below.unread)


def _document(found: Advice, notes: Sequence[str]) -> object:
    from workbench.runs.advise_words import advice_sentence, part_sentence, remedy_sentence

    return {
        "command": "advise",
        "sentence": advice_sentence(found),
        "at_risk": found.at_risk,
        "rows": found.rows,
        "notes": list(notes),
        "parts": [
            {
                **vars(part),
                "sentence": part_sentence(part),
                "remedies": [{**vars(one), "sentence": remedy_sentence(one)} for one in part.remedies],
            }
            for part in found.parts
        ],
    }


def _print(found: Advice, about: str, notes: Sequence[str]) -> None:
    from workbench.runs.advise_words import advice_sentence

    say(advice_sentence(found), "bold")
    say(about)
    lines((f"note: {note}" for note in notes), indent="")
    say("")
    for part in found.parts:
        if len(found.parts) > 1:
            say(f"{counted(part.now.rows, 'row')} of {part.op or 'an unknown op'}", "bold")
        _print_part(part)


def _print_part(part: Part) -> None:
    from workbench.runs.advise_words import remedy_sentence

    if part.needs:
        lines((f"to tell more, give {need}{_option(need)}" for need in part.needs), indent="")
        say("")
    keeping = part.keeping
    others = [one for one in part.remedies if not one.keeps]
    if part.op is not None and part.now.safe == part.now.rows:  # nothing to remedy; what would spoil it
        _print_others(others, "would not keep every winner")
        lines((f"note: {note}" for note in part.notes), indent="")
        return
    _print_keeping(keeping)
    for state in ("helps", "not known", "does not help"):
        _print_others([one for one in others if one.state == state], state)
    if keeping and part.now.losing:
        lines((f"{at}. {remedy_sentence(one)}" for at, one in enumerate(keeping[:SHOWN], 1)), indent="")
        more = len(part.remedies) - min(SHOWN, len(keeping))
        say(f"… --json tells the other {more} in full" if more else "")
    lines((f"note: {note}" for note in part.notes), indent="")


def _print_keeping(remedies: Sequence[Remedy]) -> None:
    from workbench.runs.advise_words import cost_text

    if remedies:
        columns = [Column("", "number"), Column("keeps every winner", "text"), Column("holds for", "word")]
        table(
            [*columns, Column("evidence", "word"), Column("time", "word")],
            [
                (at, one.what, HOLDS[one.lossless], one.evidence, cost_text(one.cost))
                for at, one in enumerate(remedies, 1)
            ],
        )


def _print_others(remedies: Sequence[Remedy], title: str) -> None:
    from workbench.runs.advise_words import kept_text, stands_text

    if remedies:
        columns = [Column(title, "text"), Column("keeps", "word"), Column("the others", "word")]
        table(
            [*columns, Column("evidence", "word")],
            [(one.what, kept_text(one.rows), stands_text(one.rows), one.evidence) for one in remedies],
        )


def _option(need: str) -> str:
    """The option that takes a need: `` (--op)``."""
    known = next((option for name, option in _OPTIONS.items() if need.startswith(name)), None)
    named = need.replace("_", "-") if need.isidentifier() else ""
    return f" ({known})" if known else f" (--{named})" if named else ""
