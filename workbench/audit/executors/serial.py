"""In this process, a unit after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from workbench.audit.executors.base import Lost, failure
from workbench.engines.worker.tasks import Task, raised

U = TypeVar("U")
R = TypeVar("R")


class Serial:
    """The executor that starts nothing: nobody survives here what takes the process down."""

    name = "serial"
    workers = 1

    def run(self, task: Task[U, R], units: Iterable[U]) -> Iterator[tuple[U, R] | Lost[U]]:
        """As ``Executor.run``; a unit is drawn once the result before it was consumed."""
        try:
            work = task.open(0)
        except Exception as error:
            raise failure(None, raised(error)) from error
        for unit in units:
            try:
                result = work(unit)
            except Exception as error:
                raise failure(unit, raised(error)) from error
            yield unit, result

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None: ...
