"""What an executor is: it runs a task over units, in any order, and loses none of them silently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

U = TypeVar("U")
R = TypeVar("R")
U_in = TypeVar("U_in", contravariant=True)
R_out = TypeVar("R_out", covariant=True)


class Task(Protocol[U_in, R_out]):
    """What every worker does, small and picklable; opened once in each worker, so that it can hold what is dear."""

    def open(self, worker: int) -> Callable[[U_in], R_out]:
        """What works off one unit, for worker ``worker`` (0 to workers - 1); it may hold files and compiled kernels.

        What it returns is picklable. An exception of it is no result: it ends the run.
        """


@dataclass(frozen=True)
class Lost(Generic[U]):
    """A unit that no worker returned: each that took it died, or took too long. ``reason`` says how, in words."""

    unit: U
    reason: str


class Executor(Protocol):
    """Runs a task over units. A context manager; leaving it, at the end or by an exception, ends its workers.

    Attributes:
        name: as the command line has it, ``serial``, ``processes`` or ``ray``. workers: how many.
    """

    name: str
    workers: int

    def run(self, task: Task[U, R], units: Iterable[U]) -> Iterator[tuple[U, R] | Lost[U]]:
        """The results as they come, in any order; units are drawn as workers get free, so that neither is ever held
        whole. A unit whose worker died goes to a fresh one, a second death is ``Lost``.
        """
        ...

    def __enter__(self) -> Executor: ...
    def __exit__(self, *_: object) -> None: ...
