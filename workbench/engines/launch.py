"""One call of an op as it is made, and what came back: what engines that stand for a whole op take and give.

A selector's path depends on the call (rows, width, stride, bounds), so such an engine is given a whole batch, not one
row. ``workbench.runs.launches`` lays rows of a capture into one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeGuard

import torch


@dataclass(frozen=True, eq=False)
class Launch:
    """One call of an op.

    Attributes:
        op: as in ``vllm.persistent_topk``; empty where it is not known. k: winners wanted.
        scores: [rows, width] float32, bfloat16 or float16; the distance between rows may exceed the width.
        lengths: int32 [rows], as the op is given them. max_seq_len: the host-side bound. next_n: tokens a request.
        starts: int32 [rows], first valid cells; ``None`` where every row starts at 0.
        static_threshold: what SGLang's plan is given.
        slots: the batch's rows that stand for captured ones, in the captured order.
    """

    op: str
    k: int
    scores: torch.Tensor
    lengths: torch.Tensor
    max_seq_len: int
    next_n: int = 1
    starts: torch.Tensor | None = None
    static_threshold: int = -1
    slots: tuple[int, ...] = (0,)


def row_stride(launch: Launch) -> int:
    """The distance between rows of a launch, in scores; of a single row, its width where nothing else is said."""
    rows, width = launch.scores.shape
    stride = launch.scores.stride(0)
    return stride if rows > 1 else max(stride, width)


@dataclass(frozen=True)
class Times:
    """How long calls took.

    Attributes:
        seconds: of each sample, one call each; on a GPU what the device spent between two events around the call.
        late: samples that the device began before the host had made the call, so that they hold the host's time too.
    """

    seconds: tuple[float, ...]
    late: int = 0


@dataclass(frozen=True, eq=False)
class Answer:
    """What an engine made of a launch. One of ``indices``, ``refused`` and ``fault`` is there.

    Attributes:
        indices: int32 [calls, len(slots), k] on the CPU, positions within the rows' windows; -1 marks an empty slot,
            ``UNWRITTEN`` one never written.
        refused: every reason why the op was not called, in words.
        fault: what the call did instead of returning, in words: a hang, an illegal access, a failed load.
        about: what ran, as in ``{"torch": "2.11.0+cu130", "gpu": "NVIDIA H200"}``.
        notes: what a reader of the selections must know, in words.
        times: of calls that were timed; the indices are then those of one call before them and of one after them.
    """

    indices: torch.Tensor | None = None
    refused: tuple[str, ...] = ()
    fault: str = ""
    about: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    times: Times | None = None


class OpEngine(Protocol):
    """A way to call an op, or what stands in for one, on whole batches.

    Attributes:
        name: as in ``vendor``. release: what is called, as in ``vllm==0.26.0``; ``None`` where there is no release.
    """

    name: str
    release: str | None

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        """Make a launch ``calls`` times, the output poisoned before each; never raises for what the op does."""

    def close(self) -> None:
        """Give back what it holds: processes, device memory."""


def is_op_engine(value: object) -> TypeGuard[OpEngine]:
    """Whether something is an engine that stands for a whole op, and no class of such."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("name", "release", "answer", "close"))
