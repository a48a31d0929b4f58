"""Small benchmarks, and timers that do as they are told."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.fakes import Does, clean
from workbench.engines.launch import Answer, Launch, Times
from workbench.engines.timing import Sampling
from workbench.runs.bench import Plan, Timers
from workbench.runs.bench_grid import Contender, grid

OP, RELEASE = "vllm.persistent_topk", "vllm==0.26.0"
VENDOR, MODEL, TOPK = Contender("vendor", OP, RELEASE), Contender("model", OP, RELEASE), Contender("torch.topk")


class Fake:
    """A timer that answers as it is told, each sample slower than the one before.

    Args:
        does: what it selects. us: microseconds of its first sample.
    """

    name = "fake"

    def __init__(self, does: Does = clean, us: float = 10.0, late: int = 0) -> None:
        self._does, self._us, self._late = does, us, late
        self.launches: list[tuple[Launch, Sampling]] = []
        self.closed = False

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        self.launches.append((launch, sampling))
        answer = self._does(launch, 2)
        if answer.indices is None:
            return answer
        seconds = tuple((self._us + at) / 1e6 for at in range(sampling.samples))
        return Answer(answer.indices, about=answer.about, times=Times(seconds, self._late))

    def close(self) -> None:
        self.closed = True


def plan(
    *contenders: Contender, rows: tuple[int, ...] = (2,), lengths: tuple[int, ...] = (1000,), **more: object
) -> Plan:
    """A plan of few samples at k 512."""
    shapes = tuple(grid(rows, lengths, (512,)))
    return Plan(shapes, contenders or (TOPK,), device="h200", sampling=Sampling(5, 1), **more)  # type: ignore[arg-type]


def vendor(fake: Fake) -> Timers:
    """Opens the fake for every release."""
    return Timers(open_vendor=lambda release: fake)


def bait(launch: Launch, calls: int) -> Answer:
    """Selects as if cells past a row's length were scores."""
    found = torch.topk(launch.scores, launch.k).indices.to(torch.int32)
    return Answer(found.expand(calls, -1, -1).clone())


Opener = Callable[[str], Fake]
