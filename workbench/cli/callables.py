"""Callables that a command line names: each runs in a process of its own, and what it prints goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from workbench.cli.exits import printable

if TYPE_CHECKING:
    from workbench.engines.named import NamedEngine

ECHO_BYTES = 1 << 16  # of what a callable prints


@contextmanager
def opened_callables(
    names: Sequence[str], imports: Sequence[str] = (), cuda: bool = False, timeout: float | None = None
) -> Iterator[list[NamedEngine]]:
    """The engines of callables, until the block ends.

    Args:
        imports: modules that are imported before. cuda: whether they are handed their tensors on the GPU.
        timeout: seconds that one call may take.

    Raises:
        UsageError: a callable that cannot be had.
    """
    if not names:
        yield []
        return
    from workbench.engines.named import named_engine

    with ExitStack() as stack:
        device = "cuda" if cuda else None
        yield [
            stack.enter_context(named_engine(name, device, call_s=timeout, imports=imports, heard=_echo(name)))
            for name in names
        ]


def _echo(name: str) -> Callable[[bytes], None]:
    """Passes what a callable prints on to stderr, up to a limit."""
    left = ECHO_BYTES

    def heard(printed: bytes) -> None:
        nonlocal left
        if left <= 0 or sys.stderr is None:
            return
        left -= len(printed)
        text = printed.decode(errors="replace")
        if left <= 0:
            text += f"\nworkbench: {printable(name)} prints more than {ECHO_BYTES} bytes; the rest is not shown\n"
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()

    return heard
