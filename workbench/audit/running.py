"""An audit from beginning to end: its plan, an executor, and what comes back into its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from workbench.audit.about import read_audit
from workbench.audit.asked import Asked, located
from workbench.audit.dataset import Dataset
from workbench.audit.executors.base import Executor, Lost
from workbench.audit.executors.front import make_executor
from workbench.audit.front import Audited, Progress
from workbench.audit.limits import workers_within
from workbench.audit.lines import Lines
from workbench.audit.plan import AuditPlan, Job, appeared, make_plan
from workbench.audit.store import Store
from workbench.audit.work import AuditTask, Done
from workbench.capture.values import parse_size, shown
from workbench.errors import UsageError
from workbench.paths.catalog import find_paths
from workbench.paths.devices import get_device
from workbench.paths.releases import parse_release
from workbench.paths.routing import OPS, get_op

SERIAL = "serial"
Told = Callable[[Progress], None]


def run_audit(
    what: object,
    out: str | bytes | os.PathLike[str],
    asked: Mapping[str, Any],
    *,
    executor: str | Executor,
    workers: int | None,
    address: str | None,
    gpus: bool,
    max_memory: int | str | None,
    unit_bytes: int | str,
    progress: Told,
) -> Audited:
    """As ``audit``; ``asked`` holds the fields of ``Asked`` that are arguments of its own."""
    folder, inputs = located(what)
    request = checked(Asked(folder, inputs, **asked, unit_bytes=parse_size("unit_bytes", unit_bytes)))
    memory = None if max_memory is None else parse_size("max_memory", max_memory)
    how = _made(executor, workers, address, gpus)  # starts nothing yet
    with Store(out, request) as store:
        try:
            if not store.finished:
                plan = store.plan or _planned(store, request, progress)
                if memory is not None:
                    most = workers_within(memory, plan.longest, how.name == SERIAL)
                    how = _made(executor, workers, address, gpus, most)
                with how:
                    _work(store, plan, AuditTask(request, "cuda" if gpus else "cpu"), how, progress)
                store.finish()
        except UsageError:
            if not store.resumed and not store.begun:  # asked for what cannot be: as if it had not been
                store.discard()
            raise
        return _audited(store, request)


def checked(asked: Asked) -> Asked:
    """What is asked for, if it is known.

    Raises:
        UsageError: an unknown path, op, release or device.
    """
    find_paths(asked.paths)
    known = next((one for one in OPS if one.name == asked.op), None)
    if asked.op is not None:
        get_op(asked.op)
    if asked.release is not None:
        parse_release(asked.release, known.package if known else None)
    if asked.device is not None:
        get_device(asked.device)
    return asked


def _made(
    executor: str | Executor, workers: int | None, address: str | None, gpus: bool, most: int | None = None
) -> Executor:
    if not isinstance(executor, str):
        return executor
    if executor == SERIAL and gpus:
        import torch

        if not torch.cuda.is_available():
            raise UsageError("GPUs were asked for, and torch finds no CUDA device")
        gpus = False  # this process sees them all, and uses the first
    return make_executor(executor, workers, address, gpus, most=most)


def _planned(store: Store, asked: Asked, progress: Told) -> AuditPlan:
    plan = make_plan(asked, lambda files: progress(Progress(files)))
    store.set_plan(plan)
    return plan


def _work(store: Store, plan: AuditPlan, task: AuditTask, executor: Executor, progress: Told) -> None:
    units, rows, size, failed = plan.units, plan.rows, plan.bytes, 0
    done = [job.unit for job in plan.jobs() if store.is_done(job.number)]
    units_done, rows_done = len(done), sum(unit.count for unit in done)
    bytes_done = sum(unit.bytes for unit in done)

    def tell() -> None:
        at = Progress(len(plan.files), (units_done, units), (rows_done, rows), (bytes_done, size), failed, True)
        progress(at)

    tell()
    if units_done == units:
        return
    for outcome in executor.run(task, store.todo()):
        found = given_up(outcome.unit, outcome.reason) if isinstance(outcome, Lost) else outcome[1]
        store.add(found)
        units_done, rows_done, bytes_done = units_done + 1, rows_done + found.rows, bytes_done + found.bytes
        failed += found.failed
        tell()


def given_up(job: Job, reason: str) -> Done:
    """The lines of a unit that no worker returned."""
    unit, lines = job.unit, Lines()
    for row in range(unit.first, unit.first + unit.count):
        lines.fail(shown(unit.file), row, f"no worker could audit it: {reason}")
    return Done(job.number, lines.dumped(), unit.count, unit.bytes, unit.count)


def _audited(store: Store, asked: Asked) -> Audited:
    found, dataset = read_audit(store.folder)["found"], Dataset(store.folder)
    known = {line.file for line in dataset.manifest()}
    dataset.check_lines(found["lines"])  # what was lost since is not passed over
    return Audited(out=store.name, resumed=store.resumed, appeared=appeared(known, asked), **found)
