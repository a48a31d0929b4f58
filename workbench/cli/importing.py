"""``workbench import``: dumps of other tools as one capture."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.exits import CLEAN
from workbench.cli.jsonout import print_json
from workbench.cli.options import Given, Json, Naming, open_file, spread
from workbench.cli.tables import counted, facts, lines, progress, say
from workbench.errors import UsageError
from workbench.targets import check_target
from workbench.words import UNKNOWN

if TYPE_CHECKING:
    from workbench.capture import Capture, CaptureInfo

CURE = "give --force"
SHOWN = 10
FIELDS = ("k", "step", "layer", "rank")  # of calls, as people ask for them


@spread
def import_(
    sources: Annotated[list[str], typer.Argument(metavar="SRC", help="Dumps, files or folders, in order.")],
    naming: Naming,
    given: Given,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="The capture to write, *.safetensors.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    json: Json = False,
) -> int:
    """Make one capture of dumps: of torch.save, NumPy, SGLang's dumper, FlashInfer's level-10 logs, FlashInfer-Trace
    workloads and other safetensors files.

    Scores, lengths, starts, indices and k are found by the names that such dumps use, or named by options. No code of
    a dump is run, nothing outside a given folder is read, and what a dump does not say stays unknown. Every command
    opens dumps directly too.

    workbench import dump/ -o capture.safetensors
    workbench import step0.pt step1.pt -o capture.safetensors --scores logits --lengths seq_lens --k 2048
    """
    if output is None:
        raise UsageError("name the capture to write (-o capture.safetensors)")
    if given.changes:
        raise UsageError(f"{_option(next(iter(given.changes)))} is not stored by import; give it where rows are judged")
    check_target(Path(output), output, overwrite=force, cure=CURE)
    from workbench.capture import write_capture
    from workbench.capture.joined import join

    with ExitStack() as stack:
        captures = [stack.enter_context(open_file(source, naming, given)) for source in sources]
        for source in sources:
            _apart(source, output)
        total = 2 * sum(map(len, captures))  # written, then read back
        done = stack.enter_context(progress(f"writing {output}", total))
        count = 0

        def seen(_: int) -> None:
            nonlocal count
            count += 1
            done(count)

        joined = join(captures, seen)
        info = write_capture(output, joined, source=_source(sources, captures), overwrite=force)
        document = _document(output, info, joined, captures)
    if json:
        print_json(document)
    else:
        _print(document)
    return CLEAN


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _apart(source: str, output: str) -> None:
    """Refuse to write over what is read."""
    if os.path.exists(output) and Path(output).samefile(source):  # noqa: PTH110
        raise UsageError(f"{output}: this is what is read; name another file")


def _source(sources: list[str], captures: list[Capture]) -> str:
    """How the capture was made; what a capture of the workbench says of itself goes on."""
    listed = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
    before = captures[0].info.source if len(captures) == 1 else None
    return f"workbench import of {listed} ({captures[0].info.format})" + (f"; {before}" if before else "")


def _document(output: str, info: CaptureInfo, joined: Capture, captures: list[Capture]) -> dict[str, Any]:
    known: dict[str, Any] = {name: joined.call_values(name) for name in FIELDS}
    strings = {name: value for name, value in info.strings.items() if value is not None}
    unknown = [name for name, values in known.items() if values == [None]]
    return {
        "command": "import",
        "file": output,
        "rows": info.rows,
        "calls": info.calls,
        "dtype": info.dtype,
        "layout": info.layout,
        "width": info.width,
        "length_min": info.length_min,
        "length_max": info.length_max,
        "recorded": info.recorded,
        "known": {name: values for name, values in known.items() if name not in unknown} | strings,
        "unknown": [*unknown, *(name for name, value in info.strings.items() if value is None)],
        "sources": [
            {
                "path": capture.info.path,
                "format": capture.info.format,
                "rows": capture.info.rows,
                "calls": capture.info.calls,
                "used": capture.info.used,
                "left": capture.info.left,
                "notes": capture.info.notes,
            }
            for capture in captures
        ],
    }


def _print(document: dict[str, Any]) -> None:
    say(
        f"Wrote {counted(document['rows'], 'row')} of {counted(document['calls'], 'call')} to {document['file']}.",
        "bold",
    )
    least, most = document["length_min"], document["length_max"]
    known = {name: _values(values) for name, values in document["known"].items()}
    facts(
        [
            ("scores", f"{document['dtype']}, {document['layout']}, width {document['width']}"),
            ("lengths", str(least) if least == most else f"{least} to {most}"),
            ("recorded", "selections of every row" if document["recorded"] else "no selections"),
            *known.items(),
            (UNKNOWN, ", ".join(document["unknown"]) or "nothing"),
        ]
    )
    for source in document["sources"]:
        say("")
        say(f"{source['path']} ({source['format']}): {counted(source['rows'], 'row')}", "bold")
        lines(source["notes"])
        if not source["left"]:
            lines(["nothing is left"])
            continue
        lines([f"left, {counted(len(source['left']), 'part')}:"])
        lines(source["left"][:SHOWN], indent="    ")
        if len(source["left"]) > SHOWN:
            lines([f"… and {len(source['left']) - SHOWN} more; --json lists them"], indent="    ")


def _values(values: object) -> str:
    if not isinstance(values, list):
        return str(values)
    known = [value for value in values if value is not None]
    text = ", ".join(map(str, known[:8])) + (", …" if len(known) > 8 else "")
    return text if None not in values else f"{text}, unknown for some calls"
