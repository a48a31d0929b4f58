"""How long a call takes, sampled on the device that it runs on.

On a GPU two events stand around the call on the current stream. The device is kept busy until the host has queued all
three, so that the time between the events is the device's alone, whatever a launch costs on the host.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from workbench.engines.launch import Answer, Launch, Times

MIB = 2**20
CPU_FLUSH, LEAST_FLUSH = 64 * MIB, 128 * MIB  # bytes that are written; more than the caches of any known device
CPU_READ, GPU_READ = 64 * MIB, 1024 * MIB  # bytes that are read to measure a device
FIRST_SLEEP, LONGEST_SLEEP = 1 << 18, 1 << 25  # clock cycles; at 2 GHz 0.13 and 17 ms


@dataclass(frozen=True)
class Sampling:
    """How calls are timed.

    Attributes:
        samples: calls that are timed, one by one. warmups: calls before them.
        cold: whether a buffer larger than the L2 cache is written before each of them.
    """

    samples: int = 20
    warmups: int = 3
    cold: bool = False

    @property
    def calls(self) -> int:
        """All calls that are made."""
        return self.samples + self.warmups


class Timer(Protocol):
    """What can time its calls.

    Attributes:
        name: for reports.
    """

    name: str

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Make a launch once, then time it, then make it once more; never raises for what the call does."""

    def close(self) -> None:
        """Give back what it holds."""


def sample(
    call: Callable[[], object],
    prepare: Callable[[], object],
    sampling: Sampling,
    device: torch.device,
    on_sample: Callable[[int], None] = lambda at: None,
) -> Times:
    """Time calls one by one.

    Args:
        call: what is timed, queued on torch's current stream of the device. prepare: what comes before each call and
            is not timed.
        on_sample: called with the number of each call, warm-up calls included, before it is prepared.
    """
    flush = _flush_buffer(device) if sampling.cold else None
    take = _cuda_taker(device) if device.type == "cuda" else _cpu_taken
    taken = []
    for at in range(sampling.calls):
        on_sample(at)
        taken.append(take(call, prepare, flush))
    kept = taken[sampling.warmups :]
    return Times(tuple(seconds for seconds, _ in kept), sum(late for _, late in kept))


Taken = Callable[[Callable[[], object], Callable[[], object], torch.Tensor | None], tuple[float, bool]]


def _cpu_taken(
    call: Callable[[], object], prepare: Callable[[], object], flush: torch.Tensor | None
) -> tuple[float, bool]:
    prepare()
    if flush is not None:
        flush.add_(1)
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun, False


def _cuda_taker(device: torch.device) -> Taken:
    """Takes samples, and learns how long the device must be kept busy."""
    cycles = FIRST_SLEEP
    make: Any = torch.cuda.Event  # torch gives events and sleeping no types
    start, end, sleep = make(enable_timing=True), make(enable_timing=True), cast("Any", torch.cuda)._sleep

    def take(
        call: Callable[[], object], prepare: Callable[[], object], flush: torch.Tensor | None
    ) -> tuple[float, bool]:
        nonlocal cycles
        while True:
            prepare()
            if flush is not None:
                flush.add_(1)
            sleep(cycles)  # what torch's own tests keep a stream busy with
            start.record()
            call()
            end.record()
            late = start.query()  # the device went past it before the host had queued the call
            end.synchronize()
            if not late or cycles >= LONGEST_SLEEP:
                return start.elapsed_time(end) / 1000, late
            cycles *= 2

    def on_device(
        call: Callable[[], object], prepare: Callable[[], object], flush: torch.Tensor | None
    ) -> tuple[float, bool]:
        with torch.cuda.device(device):
            return take(call, prepare, flush)

    return on_device


def l2_bytes(device: torch.device) -> int | None:
    """Of the device's L2 cache; ``None`` where torch does not tell, as on a CPU."""
    if device.type != "cuda":
        return None
    return getattr(torch.cuda.get_device_properties(device), "L2_cache_size", None)


def _flush_buffer(device: torch.device) -> torch.Tensor:
    size = CPU_FLUSH if device.type == "cpu" else max(LEAST_FLUSH, 2 * (l2_bytes(device) or 0))
    return torch.zeros(size // 4, dtype=torch.int32, device=device)


@dataclass(frozen=True)
class Machine:
    """The device that calls are timed on.

    Attributes:
        name: the GPU's as the driver gives it, else ``cpu``. l2_bytes: of its cache, where it is told.
        read_gbs: 10^9 bytes a second that ``torch.sum`` reads of one large float32 tensor, median of ten.
        floor_us: microseconds that a sample of a call takes which does nothing, median of ten.
        about: torch, CUDA, driver, Python.
    """

    name: str
    l2_bytes: int | None
    read_gbs: float
    floor_us: float
    about: dict[str, str]


def measure_machine(device: torch.device) -> Machine:
    """Measure a device."""
    size = GPU_READ if device.type == "cuda" else CPU_READ
    buffer = torch.ones(size // 4, device=device)
    ten = Sampling(10, 2)
    read = statistics.median(sample(buffer.sum, _nothing, ten, device).seconds)
    floor = statistics.median(sample(_nothing, _nothing, ten, device).seconds)
    about = {"torch": str(torch.__version__)}
    name = "cpu"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        about["cuda"] = torch.version.cuda or ""
        about["capability"] = "{}.{}".format(*torch.cuda.get_device_capability(device))
        about["driver"] = _driver()
    return Machine(name, l2_bytes(device), size / read / 1e9, floor * 1e6, {k: v for k, v in about.items() if v})


def _nothing() -> None:
    """A call that does nothing."""


def _driver() -> str:
    """The version of NVIDIA's driver as the kernel tells it; empty where it does not."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"\b\d{3,}\.\d+(?:\.\d+)?\b", text)
    return found[0] if found else ""
