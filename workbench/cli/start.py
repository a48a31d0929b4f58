"""Where the program starts: Ctrl-C is one line from its first moment on, also while its commands are being imported."""

from __future__ import annotations

import contextlib
import signal
import sys


def main() -> None:
    """Run the program on ``sys.argv`` and exit with its code."""
    try:
        from workbench.cli.main import main as run
    except KeyboardInterrupt:
        if sys.stderr is not None:  # print would take stdout instead
            with contextlib.suppress(OSError):
                print("workbench: interrupted", file=sys.stderr, flush=True)
        sys.exit(128 + signal.SIGINT)
    run()
