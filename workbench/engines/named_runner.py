"""The worker's side of callables by name: it imports what was named, and calls it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from workbench.capture.values import brief
from workbench.engines.callable import CallableEngine
from workbench.engines.launch import Answer, Launch
from workbench.engines.named import TORCH_OPS
from workbench.engines.timing import Sampling
from workbench.engines.worker.child import FaultError, RefusedError, Stages
from workbench.engines.worker.wire import Message, Parcel
from workbench.errors import UsageError
from workbench.words import few, said


class NamedRunner:
    """Calls one callable.

    Args:
        name: as ``named_engine`` takes it. imports: modules that are imported before.
    """

    def __init__(self, name: str, imports: Sequence[str] = ()) -> None:
        self._name, self._imports = name, imports
        self._function: Callable[..., Any] | None = None

    def run(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        """Answer one request: without ``k`` nothing but that it is there, else the selections.

        Raises:
            RefusedError: there is no such callable, or it does not take the launch. FaultError: a fault after which
                this process is of no use.
        """
        if self._function is None:
            self._function = self._found(stages)
        if "k" not in request:
            return {}, {}
        engine = CallableEngine(self._function, self._name, request["device"])
        launch = _launch(request, tensors)
        torch.set_num_threads(request["threads"])
        if "time" in request:
            return _told(self._answer(lambda: self._timed(engine, launch, Sampling(**request["time"]), stages)))
        made: list[Answer] = []
        for at in range(request["calls"]):
            stages.begin("call", f"call {at + 1} of {request['calls']} of {self._name}")
            made.append(self._answer(lambda: engine.answer(launch)))
            if made[-1].indices is None:
                return _told(made[-1])
        notes = dict.fromkeys(note for one in made for note in one.notes)
        indices = torch.cat([one.indices for one in made if one.indices is not None])
        return _told(replace(made[-1], indices=indices, notes=tuple(notes)))

    def _timed(self, engine: CallableEngine, launch: Launch, sampling: Sampling, stages: Stages) -> Answer:
        def begin(at: int) -> None:
            stages.begin("call", f"timed call {at + 1} of {sampling.calls} of {self._name}")

        stages.begin("call", f"a call of {self._name}")
        return engine.timed(launch, sampling, begin)

    def _answer(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except KeyboardInterrupt:  # nobody's but the function's own
            return Answer(fault=f"{self._name} raised KeyboardInterrupt")

    def _found(self, stages: Stages) -> Callable[..., Any]:
        try:
            for module in self._imports:
                stages.begin("load", f"importing {module}")
                import_named(module)
            if self._name.startswith(TORCH_OPS):
                return _torch_op(self._name)
            stages.begin("load", f"importing {self._name.partition(':')[0]}")
            return _function(self._name)
        except UsageError as error:
            raise RefusedError(str(error)) from None


def _told(answer: Answer) -> tuple[Message, dict[str, torch.Tensor]]:
    """An answer as the reply to a request.

    Raises:
        RefusedError: it is a refusal. FaultError: a fault that has taken the GPU from this process.
    """
    if answer.refused:
        raise RefusedError(*answer.refused)
    if answer.indices is None:
        if _is_lost():
            raise FaultError(answer.fault)
        return {"fault": answer.fault, "about": answer.about}, {}
    times = None if answer.times is None else asdict(answer.times)
    return {"about": answer.about, "notes": list(answer.notes), "times": times}, {"indices": answer.indices}


def _launch(request: Message, tensors: Mapping[str, Parcel]) -> Launch:
    scores, stride = tensors["scores"].open(), request["stride"]
    rows, width = scores.shape
    if stride > width:
        apart = scores.new_full((rows, stride), -torch.inf)[:, :width]
        scores = apart.copy_(scores)
    starts = tensors["starts"].open() if "starts" in tensors else None
    return Launch(
        "",
        request["k"],
        scores,
        tensors["lengths"].open(),
        width,
        starts=starts,
        slots=tuple(request["slots"]),
    )


def _is_lost() -> bool:
    """Whether this process has lost its GPU: after an illegal access, every call fails."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def import_named(module: str) -> object:
    """A module by name, looked for in the current folder first, and from now on for its own imports too.

    Raises:
        UsageError: there is none, or importing it fails; the message says what it raised.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
        importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (error.name == module or module.startswith(f"{error.name}.")):
            raise UsageError(
                f"there is no module {module!r} in the current folder or among the installed packages"
            ) from None
        raise UsageError(f"importing {module} failed: {error}") from None
    except BaseException as error:  # a module may exit as well
        told = ": ".join(filter(None, (type(error).__name__, brief(said(error)))))
        raise UsageError(f"importing {module} failed: {told}") from None


def _function(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    found = import_named(module)
    for part in name.split("."):
        if not hasattr(found, part):
            others = [one for one, value in vars(found).items() if callable(value) and not one.startswith("_")]
            has = f"; it has {few(sorted(others))}" if others else ""
            raise UsageError(f"{module} has no {name!r}{has}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{text} is no callable: it is of type {type(found).__name__}")
    return found


def _torch_op(text: str) -> Callable[..., Any]:
    library, _, name = text.removeprefix(TORCH_OPS).partition(".")
    found: Any = getattr(torch.ops, library)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UsageError(f"torch has no op {text}; import what registers it (--import package.module)") from None
    if not isinstance(found, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
        raise UsageError(f"{text} is no op of torch; write it as in torch.ops.library.op")
    return found
