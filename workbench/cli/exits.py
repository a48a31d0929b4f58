"""What the command line exits with, and how whatever goes wrong becomes one line and such a code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO

import typer

from workbench.cli.start import heeded, interrupts
from workbench.errors import WorkbenchError
from workbench.words import because

CLEAN = 0
FOUND = 1
BAD = 2
DEFECT = 70
INTERRUPTED = 130
PIPE_CLOSED = 141  # as a shell shows a program that SIGPIPE ended: neither "nothing lost" nor "a loss"

NOTHING_JUDGED = "nothing was judged, so that this says nothing of what is lost"

EXIT_CODES = (
    "Exit codes: 0 nothing lost · 1 a loss, a risk or a divergence found · 2 bad input or usage, or nothing judged · "
    "70 internal error"
)
TRACEBACK = "WORKBENCH_TRACEBACK"

# What Typer raises on a wrong command line: Click's own class, or the one of the Click that Typer carries within.
UsageProblem: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_OUT_OF_MEMORY = re.compile(r"can(?:'t|not) allocate memory|not enough memory|out of memory", re.IGNORECASE)
_ASKED_FOR = re.compile(r"allocate ([\d.]+ ?\w+)")


def printable(text: str) -> str:
    """Text on one line without control characters, which could rewrite the terminal; those are spelled out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def complain(message: str) -> None:
    """Print one line on stderr, as in ``workbench: no such file``; where stderr takes nothing, nowhere."""
    if sys.stderr is None:  # print would take stdout instead
        return
    try:
        print(f"workbench: {printable(message)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        abandon(sys.stderr)


def guarded(work: Callable[[], int | None]) -> int:
    """Do something; the exit code that it returns, or that of what went wrong, which is said in one line.

    Raises:
        typer.Exit: work ends so, as after --help.
    """
    try:
        code = work() or CLEAN
        if sys.stdout is not None:
            sys.stdout.flush()
    except typer.Exit:
        raise
    except UsageProblem as error:
        complain(_usage(error))
    except WorkbenchError as error:
        complain(str(error))
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return INTERRUPTED
    except OSError as error:
        abandon(sys.stdout)
        if error.errno == errno.EPIPE:
            return PIPE_CLOSED
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{because(error)}")
    except Exception as error:
        if interrupts:
            complain("interrupted")
            return INTERRUPTED
        if (reason := out_of_memory(error)) is not None:
            complain(reason)
            return BAD
        return _defect(error)
    else:
        return code
    finally:
        heeded()
    return BAD


def out_of_memory(error: Exception) -> str | None:
    """``not enough memory``, and how much was asked for, if that is what the error says; else ``None``."""
    text = str(error)
    if not isinstance(error, MemoryError) and not (isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(text)):
        return None
    asked = _ASKED_FOR.search(text)
    return "not enough memory" + (f": {asked[1]} were asked for" if asked else "")


def abandon(stream: TextIO | None) -> None:
    """Point a stream elsewhere if it takes no more, so that the interpreter does not complain about it at exit."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor has nobody to complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[union-attr]


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message} (see: {context.command_path} --help)" if context is not None else message


def _defect(error: Exception) -> int:
    """Own up to an error of the workbench itself."""
    what = f"internal error: {type(error).__name__}: {' '.join(str(error).split())}"
    if os.environ.get(TRACEBACK):
        complain(what)
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exception(error, file=sys.stderr)
    else:
        complain(f"{what}; set {TRACEBACK}=1 to see where")
    return DEFECT
