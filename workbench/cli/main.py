"""The program ``workbench``: its commands, and how errors become one line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from workbench.cli.app import app as app_command
from workbench.cli.exits import BAD, CLEAN, EXIT_CODES, INTERRUPTED, PIPE_CLOSED, complain
from workbench.cli.info import info
from workbench.cli.inspect import inspect
from workbench.cli.paths import paths
from workbench.cli.route import route
from workbench.cli.run import run
from workbench.errors import WorkbenchError

# What Typer raises on a wrong command line: Click's own class, or the one of the Click that Typer carries within.
UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Commands(TyperGroup):
    """A group whose commands return their exit code, and whose errors are one line on stderr."""

    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run; with ``standalone_mode`` exit with the code, else return it."""
        try:
            code = super().main(args, standalone_mode=False, **extra) or CLEAN
        except UsageProblem as error:
            complain(_usage(error))
            code = BAD
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: Any) -> Any:
        """Carry out a command line that was understood."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except WorkbenchError as error:
            complain(str(error))
            return BAD
        except KeyboardInterrupt:
            complain("interrupted")
            return INTERRUPTED
        except OSError as error:
            _abandon_stdout()
            if error.errno == errno.EPIPE:
                return PIPE_CLOSED
            where = f"{error.filename}: " if error.filename else ""
            complain(f"{where}{error.strerror or error}")
            return BAD
        return code


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message} (see: {context.command_path} --help)" if context is not None else message


def _abandon_stdout() -> None:
    """Point stdout elsewhere if it takes no more, so that the interpreter does not complain about it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor has nobody to complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    return "\n\n".join(text if text.startswith("workbench ") else text.replace("\n", " ") for text in paragraphs)


for _command in (info, inspect, paths, route, run, app_command):
    app.command(help=_help(_command), epilog=EXIT_CODES)(_command)


def main() -> None:
    """Run the program on ``sys.argv`` and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a narrow encoding must not end in a traceback
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="workbench")
