"""``make_executor``: an executor by its name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from workbench.arguments import check_timeout
from workbench.audit.executors.base import Executor
from workbench.capture.values import described
from workbench.errors import UsageError
from workbench.words import listed

EXECUTORS = ("serial", "processes", "ray")
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def make_executor(
    name: str,
    workers: int | None = None,
    address: str | None = None,
    gpus: bool = False,
    timeout: float | None = None,
    most: int | None = None,
) -> Executor:
    """An executor, which starts nothing before it is entered or run.

    Args:
        name: one of ``EXECUTORS``. workers: how many; ``None`` has one a core, or one a GPU with ``gpus``.
        address: of a Ray cluster, ``auto``, ``host:port`` or ``ray://host:port``; ``None`` starts a local Ray.
        gpus: each worker sees one GPU, in turn where there are fewer.
        most: workers that there may be, however many are asked for or a cluster has.
        timeout: seconds for one unit, after which its worker is ended; ``None`` waits for ever.

    Raises:
        UsageError: no such executor, or it does not take these settings.
    """
    if name not in EXECUTORS:
        raise UsageError(f"there is no executor {name!r}; there are {listed(EXECUTORS)}")
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise UsageError(f"{described(workers)} workers were asked for; a whole number above 0 is needed")
    check_timeout(timeout)
    if address is not None and name != "ray":
        raise UsageError(f"an address is for the executor ray, not for {name}")
    if name == "serial":
        if workers not in (None, 1):
            raise UsageError(f"the executor serial is one worker, {workers} were asked for; use processes")
        if timeout is not None:
            raise UsageError("the executor serial cannot end a unit that takes too long; use processes for a timeout")
        from workbench.audit.executors.serial import Serial

        return Serial()
    devices = _devices() if gpus and (name == "processes" or address is None) else ()
    local = workers or len(devices) or usable_cores()
    if most is not None:
        local, workers = min(local, most), None if workers is None else min(workers, most)
    if name == "processes":
        from workbench.audit.executors.processes import Processes

        return Processes(local, devices, timeout)
    from workbench.audit.executors.ray import OnRay

    return OnRay(workers, local, address, gpus, timeout, most)


def usable_cores() -> int:
    """The cores that this process may use: of its affinity and, where a container sets one, within its quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = map(int, QUOTA.read_text().split())  # "max" where there is none
        cores = min(cores, max(1, quota // period))
    return cores


def _devices() -> tuple[str, ...]:
    """The GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names each; at least one."""
    import torch

    count = torch.cuda.device_count()
    if not count:
        raise UsageError("a worker a GPU was asked for, and torch finds no CUDA device")
    named = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    return tuple(named[:count]) or tuple(map(str, range(count)))
