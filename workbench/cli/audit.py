"""``workbench audit``: every row of many captures, kept as a dataset."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.aliases import Command
from workbench.cli.audit_compare import compare
from workbench.cli.audit_report import print_tables, report, summary_of
from workbench.cli.exits import BAD, CLEAN, EXIT_CODES, FOUND, NOTHING_JUDGED, complain, printable
from workbench.cli.flags import Group
from workbench.cli.jsonout import print_json
from workbench.cli.options import INT32, Json, Naming, integer, spread
from workbench.cli.tables import console, counted, lines, say
from workbench.words import few

if TYPE_CHECKING:
    from workbench.audit.front import Audited, Progress
    from workbench.audit.summary import Summary

CALL = "The calls (these stand over what captures say)"
HOW = "How the work is done (the dataset is the same)"
MOST_WORKERS = 4096
TOP = 5  # worst rows that are shown


def audit(
    what: Annotated[
        list[str], typer.Argument(metavar="DIR", help="Folders, searched to their depth, or captures and dumps.")
    ],
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help="The folder of the dataset.")],
    naming: Naming,
    paths: Annotated[str, typer.Option(metavar="GLOB", help="Paths that rows are judged on.")] = "*",
    k: Annotated[int | None, typer.Option(**integer(1, INT32), help="Winners wanted.", rich_help_panel=CALL)] = None,
    op: Annotated[
        str | None, typer.Option(metavar="OP", help="As in vllm.persistent_topk.", rich_help_panel=CALL)
    ] = None,
    release: Annotated[
        str | None, typer.Option(metavar="RELEASE", help="As in vllm==0.26.0.", rich_help_panel=CALL)
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="DEVICE", help="As in h200.", rich_help_panel=CALL)] = None,
    executor: Annotated[
        str, typer.Option(metavar="serial|processes|ray", help="Where rows are audited.", rich_help_panel=HOW)
    ] = "processes",
    workers: Annotated[
        int | None,
        typer.Option(**integer(1, MOST_WORKERS), help="How many; by default one a core.", rich_help_panel=HOW),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of the Ray cluster.", rich_help_panel=HOW)
    ] = None,
    gpus: Annotated[
        bool, typer.Option("--gpus", help="Judge rows on GPUs, by one worker on each.", rich_help_panel=HOW)
    ] = False,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="That all of it may take, as in 8GiB: fewer workers start where they need more.",
            rich_help_panel=HOW,
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Judge every row of a folder of captures, and keep what was found as a Parquet dataset: a line a row and path.

    An audit that was stopped, however that was, goes on when the same command is given again. Files that cannot be
    read are told in the manifest and give exit code 2, whatever else was found; otherwise rows that tell of a loss, a
    risk or a harm give 1.

    workbench audit dumps/ -o audited
    workbench audit dumps/ -o audited --op vllm.persistent_topk --release vllm==0.26.0 --device h200
    workbench audit rank0/ rank1/ -o audited --executor processes --workers 8 --max-memory 16GiB
    """
    from workbench.audit.dataset import Dataset
    from workbench.audit.front import audit as run_audit
    from workbench.audit.words import audit_sentence

    with _shown(out) as shown:
        found = run_audit(
            what,
            out,
            paths=paths,
            op=op,
            release=release,
            device=device,
            k=k,
            **vars(naming),
            executor=executor,
            workers=workers,
            address=address,
            gpus=gpus,
            max_memory=max_memory,
            progress=shown,
        )
    if found.appeared:
        complain(
            f"{counted(len(found.appeared), 'file')} appeared since the audit was planned ({few(found.appeared)}); "
            "audit them into another folder"
        )
    summary = summary_of(Dataset(out), TOP)
    if json:
        print_json({"command": "audit", "sentence": audit_sentence(summary), "audited": found})
    else:
        _print_found(summary)
    return _code(found)


def _print_found(found: Summary) -> None:
    """The sentence, what makes a route known, the worst rows and the paths that have some, and where more is."""
    from workbench.audit.tables import found_tables
    from workbench.audit.words import about_words, audit_sentence, route_cure

    say(audit_sentence(found), "bold")
    lines(filter(None, (route_cure(found), about_words(found))), indent="")
    say("")
    print_tables(found_tables(found))
    say(f"The records are in {found.name}/records; workbench audit report {quote(found.name)} shows more")


def _code(found: Audited) -> int:
    if found.failed_files:
        complain(f"{counted(found.failed_files, 'file')} could not be read to the end; the manifest says why")
        return BAD
    if not found.judged_rows:
        complain(NOTHING_JUDGED)
        return BAD
    return FOUND if found.found_rows else CLEAN


@contextmanager
def _shown(out: str) -> Iterator[Callable[[Progress], None]]:
    """Progress on stderr; where the audit is stopped, how to go on."""
    last: list[Progress] = []
    try:
        with _bar() as show:

            def keep(at: Progress) -> None:
                last[:] = [at]
                show(at)

            yield keep
    except (KeyboardInterrupt, OSError):
        if last and last[0].planned:
            done, units = last[0].units
            complain(f"{out} keeps {done} of {counted(units, 'unit')}; the same command goes on from there")
        raise


@contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    if not sys.stderr.isatty():
        yield lambda at: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking at files", total=None)

        def show(at: Any) -> None:
            if not at.planned:
                bar.update(task, description=f"looking at files: {at.files}")
                return
            rows, failed = at.rows, f", {at.failed} failed" if at.failed else ""
            bar.update(
                task,
                description=printable(f"row {rows[0]} of {rows[1]}{failed}"),
                completed=at.bytes[0],
                total=max(at.bytes[1], 1),
            )

        yield show


COMMANDS: dict[str, Callable[..., int]] = {"report": report, "compare": compare}


class AuditCommands(Group):
    """A group with a command that is meant where none is named: ``audit DIR`` beside ``audit report OUT``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the command where none is named."""
        return super().parse_args(ctx, args if args and args[0] in COMMANDS else [audit.__name__, *args])


class Unnamed(Command):
    """The command of a group that goes by the group's name, in messages too."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """In place of the group."""
        return super().make_context(parent.info_name, args, parent=parent.parent, **extra)


def build(help_of: Callable[[Callable[..., int]], str]) -> typer.Typer:
    """The group; its help, and that of its commands, is laid out by ``help_of``."""
    group = typer.Typer(cls=AuditCommands, help=help_of(audit), rich_markup_mode="rich", epilog=EXIT_CODES)
    group.command(audit.__name__, cls=Unnamed, help=help_of(audit), epilog=EXIT_CODES)(spread(audit))
    for name, command in COMMANDS.items():
        group.command(name, cls=Command, help=help_of(command), epilog=EXIT_CODES)(command)
    return group
