"""A task: opened once where it runs, then given unit after unit; what crosses between processes is pickled.

The one runner that pickles: both sides are the workbench itself, and a task is code of its own.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from workbench.engines.worker.child import Stages, told
from workbench.engines.worker.wire import Message, Parcel
from workbench.errors import WorkbenchError

U_in = TypeVar("U_in", contravariant=True)
R_out = TypeVar("R_out", covariant=True)


class Task(Protocol[U_in, R_out]):
    """What every worker does, small and picklable; opened once in each worker, so that it can hold what is dear."""

    def open(self, worker: int) -> Callable[[U_in], R_out]:
        """What works off one unit, for worker ``worker`` (0 to workers - 1); it may hold files and compiled kernels.

        What it returns is picklable. An exception of it is no result: it ends the run.
        """


@dataclass(frozen=True)
class Raised:
    """An exception of a task, on its way to whoever runs it.

    Attributes:
        text: its type and first line. trace: its traceback.
        error: itself, where it is one for people and can be pickled.
    """

    text: str
    trace: str
    error: WorkbenchError | None = None


def raised(error: Exception) -> Raised:
    """An exception as what can be pickled whatever it holds."""
    kept = error if isinstance(error, WorkbenchError) else None
    try:
        pickle.loads(pickle.dumps(kept))
    except Exception:
        kept = None
    return Raised(told(error), "".join(traceback.format_exception(error)).rstrip(), kept)


class Opened:
    """A task that was opened in this process, for as long as the same one is asked for."""

    def __init__(self) -> None:
        self._work: Callable[[Any], Any] | None = None

    def open(self, task: bytes, worker: int) -> Raised | None:
        """Open a pickled task as worker ``worker``, with one thread of torch's; what stood in its place is dropped."""
        self._work = None
        torch.set_num_threads(1)
        try:
            made: Task[Any, Any] = pickle.loads(task)
            self._work = made.open(worker)
        except Exception as error:
            return raised(error)
        return None

    def run(self, unit: bytes) -> bytes:
        """Work off a pickled unit; the pickle of what the task returned, or of ``Raised``."""
        assert self._work is not None
        try:
            return pickle.dumps(self._work(pickle.loads(unit)), protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            return pickle.dumps(raised(error))


class TaskRunner:
    """What runs tasks in a worker of ``host``.

    Args:
        worker: its number. environment: set before the task is opened, such as ``CUDA_VISIBLE_DEVICES``.
    """

    def __init__(self, worker: int, environment: Mapping[str, str]) -> None:
        self._worker = worker
        self._opened = Opened()
        os.environ.update(environment)

    def run(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        """``task`` alone opens it, ``unit`` alone is worked off; each is a pickle in bytes, as is the answer."""
        if "task" in tensors:
            stages.begin("open", "opening the task")
            answer = pickle.dumps(self._opened.open(in_bytes(tensors["task"].open()), self._worker))
        else:
            stages.begin("unit", "the unit")
            answer = self._opened.run(in_bytes(tensors["unit"].open()))
        return {}, {"answer": as_tensor(answer)}


def as_tensor(data: bytes) -> torch.Tensor:
    """Bytes as uint8 ``(len(data),)``, to be packed."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def in_bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a uint8 tensor."""
    return tensor.numpy().tobytes()
