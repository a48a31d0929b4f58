"""Where the program starts: Ctrl-C is one line from its first moment on, also while its commands are being imported."""

from __future__ import annotations

import contextlib
import signal
import sys
from types import FrameType

interrupts: list[int] = []  # signals that came; what goes wrong after one is no defect


def main() -> None:
    """Run the program on ``sys.argv`` and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from workbench.cli.main import main as run
    except KeyboardInterrupt:
        if sys.stderr is not None:  # print would take stdout instead
            with contextlib.suppress(OSError):
                print("workbench: interrupted", file=sys.stderr, flush=True)
        sys.exit(128 + signal.SIGINT)
    run()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Python does it, but kept in mind: libraries swallow it while they are imported, and break later for it."""
    interrupts.append(number)
    signal.default_int_handler(number, frame)
