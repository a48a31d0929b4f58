"""Engines that stand for released ops: each release does as it is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Event

import torch

from workbench.engines.launch import Answer, Launch
from workbench.errors import UsageError

# What a release does: loses so many winners of every row in every call, in every so-many-th call, …
Does = Callable[[Launch, int], Answer]


def exact(launch: Launch, calls: int) -> torch.Tensor:
    """The reference's selections: int32 [calls, slots, k]."""
    found = []
    for slot in launch.slots:
        length, start = int(launch.lengths[slot]), 0 if launch.starts is None else int(launch.starts[slot])
        best = torch.topk(launch.scores[slot, start : start + length], min(launch.k, length)).indices
        found.append(torch.nn.functional.pad(best, (0, launch.k - best.numel()), value=-1))
    return torch.stack(found).to(torch.int32).expand(calls, -1, -1).clone()


def loses(count: int, every: int = 1) -> Does:
    """Winners that calls 0, ``every``, … replace by the worst scores of the row."""

    def answer(launch: Launch, calls: int) -> Answer:
        indices = exact(launch, calls)
        for at, slot in enumerate(launch.slots):
            worst = torch.topk(launch.scores[slot, : int(launch.lengths[slot])], count, largest=False).indices
            indices[::every, at, :count] = worst.to(torch.int32)
        return Answer(indices, about={"gpu": "fake"})

    return answer


def clean(launch: Launch, calls: int) -> Answer:
    """The reference's selection."""
    return Answer(exact(launch, calls), about={"gpu": "fake"})


def faults(text: str) -> Does:
    """No selection."""
    return lambda launch, calls: Answer(fault=text)


def refuses(*reasons: str) -> Does:
    """No call."""
    return lambda launch, calls: Answer(refused=reasons)


class Releases:
    """Opens engines of releases, and notes what was asked of them.

    Args:
        does: what a version does. A version that is not there cannot be opened.
    """

    def __init__(self, does: Mapping[str, Does]) -> None:
        self.does = dict(does)
        self.ran: list[str] = []
        self.open: Counter[str] = Counter()
        self.most_open = 0
        self.more: object = None  # that the last one was opened with: seconds, or an event that stops it
        self.batches: list[tuple[int, ...]] = []

    @property
    def names(self) -> list[str]:
        """The releases."""
        return [f"vllm=={version}" for version in self.does]

    def __call__(self, release: str, stop: Event | None = None, call_s: float | None = None) -> Engine:
        self.more = stop or call_s
        version = release.partition("==")[2]
        if version not in self.does:
            raise UsageError(f"{release} is not there; add it: workbench vendor add {release}")
        self.open[release] += 1
        self.most_open = max(self.most_open, self.open.total())
        return Engine(self, release, self.does[version])


class Engine:
    """One release."""

    name = "fake"

    def __init__(self, owner: Releases, release: str, does: Does) -> None:
        self._owner, self.release, self._does = owner, release, does

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        self._owner.ran.append(self.release.partition("==")[2])
        self._owner.batches.append(launch.slots)
        return self._does(launch, calls)

    def close(self) -> None:
        self._owner.open[self.release] -= 1
