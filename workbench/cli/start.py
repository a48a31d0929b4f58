"""Where the program starts: Ctrl-C is one line from its first moment on, also while its commands are being imported."""

from __future__ import annotations

import contextlib
import signal
import sys
from types import FrameType

_LOOK_S = 0.001  # short: between two imports may lie little, and all that is left to do
interrupts: list[int] = []  # signals that came; what goes wrong after one is no defect


def main() -> None:
    """Run the program on ``sys.argv`` and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from workbench.cli.main import main as run

        run()
    except KeyboardInterrupt:
        heeded()
        if sys.stderr is not None:  # print would take stdout instead
            with contextlib.suppress(OSError):
                print("workbench: interrupted", file=sys.stderr, flush=True)
        sys.exit(128 + signal.SIGINT)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """As Python does it, but not within an import: what is imported swallows it and goes on without what it did not
    get, as torch does with NumPy, or aborts the process, as torch does too. It comes once the import is done, and a
    second one at once."""
    interrupts.append(number)
    if _imports(frame) and len(interrupts) == 1:
        signal.signal(signal.SIGALRM, _interrupt_again)
        signal.setitimer(signal.ITIMER_REAL, _LOOK_S)
    else:
        signal.default_int_handler(number, frame)


def _interrupt_again(number: int, frame: FrameType | None) -> None:
    if _imports(frame) or _is_handled(sys.exception()):
        signal.setitimer(signal.ITIMER_REAL, _LOOK_S)
    else:
        signal.default_int_handler(signal.SIGINT, frame)


def heeded() -> None:
    """What was interrupted ends: nothing comes again."""
    if interrupts:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _imports(frame: FrameType | None) -> bool:
    """Whether an import is under way where a signal came."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_handled(error: BaseException | None) -> bool:
    """Whether what is being handled is an interrupt, or came of one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
