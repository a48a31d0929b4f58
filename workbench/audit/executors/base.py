"""What an executor is: it runs a task over units, in any order, and loses none of them silently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from workbench.errors import UsageError

if TYPE_CHECKING:  # else torch comes with it, and with ``import workbench``
    from workbench.engines.worker.tasks import Raised, Task

U = TypeVar("U")
R = TypeVar("R")

ATTEMPTS = 2  # workers that may die of one unit before it is lost
OPENINGS = 3  # of one worker in a row that may die before the run ends: no unit would fare better
AHEAD = 2  # units a worker: the one it is at, and one to go on with while results are consumed


@dataclass(frozen=True)
class Lost(Generic[U]):
    """A unit that no worker returned: each that took it died, or took too long. ``reason`` says how, in words."""

    unit: U
    reason: str


class TaskError(Exception):
    """A task raised what is no error for people: a defect of the task.

    Attributes:
        unit: at which; ``None`` where it was being opened. Its notes hold the traceback of the worker.
    """

    def __init__(self, unit: object, text: str, trace: str = "") -> None:
        self.unit, self.text = unit, text
        super().__init__(unit, text, trace)
        if trace:
            self.add_note(trace)

    def __str__(self) -> str:
        return f"{_place(self.unit)}: {self.text}"


class Executor(Protocol):
    """Runs a task over units. A context manager; leaving it, at the end or by an exception, ends its workers.

    Attributes:
        name: as the command line has it, ``serial``, ``processes`` or ``ray``.
        workers: how many; on a cluster whose nodes come and go, how many it has now.
    """

    @property
    def name(self) -> str: ...
    @property
    def workers(self) -> int: ...

    def run(self, task: Task[U, R], units: Iterable[U]) -> Iterator[tuple[U, R] | Lost[U]]:
        """The results as they come, in any order; units are drawn as workers get free, so that neither is ever held
        whole. A unit whose worker died goes to a fresh one, a second death is ``Lost``. One run at a time: a new one
        ends the one before it, whose iterator then raises RuntimeError.

        Raises:
            WorkbenchError: the task raised one; of a unit, it is named. Or no worker lives to open the task.
            TaskError: the task raised anything else.
        """
        ...

    def __enter__(self) -> Executor: ...
    def __exit__(self, *_: object) -> None: ...


def failure(unit: object, raised: Raised) -> Exception:
    """What ends the run when a task raised; ``unit`` is ``None`` where it was being opened."""
    if raised.error is None:
        return TaskError(unit, raised.text, raised.trace)
    return raised.error if unit is None else UsageError(f"{_place(unit)}: {raised.error}")


def ended_early() -> RuntimeError:
    """For whoever goes on with the results of a run whose workers were ended: the rest must not seem to be done."""
    return RuntimeError("the run was ended, by another one or since its executor was left")


def lost(unit: U, reasons: Sequence[str]) -> Lost[U]:
    """A unit that is given up, and how each worker ended that took it."""
    return Lost(unit, _told(reasons))


def unopened(worker: int, reasons: Sequence[str]) -> UsageError:
    """What ends the run when a worker cannot live to open the task."""
    return UsageError(f"worker {worker} did not live to open its task: {_told(reasons)}")


def _told(reasons: Sequence[str]) -> str:
    times = {1: "", 2: "twice: "}.get(len(reasons), f"{len(reasons)} times: ")
    return f"{times}{reasons[0]}" if len(set(reasons)) == 1 else "; then ".join(reasons)


def _place(unit: Any) -> str:
    return "opening the task" if unit is None else str(unit)
