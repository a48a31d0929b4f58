"""What a recorder says while the program runs: warnings, each once."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings


class RecordWarning(UserWarning):
    """Recording stopped or saw less than it was asked for; the program goes on."""


class Warnings:
    """The warnings of a recorder, by all threads of a process. A process that is forked makes its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._said: set[str] = set()

    def __call__(self, message: str) -> None:
        """Say something once, as a warning, or on stderr where warnings are errors."""
        with self._lock:
            if message in self._said:
                return
            self._said.add(message)
        try:
            warnings.warn(f"workbench: {message}", RecordWarning, stacklevel=2)
        except RecordWarning:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                print(f"workbench: {message}", file=sys.stderr, flush=True)
