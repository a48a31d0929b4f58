"""``workbench export``: a row as a fixture file and a test that catches the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import CLEAN
from workbench.cli.jsonout import print_json
from workbench.cli.options import File, Given, Json, Naming, Rows, one_thread, open_file, parse_rows, spread
from workbench.cli.tables import counted, facts, lines, say
from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.export.writing import Exported


@spread
def export(
    file: File,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Folder for the files; made where it is not there.")],
    naming: Naming,
    given: Given,
    row: Rows = None,
    style: Annotated[str, typer.Option(metavar="STYLE", help="pytest, vllm, sglang or flashinfer-trace.")] = "pytest",
    path: Annotated[
        str | None, typer.Option(metavar="PATH", help="What loses, as in vllm.filtered; by default the reached path.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Of the path; by default that of the release, else stock.")
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="What the test runs (style pytest): called with scores and k, gives indices.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the fixture, in place of a worked-out one.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Where the row comes from; what the capture says is left out.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--force", help="Replace files that are there already with other content.")
    ] = False,
    json: Json = False,
) -> int:
    """Write a row that breaks a selector as a fixture and a test that catches the loss.

    The test is run before it is written: it must pass on selectors that lose nothing and fail on the model of the one
    that does. A row that nothing is lost of, or too seldom for 1000 calls to show it, is refused (exit code 2).

    workbench export capture.safetensors --row 3 --to tests/topk
    workbench export capture.safetensors --row 3 --to tests/topk --path vllm.filtered --selector mypackage.topk:select
    workbench export capture.safetensors --row 3 --to tests/kernels --style vllm
    """
    from workbench.export.writing import export_row

    with open_file(file, naming, given) as capture, one_thread():
        numbers = parse_rows(row, len(capture))
        if len(numbers) != 1:
            raise UsageError(f"one row is exported at a time, and {len(numbers)} are meant; choose one with --row")
        done = export_row(
            given.apply(capture[numbers[0]]),
            to=to,
            style=style,
            path=path,
            variant=variant,
            op=given.op,
            release=given.release,
            device=given.device,
            k=given.k,
            selector=selector,
            name=name,
            source=source,
            overwrite=overwrite,
        )
        notes = given.notes(capture)
    if json:
        print_json(
            {"command": "export", "capture": capture.info.path, "notes": notes, "row": numbers[0], **_document(done)}
        )
    else:
        _print(done, notes, selector)
    return CLEAN


def _document(done: Exported) -> dict[str, object]:
    texts = {"files": done.files, "unchanged": done.unchanged}
    listed: dict[str, object] = {name: [str(one) for one in paths] for name, paths in texts.items()}
    fields = ("style", "path", "variant", "risk", "p_clean", "repeats", "missing", "orders", "proved", "run")
    return {**listed, **{name: getattr(done, name) for name in fields}}


def _print(done: Exported, notes: list[str], selector: str | None) -> None:
    new = len(done.files) - len(done.unchanged)
    say(f"Wrote {counted(new, 'file')}." if new else "Nothing to write: the files are there already.", "bold")
    for one in done.files:
        say(f"  {one}{' (as it was)' if one in done.unchanged else ''}")
    lines((f"note: {note}" for note in notes), indent="")
    facts(
        [
            ("loses", f"the model of {done.path} ({done.variant}), {done.risk}; {done.missing} missing {done.orders}"),
            ("calls", f"{done.repeats}. {done.why}"),
            ("proved", ", ".join(done.proved)),
        ]
    )
    if done.run:
        say("Run it with:")
        say(f"  {done.run}")
    if done.style == "pytest" and selector is None:
        say("As it is written, select() calls torch.topk, which loses nothing: name your selector in --selector.")
