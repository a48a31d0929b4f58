"""What every engine is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workbench.capture.row import Row
from workbench.errors import WorkbenchError
from workbench.paths.arrival import Arrival
from workbench.paths.faults import Counted
from workbench.paths.selection import Selection
from workbench.paths.spec import Path


@dataclass(frozen=True)
class Task:
    """One selection to be made.

    Attributes:
        row: the row. k: winners wanted. arrival: the order for engines that can choose it.
        path, variant: what to run; ``None`` for an engine that does not run a path of its own.
        counts: of the row, where the caller has them.
        call_s: seconds that the engine may take, where it can be ended; ``None`` for its own limit.
    """

    row: Row
    k: int
    arrival: Arrival
    path: Path | None = None
    variant: str = "stock"
    counts: Counted | None = None
    call_s: float | None = None


class SelectionFaultError(WorkbenchError):
    """What a selector did instead of returning, in words: it hung, crashed, or took the device with it."""


class Engine(Protocol):
    """A way to run selections.

    Attributes:
        name: as in ``model``. runs_paths: whether it runs a named path (else it stands for the op as a whole).
        repeatable: whether every repeat gives the same selection, so that one is enough.
        poisons: whether slots that were never written hold ``UNWRITTEN``.
    """

    name: str
    runs_paths: bool
    repeatable: bool
    poisons: bool

    def refusals(self, task: Task) -> list[str]:
        """Why the engine cannot take the task, every reason in words; empty if it can."""

    def select(self, task: Task) -> Selection:
        """Make the selection of a task without refusals.

        Raises:
            SelectionFaultError: the selector did not return.
        """
