"""How a process ended, in words."""

from __future__ import annotations

import signal
from collections.abc import Iterable

LAST_CHARACTERS = 300


def ending(code: int | None, last: Iterable[bytes] = ()) -> str:
    """How a process ended, in words, with the last line that it printed.

    Args:
        code: as ``subprocess`` numbers it; ``None`` where the process goes on.
    """
    if code is None:
        what = "the process closed its connection and goes on"
    elif code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        what = f"the process ended by signal {-code} ({name})"
    else:
        what = f"the process ended with exit code {code}"
    lines = [line.decode(errors="replace").strip() for line in last]
    said = next((line for line in reversed(lines) if line), "")
    return f"{what}; it printed last: {said[:LAST_CHARACTERS]}" if said else what
