"""A pool of worker processes on this machine.

Each is a ``Worker`` of ``engines/worker``: a fresh interpreter in a session of its own, which ends with this process
however that ends. The pools of other libraries break as a whole when one process dies, and do not say of what.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from workbench.audit.executors.base import AHEAD, ATTEMPTS, OPENINGS, Lost, ended_early, failure, lost, unopened
from workbench.engines.worker.host import LOAD_S, Worker
from workbench.engines.worker.tasks import Raised, Task, as_tensor, in_bytes
from workbench.engines.worker.wire import Parcel, pack

U = TypeVar("U")
R = TypeVar("R")


class Processes:
    """The executor of one machine.

    Args:
        workers: how many processes, started as there are units for them.
        devices: what ``CUDA_VISIBLE_DEVICES`` is in each, in turn; empty to leave it as it is.
        timeout: seconds for one unit; ``None`` waits for ever.
    """

    name = "processes"

    def __init__(self, workers: int, devices: Sequence[str] = (), timeout: float | None = None) -> None:
        self.workers = workers
        patience = {"open": LOAD_S} | ({} if timeout is None else {"unit": timeout})
        seen = [{"CUDA_VISIBLE_DEVICES": devices[at % len(devices)]} if devices else {} for at in range(workers)]
        self._slots = [_Slot(at, seen[at], patience) for at in range(workers)]
        self._run: _Run | None = None

    def run(self, task: Task[U, R], units: Iterable[U]) -> Iterator[tuple[U, R] | Lost[U]]:
        """As ``Executor.run``; at most two units a worker are drawn and not yet consumed."""
        self._end_run()
        run = self._run = _Run(pack(as_tensor(pickle.dumps(task))))
        slots, waiting, flying = iter(self._slots), iter(units), 0
        try:
            while not run.stop.is_set():
                for unit in waiting:
                    run.todo.put(_Job(unit))
                    flying += 1
                    if (slot := next(slots, None)) is not None:
                        run.start(slot)
                    if flying >= AHEAD * self.workers:
                        break
                if not flying:
                    return
                answer = run.done.get()
                flying -= 1
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
            raise ended_early()
        finally:
            run.end()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_run()
        for slot in self._slots:
            slot.close()

    def _end_run(self) -> None:
        if self._run is not None:
            self._run.end()
        self._run = None


class _Job:
    """A unit on its way, in an object of its own: a unit may be anything, ``None`` among them."""

    def __init__(self, unit: Any) -> None:
        self.unit = unit


class _Run:
    """One run of a task: what is to be done, what was, and a thread for each worker that takes part."""

    def __init__(self, task: Parcel) -> None:
        self.task = task
        self.todo: SimpleQueue[_Job | None] = SimpleQueue()
        self.done: SimpleQueue[Any] = SimpleQueue()
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, slot: _Slot) -> None:
        thread = threading.Thread(target=slot.serve, args=(self,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        """Kill the workers that are at a unit, and wait until no thread uses one."""
        self.stop.set()
        for _ in self._threads:
            self.todo.put(None)
        for thread in self._threads:
            thread.join()


class _Slot:
    """A worker's place, whichever process has it now."""

    def __init__(self, number: int, environment: dict[str, str], patience: dict[str, float]) -> None:
        self.worker = Worker("task", {"worker": number, "environment": environment})
        self._number, self._patience = number, patience
        self._open: Parcel | None = None  # the task that the process has open

    def close(self) -> None:
        self._open = None
        self.worker.close()

    def serve(self, run: _Run) -> None:
        """Take units until there are none, or the run stops."""
        while (job := run.todo.get()) is not None and not run.stop.is_set():
            try:
                answer = self._answer(run, job.unit)
            except BaseException as error:
                answer = error
            run.done.put(answer)

    def _answer(self, run: _Run, unit: Any) -> Any:
        """A result, ``Lost``, or the exception that ends the run."""
        parcel = pack(as_tensor(pickle.dumps(unit)))
        reasons: list[str] = []
        while len(reasons) < ATTEMPTS and not run.stop.is_set():
            failed = self._opened(run)
            if failed is not None:
                return failed
            outcome = self.worker.ask({}, {"unit": parcel}, self._patience, run.stop)
            if not outcome.fault:
                result = pickle.loads(in_bytes(outcome.tensors["answer"]))
                return failure(unit, result) if isinstance(result, Raised) else (unit, result)
            reasons.append(outcome.fault.removeprefix("the unit: "))
        return lost(unit, reasons)

    def _opened(self, run: _Run) -> Exception | None:
        """Have the process open the task, a fresh one where it died; otherwise the exception that ends the run."""
        reasons: list[str] = []
        while self.worker.pid is None or self._open is not run.task:
            outcome = self.worker.ask({}, {"task": run.task}, self._patience, run.stop)
            if outcome.fault:
                reasons.append(outcome.fault.removeprefix("opening the task: "))
                if len(reasons) == OPENINGS or run.stop.is_set():
                    return unopened(self._number, reasons)
                continue
            raised = pickle.loads(in_bytes(outcome.tensors["answer"]))
            if raised is not None:
                return failure(None, raised)
            self._open = run.task
        return None
