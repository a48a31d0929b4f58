"""The worker's side: ``python -m workbench.engines.worker.child``, started by ``host`` and by nothing else.

It knows a fixed table of runners, keeps one of them between requests, and ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

import torch

from workbench.engines.worker.wire import Channel, ClosedError, Message, Parcel, pack
from workbench.words import said

RUNNERS = {
    "callable": "workbench.engines.named_runner:NamedRunner",
    "cuda": "workbench.engines.cuda.runner:CudaRunner",
    "task": "workbench.engines.worker.tasks:TaskRunner",
    "vendor": "workbench.engines.vendor.runner:VendorRunner",
}
F_SETSIG = 10  # of Linux; the fcntl module of Python 3.11 does not name it everywhere


class RefusedError(Exception):
    """The runner does not take a request; ``reasons`` are all of them, in words."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


class FaultError(Exception):
    """What a runner found instead of an answer, in words for people."""


class Runner(Protocol):
    """What runs in a worker. It is made once from the settings, with which the worker was started."""

    def run(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        """Answer one request; RefusedError and FaultError say why not, any other exception is a fault by its text."""


class Stages:
    """Tells the host what is about to happen, which starts its clock anew."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._process = channel, os.getpid()

    def end_copy(self) -> None:
        """End this process where what ran has forked and this is the copy: one of them answers."""
        if os.getpid() != self._process:
            os._exit(0)

    def begin(self, stage: str, doing: str) -> None:
        """A stage begins.

        Args:
            stage: which of the host's patiences counts, as in ``call``. doing: in words, as in ``call 3 of 10``.
        """
        self.end_copy()
        self._channel.send({"kind": "stage", "stage": stage, "doing": doing})


def main(arguments: list[str]) -> int:
    """Answer requests until the host is gone.

    Args:
        arguments: descriptors of the socket and of the lifeline, which the host never writes to.
    """
    number, lifeline = map(int, arguments)
    die_with_host(lifeline)
    channel = Channel(socket.socket(fileno=number))
    stages = Stages(channel)
    runner: Runner | None = None
    with contextlib.suppress(ClosedError, OSError):
        opening, _ = channel.receive()
        while True:
            request, tensors = channel.receive()
            try:
                if runner is None:
                    runner = _runner(opening)
                data, made = runner.run(request, tensors, stages)
                answer: Message = {"kind": "reply", "data": data}
                parcels = {name: pack(tensor) for name, tensor in made.items()}
            except RefusedError as error:
                answer, parcels = {"kind": "refused", "reasons": list(error.reasons)}, {}
            except Exception as error:
                answer, parcels = {"kind": "fault", "text": told(error)}, {}
            stages.end_copy()
            channel.send(answer, parcels)
            del tensors, parcels
    return 0


def _runner(opening: Message) -> Runner:
    module, _, name = RUNNERS[opening["runner"]].partition(":")
    made: Any = getattr(import_module(module), name)
    return made(**opening["settings"])  # type: ignore[no-any-return]


def told(error: BaseException) -> str:
    """An exception in one line: its first line says what happened, CUDA's others are about debugging."""
    lines = [line.strip() for line in said(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    if isinstance(error, FaultError) or text.startswith("CUDA error"):
        return text
    return f"{type(error).__name__}: {text}"


def die_with_host(lifeline: int) -> None:
    """End this process and all that it started as soon as the host is gone, whatever it is doing then.

    The kernel sends the signal: a library that hangs may hold the interpreter's lock, so that no thread would see it.
    The thread stands in where the kernel does not do that for pipes.
    """
    group = os.getpgid(0)
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -group)
        fcntl.fcntl(lifeline, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)

    def watch() -> None:
        os.read(lifeline, 1)
        os.killpg(group, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    # By its own name, so that what runners raise and what main catches are the same classes.
    from workbench.engines.worker import child

    sys.exit(child.main(sys.argv[1:]))
