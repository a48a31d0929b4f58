"""``workbench info``: what captures hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, complain
from workbench.cli.jsonout import plain, print_json
from workbench.cli.options import Files, Given, Json, Naming, open_file, spread
from workbench.cli.tables import counted, facts, lines, progress, say
from workbench.errors import CaptureError
from workbench.words import UNKNOWN

if TYPE_CHECKING:
    from workbench.capture import Capture

TENSORS_SHOWN = 20


@spread
def info(
    files: Files,
    naming: Naming,
    given: Given,
    verify: Annotated[bool, typer.Option("--verify", help="Read everything and list every problem.")] = False,
    json: Json = False,
) -> int:
    """Say what captures hold, without reading a score.

    A file that cannot be read does not hide the others; the exit code is then 2, as for a problem that --verify finds.

    workbench info capture.safetensors
    workbench info --verify captures/*.safetensors
    workbench info dump.safetensors --scores "layers.*.logits" --k 2048
    """
    documents: list[object] = []
    errors: list[str] = []
    damaged = False
    for file in files:
        try:
            with open_file(file, naming, given) as capture:
                problems = _verify(capture) if verify else None
                damaged |= bool(problems)
                if json:
                    documents.append(_document(capture, given, problems))
                else:
                    _print(capture, given, problems, many=len(files) > 1)
        except CaptureError as error:
            complain(str(error))
            errors.append(str(error))
    if json:
        print_json({"command": "info", "captures": documents, "errors": errors})
    return BAD if errors or damaged else CLEAN


def _verify(capture: Capture) -> list[str]:
    with progress(f"verifying {capture.name}", len(capture)) as done:
        return capture.verify(lambda rows, _: done(rows))


def _document(capture: Capture, given: Given, problems: list[str] | None) -> object:
    about = plain(capture.info)
    assert isinstance(about, dict)
    about["tensors"] = [
        {"name": name, "dtype": dtype, "shape": list(shape)} for name, dtype, shape in capture.info.tensors
    ]
    about["notes"] = given.notes(capture)
    return {"name": capture.name, **about, "problems": problems}


def _print(capture: Capture, given: Given, problems: list[str] | None, many: bool) -> None:
    about = capture.info
    lengths = str(about.length_min)
    if about.length_max != about.length_min:
        lengths += f" to {about.length_max}"
    if about.outside:
        lengths += (
            f"; {counted(about.outside, 'row')} with a length outside {'its' if about.outside == 1 else 'their'} row"
        )
    facts(
        [
            ("file", about.path),
            ("format", about.format),
            ("size", _size(about.size_bytes)),
            ("rows", f"{about.rows} in {counted(about.calls, 'call')}"),
            ("scores", f"{about.dtype}, {about.layout}, width {about.width}"),
            ("lengths", lengths),
            ("k", _ks(capture)),
            ("recorded", recorded(capture)),
            ("tokens", _tokens(capture)),
            *((name, UNKNOWN if value is None else value) for name, value in about.strings.items()),
            ("source", UNKNOWN if about.source is None else about.source),
            *(("note", note) for note in given.notes(capture)),
            *(
                ("tensor" if at == 0 else "", f"{name} {dtype} {list(shape)}")
                for at, (name, dtype, shape) in enumerate(about.tensors[:TENSORS_SHOWN])
            ),
        ]
    )
    if len(about.tensors) > TENSORS_SHOWN:
        say(f"… and {len(about.tensors) - TENSORS_SHOWN} more tensors; --json lists all")
    if problems is not None:
        say(f"{counted(len(problems), 'problem')} found." if problems else "Verified: everything was read, no problem.")
        lines(problems)
    if many:
        say("")


def recorded(capture: Capture) -> str:
    """Which rows have a recorded selection, in words."""
    if not capture.info.recorded:
        return "no selections"
    if capture.info.format.startswith("workbench"):  # a file of them holds all or none
        returned = capture.info.returned
        return "selections of every row" + ("" if returned == "raw" else f", returned: {returned}")
    calls = [capture.rows_of(number) for number in range(capture.info.calls)]
    held = sum(bool(rows) and capture.slots_of(rows[0]) is not None for rows in calls)
    return "selections of every row" if held == len(calls) else f"selections of {held} of {len(calls)} calls"


def _ks(capture: Capture) -> str:
    values = set(capture.call_values("k"))
    known = sorted(value for value in values if value is not None)
    listed = ", ".join(map(str, known[:8])) + (", …" if len(known) > 8 else "")
    if None in values:
        return f"{listed}, unknown for some calls" if listed else UNKNOWN
    return listed


def _tokens(capture: Capture) -> str:
    tokens = capture.tokens
    if not tokens:
        return "none"
    first, last = int(tokens.steps.min()), int(tokens.steps.max())
    at = f"step {first}" if first == last else f"steps {first} to {last}"
    logits = "no logits" if tokens.vocab is None else f"{tokens.dtype} logits over {tokens.vocab}"
    unknown = int((tokens.chosen == -1).sum())
    chosen = f", {unknown} unknown" if unknown else ""
    return f"{len(tokens)} of {at}, {logits}{chosen}"


def _size(size: int) -> str:
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit} ({size} bytes)"
