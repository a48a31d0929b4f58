"""Callables by name, as the command line gives them: ``package.module:function`` or ``torch.ops.library.op``.

Each runs in a process of its own, so that what hangs, crashes or exits there is told and the caller goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch

from workbench.capture.values import brief
from workbench.engines.launch import Answer, Launch, Times, row_stride
from workbench.engines.timing import Sampling
from workbench.engines.worker.host import LOAD_S, Worker, patience
from workbench.engines.worker.parcels import parcels_of
from workbench.engines.worker.wire import Message
from workbench.errors import UsageError

TORCH_OPS = "torch.ops."
SPELLING = "write it as in package.module:function"
CALL_S = 60.0  # the first call of a function may build its kernel


def is_callable_name(text: str) -> bool:
    """Whether a text can only name a callable: ops of the workbench have neither a colon nor torch's prefix."""
    return ":" in text or text.startswith(TORCH_OPS)


def named_engine(
    text: str,
    device: str | None = None,
    *,
    call_s: float | None = None,
    load_s: float = LOAD_S,
    imports: Sequence[str] = (),
    heard: Callable[[bytes], None] | None = None,
) -> NamedEngine:
    """The engine of a callable by name, once it was found; a context manager that ends its process.

    Args:
        text: ``package.module:function`` (dots lead further in, as in ``module:Class.method``), or an op that torch
            knows, ``torch.ops.library.op``. The current folder is looked in first.
        device: where it runs, as in ``cuda``; that of the scores by default.
        call_s, load_s: seconds that one call, and importing its modules, may take.
        imports: modules that are imported before, as what registers an op with torch.
        heard: called with what they print, from another thread.

    Raises:
        UsageError: another spelling, a module that cannot be imported, nothing callable of that name, or no time.
    """
    check_spelling(text)
    for module in imports:
        check_module(module)
    engine = NamedEngine(text, device, patience(CALL_S if call_s is None else call_s, load_s), imports, heard)
    try:
        engine.open()
    except BaseException:
        engine.close()
        raise
    return engine


class NamedEngine:
    """Calls a callable in a process of its own, by the contract of ``CallableEngine``: see ``named_engine``."""

    release: str | None = None

    def __init__(
        self,
        name: str,
        device: str | None,
        patience: dict[str, float],
        imports: Sequence[str] = (),
        heard: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name, self._device, self._patience = name, device, patience
        self._worker = Worker("callable", {"name": name, "imports": list(imports)}, heard)

    def open(self) -> None:
        """Start its process and find the callable.

        Raises:
            UsageError: there is none, or looking for it does harm.
        """
        outcome = self._worker.ask({}, patience=self._patience)
        if outcome.refused:
            raise UsageError("; ".join(outcome.refused))
        if outcome.fault:
            raise UsageError(f"{self.name} cannot be used: {outcome.fault}")

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        """Call it; what it does instead of returning a selection is a fault in words.

        Raises:
            KeyboardInterrupt: while it ran.
        """
        return self._asked(launch, {"calls": calls})

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Call it once, then time it there, then call it once more; each call has its seconds.

        Raises:
            KeyboardInterrupt: while it ran.
        """
        return self._asked(launch, {"time": asdict(sampling)})

    def _asked(self, launch: Launch, how: Message) -> Answer:
        try:
            tensors = parcels_of(launch)
        except OSError as error:
            return Answer(refused=(f"there is no memory for a copy of the launch: {error}",))
        outcome = self._worker.ask(self._request(launch) | how, tensors, self._patience)
        if outcome.data is None:
            return Answer(refused=outcome.refused, fault=outcome.fault)
        about = outcome.data["about"]
        if fault := outcome.data.get("fault"):
            return Answer(fault=fault, about=about)
        times = outcome.data["times"]
        return Answer(
            outcome.tensors["indices"],
            about=about,
            notes=tuple(outcome.data["notes"]),
            times=None if times is None else Times(tuple(times["seconds"]), times["late"]),
        )

    def close(self) -> None:
        """End its process."""
        self._worker.close()

    def __enter__(self) -> NamedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, launch: Launch) -> Message:
        return {
            "k": launch.k,
            "stride": row_stride(launch),
            "slots": list(launch.slots),
            "threads": torch.get_num_threads(),
            "device": self._device or str(launch.scores.device),
        }


def check_spelling(text: str) -> None:
    """Refuse what names no callable, whatever there is.

    Raises:
        UsageError: how it is written.
    """
    if text.startswith(TORCH_OPS):
        library, _, name = text.removeprefix(TORCH_OPS).partition(".")
        if not is_dotted(library) or not is_dotted(name):
            raise UsageError(f"{brief(text)!r} names no op of torch; write it as in torch.ops.library.op")
        return
    module, _, name = text.partition(":")
    if module.endswith(".py"):
        check_module(module)
    if not is_dotted(module) or not is_dotted(name):
        raise UsageError(f"{brief(text)!r} names no callable; {SPELLING}")


def check_module(module: str) -> None:
    """Refuse what is no name of a module.

    Raises:
        UsageError: how it is written.
    """
    if not is_dotted(module):
        raise UsageError(f"{brief(module)!r} is no name of a module; {SPELLING}")
    if module.endswith(".py"):
        raise UsageError(f"{brief(module)!r} names a file; write its module, {brief(module.removesuffix('.py'))}")


def is_dotted(text: str) -> bool:
    """Whether a text is identifiers with dots between."""
    return bool(text) and all(part.isidentifier() for part in text.split("."))
