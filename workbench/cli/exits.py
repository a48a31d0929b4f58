"""What the command line exits with, and the one line that an error is."""

from __future__ import annotations

import sys

CLEAN = 0
FOUND = 1
BAD = 2
INTERRUPTED = 130
PIPE_CLOSED = 141  # as a shell shows a program that SIGPIPE ended: neither "nothing lost" nor "a loss"

EXIT_CODES = "Exit codes: 0 nothing lost · 1 a loss or a risk found · 2 bad input or usage"


def printable(text: str) -> str:
    """Text on one line without control characters, which could rewrite the terminal; those are spelled out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def complain(message: str) -> None:
    """Print one line on stderr, as in ``workbench: no such file``."""
    print(f"workbench: {printable(message)}", file=sys.stderr, flush=True)
