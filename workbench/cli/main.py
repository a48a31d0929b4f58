"""The program ``workbench``: its commands, and how errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Annotated, Any

import typer

from workbench.cli.advise import advise
from workbench.cli.aliases import Command
from workbench.cli.app import app as app_command
from workbench.cli.audit import build as build_audit
from workbench.cli.bench import build as build_bench
from workbench.cli.bisect_release import bisect_release
from workbench.cli.diverge import diverge
from workbench.cli.doctor import doctor
from workbench.cli.exits import BAD, CLEAN, EXIT_CODES, INTERRUPTED, PIPE_CLOSED, abandon, complain, guarded
from workbench.cli.export import export
from workbench.cli.flags import Group
from workbench.cli.importing import import_
from workbench.cli.info import info
from workbench.cli.inspect import inspect
from workbench.cli.make import make
from workbench.cli.paths import paths
from workbench.cli.record import EXIT_CODES as RECORD_EXIT_CODES
from workbench.cli.record import record
from workbench.cli.repeat import repeat
from workbench.cli.route import route
from workbench.cli.run import run
from workbench.cli.shrink import shrink
from workbench.cli.start import heeded
from workbench.cli.vendor import build as build_vendor
from workbench.cli.what_if import what_if

HELP = 98  # letters on a line of help at 100 columns
_MORE = " \\"  # at the end of a line of a command that goes on


class Commands(Group):
    """A group whose commands return their exit code, and whose errors are one line on stderr."""

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run; with ``standalone_mode`` exit with the code, else return it."""
        run_group = super().main
        try:
            code = guarded(lambda: run_group(args, standalone_mode=False, **extra))
        except SystemExit:  # Typer's answer to a pipe that closes while help is printed
            code = PIPE_CLOSED
        abandon(sys.stdout)
        if standalone_mode:
            sys.exit(code)
        return code

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Understand a command line."""
        try:
            return super().make_context(*args, **extra)
        except KeyboardInterrupt:  # Typer says nothing of it
            raise typer.Abort from None

    def invoke(self, ctx: Any) -> Any:
        """Carry out a command line that was understood."""
        invoke_group = super().invoke
        return guarded(lambda: invoke_group(ctx))  # here already: outside, Typer makes 1 of a closed pipe


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"workbench {sys.modules['workbench'].__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def workbench(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> int:
    """Captured score rows, the top-k selectors of serving engines beside an exact reference, and why a row breaks them.

    Start with a capture:

    workbench info capture.safetensors
    workbench inspect capture.safetensors
    workbench app capture.safetensors

    Every command takes --json and then prints one JSON document and nothing else on stdout.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
        return BAD
    return CLEAN


def _help(command: Callable[..., int]) -> str:
    """A command's docstring, its prose free to wrap and its examples on lines of their own."""
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        "\n".join(map(_example, text.split("\n"))) if text.startswith("workbench ") else text.replace("\n", " ")
        for text in paragraphs
    )


def _example(command: str) -> str:
    """An example that can be copied where it does not fit a line: broken before an option, as shells take it."""
    if len(command) <= HELP:
        return command
    lines = [""]
    for at, part in enumerate(command.split(" --")):
        part = f" --{part}" if at else part
        if len(lines[-1] + part + _MORE) > HELP:
            lines.append("   ")
        lines[-1] += part
    return f"{_MORE}\n".join(lines)


_COMMANDS = (
    info,
    inspect,
    paths,
    route,
    run,
    repeat,
    bisect_release,
    diverge,
    advise,
    make,
    import_,
    record,
    what_if,
    shrink,
    export,
    doctor,
    app_command,
)
for _command in _COMMANDS:
    _name = _command.__name__.rstrip("_").replace("_", "-")
    _epilog = RECORD_EXIT_CODES if _command is record else EXIT_CODES
    app.command(_name, cls=Command, help=_help(_command), epilog=_epilog)(_command)
app.add_typer(build_audit(_help), name="audit")
app.add_typer(build_bench(_help), name="bench")
app.add_typer(build_vendor(_help), name="vendor")


def main() -> None:
    """Run the program on ``sys.argv`` and exit with its code."""
    try:
        _open_streams()
        app(prog_name="workbench")
    except KeyboardInterrupt:  # before a command began, or while an error was being said
        heeded()
        complain("interrupted")
        sys.exit(INTERRUPTED)


def _open_streams() -> None:
    """Give every standard stream somewhere to go, and keep a narrow encoding from ending in a traceback."""
    while True:  # no file that is opened later may take the number of a closed stream
        number = os.open(os.devnull, os.O_RDWR)
        if number > 2:
            os.close(number)
            break
        os.set_inheritable(number, True)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
