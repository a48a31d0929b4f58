"""A Ray cluster: actors that hold what the task opened, on however many nodes there are just now."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from workbench.audit.executors.actor import Actor, differences, ending, versions
from workbench.audit.executors.base import AHEAD, ATTEMPTS, OPENINGS, Lost, ended_early, failure, lost, unopened
from workbench.audit.executors.cluster import Connection
from workbench.engines.worker.tasks import Raised, Task
from workbench.errors import UsageError

U = TypeVar("U")
R = TypeVar("R")

POLL_S = 0.5  # how late a timeout, or a node that joined, may be seen
LOOK_S = 2.0  # between looks at how large the cluster is
GATHER_S = 10.0  # for what a dead actor had finished to arrive
START_S = 600.0  # without any worker that has started, while the cluster may be busy with others, or still grow


class OnRay:
    """The executor of a cluster. Ray is joined or started on entering, or with the first run.

    Args:
        workers: how many actors; ``None`` has one a core, or one a GPU, of a cluster that is joined, as it grows and
            shrinks. A local Ray has ``local``.
        address: as ``Connection``. gpus: whether each actor asks for a GPU.
        timeout: seconds for one unit; ``None`` waits for ever. most: actors, however large a cluster is.
    """

    name = "ray"

    def __init__(
        self,
        workers: int | None,
        local: int,
        address: str | None,
        gpus: bool = False,
        timeout: float | None = None,
        most: int | None = None,
    ) -> None:
        self._most = most
        self._fixed = local if workers is None and address is None else workers
        self._address, self._gpus, self._timeout = address, gpus, timeout
        self._joined: Connection | None = None
        self._looked, self._size = 0.0, 0
        self._current: object = None  # the run that goes on
        self._actors: dict[int, _Held] = {}
        self._ended: dict[int, list[str]] = {}  # by worker, how those ended that opened no task since the last that did

    @property
    def workers(self) -> int:
        """How many actors there should be now."""
        if self._fixed is not None:
            return self._fixed
        ray = self._connection().ray
        if not self._size or time.monotonic() - self._looked >= LOOK_S:
            total = ray.cluster_resources().get("GPU" if self._gpus else "CPU", 0)
            whole = max(1, int(total))
            self._looked, self._size = time.monotonic(), whole if self._most is None else min(whole, self._most)
        return self._size

    def run(self, task: Task[U, R], units: Iterable[U]) -> Iterator[tuple[U, R] | Lost[U]]:
        """As ``Executor.run``; at most two units a worker are drawn and not yet consumed."""
        ray, opening = self._connection().ray, pickle.dumps(task)
        self._end_run()
        mine = self._current = object()
        waiting, more, began = iter(units), True, time.monotonic()
        ready: deque[_Job] = deque()  # drawn, and with no actor; those that came back are first
        for held in self._actors.values():
            self._open(held, opening)
        try:
            while self._current is mine:
                flying = sum(len(held.jobs) for held in self._actors.values())
                room = max(0, AHEAD * self.workers - len(ready) - flying)
                drawn = [_Job(unit, pickle.dumps(unit)) for unit in islice(waiting, room)]
                ready.extend(drawn)
                more = more and len(drawn) == room
                if not ready and not flying:
                    return
                self._grow(len(ready) + flying, opening)
                self._hand_out(ready, more)
                refs = {ref: held for held in self._actors.values() for ref in held.refs()}
                found, _ = ray.wait(list(refs), num_returns=1, timeout=POLL_S)
                if found:
                    yield from self._came(found[0], refs[found[0]], ready)
                if self._current is not mine:
                    break
                yield from self._overdue(ready)
                if any(held.opening is None for held in self._actors.values()):
                    began = time.monotonic()
                elif time.monotonic() - began > START_S:
                    raise UsageError(self._idle())
            raise ended_early()
        finally:
            if self._current is mine:
                self._end_run()

    def _end_run(self) -> None:
        """Drop the actors that are at something: only with them does it end."""
        self._current = None
        for held in list(self._actors.values()):
            if held.refs():
                self._drop(held)

    def __enter__(self) -> OnRay:
        self._connection()
        return self

    def __exit__(self, *_: object) -> None:
        if self._joined is not None:
            self._current = None
            for held in list(self._actors.values()):
                self._drop(held)
            self._joined.close()
            self._joined = None

    def _connection(self) -> Connection:
        if self._joined is None:
            self._joined = Connection(self._address, self._fixed or 1, self._gpus)
        return self._joined

    def _grow(self, most: int, opening: bytes) -> None:
        """Start actors, as many as there may be and as units would keep busy."""
        assert self._joined is not None
        for number in range(self.workers):
            if len(self._actors) >= min(self.workers, most):
                return
            if number not in self._actors:
                options = {"num_cpus": 1, "num_gpus": int(self._gpus), "scheduling_strategy": "SPREAD"}
                handle = self._joined.ray.remote(Actor).options(max_restarts=0, **options).remote()
                self._actors[number] = held = _Held(number, handle)
                self._open(held, opening)

    def _idle(self) -> str:
        assert self._joined is not None
        kind = "GPU" if self._gpus else "CPU"
        total, free = (
            f"{found.get(kind, 0):g}"
            for found in (self._joined.ray.cluster_resources(), self._joined.ray.available_resources())
        )
        return f"no Ray worker started within {START_S:g} s; each needs a {kind}: the cluster has {total}, {free} free"

    def _open(self, held: _Held, opening: bytes) -> None:
        held.opening = held.handle.open.remote(opening, held.number)

    def _hand_out(self, ready: deque[_Job], more: bool) -> None:
        """Give units to actors; one ahead only while there are more, and no actor that starts will soon want it."""
        opening = any(held.opening is not None for held in self._actors.values())
        for depth in range(AHEAD if more and not opening else 1):
            for held in self._actors.values():
                if ready and held.opening is None and len(held.jobs) == depth:
                    held.add(ready.popleft())

    def _came(self, ref: Any, held: _Held, ready: deque[_Job]) -> Iterator[Any]:
        """What became of a call: a result, or an actor's end."""
        assert self._joined is not None
        errors = self._joined.ray.exceptions
        try:
            answer = self._joined.ray.get(ref)
        except errors.RayTaskError as error:  # what goes wrong around the task: workbench is not there, or another
            raise UsageError(f"a Ray worker cannot run the task: {str(error).strip().splitlines()[-1]}") from None
        except errors.RayError as error:
            yield from self._died(held, ending(error), ready)
            return
        if ref == held.opening:
            held.opened(answer)
            self._ended.pop(held.number, None)
        else:
            yield _result(held.take(ref), answer)

    def _overdue(self, ready: deque[_Job]) -> Iterator[Any]:
        if self._timeout is None:
            return
        assert self._joined is not None
        for held in list(self._actors.values()):
            if held.jobs and time.monotonic() - held.since > self._timeout:
                if self._joined.ray.wait([next(iter(held.jobs))], timeout=0)[0]:
                    continue
                why = f"the unit did not return within {self._timeout:g} s: it hangs, or takes longer than that"
                yield from self._died(held, why, ready)

    def _died(self, held: _Held, why: str, ready: deque[_Job]) -> Iterator[Any]:
        """Drop an actor. What it had finished counts, the unit that it was at has met a death, the rest has not."""
        assert self._joined is not None
        ray, where = self._joined.ray, held.where
        self._drop(held)
        if held.opening is not None:
            reasons = self._ended.setdefault(held.number, [])
            reasons.append(why)
            if len(reasons) == OPENINGS:
                raise unopened(held.number, reasons)
        back, blamed = [], False
        for ref, job in list(held.jobs.items()):
            try:
                answer = None if blamed else ray.get(ref, timeout=GATHER_S)
            except (ray.exceptions.RayError, TimeoutError):
                answer = None
            if answer is not None:
                yield _result(job, answer)
                continue
            if not blamed:
                job.ended.append(f"{why} ({where})")
            blamed = True
            if len(job.ended) == ATTEMPTS:
                yield lost(job.unit, job.ended)
            else:
                back.append(job)
        ready.extendleft(reversed(back))

    def _drop(self, held: _Held) -> None:
        assert self._joined is not None
        del self._actors[held.number]
        self._joined.ray.kill(held.handle)


@dataclass(eq=False)
class _Job:
    """A unit that was drawn: itself, its pickle, and how the workers ended that had it."""

    unit: Any
    pickled: bytes
    ended: list[str] = field(default_factory=list)


@dataclass(eq=False)
class _Held:
    """An actor.

    Attributes:
        opening: the call that opens the task, while it lasts. jobs: what it was given, by call, in order.
        since: when the first of them can have begun. where: process and node.
    """

    number: int
    handle: Any
    opening: Any = None
    jobs: dict[Any, _Job] = field(default_factory=dict)
    since: float = 0.0
    where: str = "not yet started"

    def refs(self) -> list[Any]:
        return list(self.jobs) if self.opening is None else [self.opening]

    def add(self, job: _Job) -> None:
        if not self.jobs:
            self.since = time.monotonic()
        self.jobs[self.handle.run.remote(job.pickled)] = job

    def take(self, ref: Any) -> _Job:
        self.since = time.monotonic()
        return self.jobs.pop(ref)

    def opened(self, answer: dict[str, Any]) -> None:
        """Raise what the task raised, or UsageError where the worker is not the same workbench."""
        self.opening, self.where = None, answer["where"]
        differing = differences(versions(), answer["versions"])
        if differing:
            raise UsageError(f"a Ray worker ({self.where}) has other versions than this process: {differing}")
        raised = pickle.loads(answer["raised"])
        if raised is not None:
            raise failure(None, raised)


def _result(job: _Job, answer: bytes) -> Any:
    result = pickle.loads(answer)
    if isinstance(result, Raised):
        raise failure(job.unit, result)
    return job.unit, result
