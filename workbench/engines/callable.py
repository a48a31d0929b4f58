"""Callables as engines: a function of the user's, or an op of torch's, stands in for the op."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from workbench.capture.format import INT32_BOUNDS
from workbench.capture.values import brief, kind_of, shape_text
from workbench.engines.launch import Answer, Launch
from workbench.engines.timing import Sampling, sample
from workbench.words import said

STARTS = "starts"
CONTRACT = "int32 or int64 [rows, k]"
_TOLD = 300  # characters of an exception that are shown


class CallableEngine:
    """Calls ``function(scores, lengths, k)`` on a whole batch.

    The function is given, anew for each call, copies of ``scores`` [rows, width] (float32, bfloat16 or float16, the
    distance between rows that of the call) and ``lengths`` (int32 [rows], as the op is given them), and the int ``k``.
    A function with a parameter ``starts`` gets by that name the first valid cell of each row, int32 [rows], zeros where
    every row starts at 0; without one, batches with other starts are refused. It returns, on the device of the scores,
    the positions of the winners relative to the row's start, int32 or int64 [rows, k], -1 in slots past the row's
    length, or an object whose ``indices`` are that, as ``torch.topk`` does. It runs without autograd.

    Args:
        function: the function, or an op of torch's as ``torch.ops.mylib.topk``.
        name: for reports; ``module:function`` by default.
        device: where it runs, as in ``cuda``; that of the scores by default.
    """

    release: str | None = None

    def __init__(self, function: Callable[..., Any], name: str | None = None, device: str | None = None) -> None:
        self.name = name or name_of(function)
        self._function, self._device = function, device
        self._takes_starts = _takes_starts(function)

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        """Call the function; what it does instead of returning a selection is a fault in words.

        Raises:
            KeyboardInterrupt: while it ran.
        """
        device = launch.scores.device if self._device is None else torch.device(self._device)
        if refused := self._refusals(launch, device):
            return Answer(refused=tuple(refused))
        made, wrote = [], False
        for _ in range(calls):
            scores = _copied(launch.scores, device)
            try:
                returned = self._call(scores, launch, device)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # the function may exit as well
                return Answer(fault=f"{self.name} raised {_shown(error)}{self._expected(error)}", about=_about(device))
            try:
                selected = self._selected(returned, launch, device)
            except Exception as error:  # nested tensors have no shape, an object's indices may be anything
                selected = f"returned indices that cannot be read: {_shown(error)}"
            if isinstance(selected, str):
                return Answer(fault=f"{self.name} {selected}", about=_about(device))
            made.append(selected)
            wrote = wrote or not _same(scores, launch.scores)
        notes = (f"{self.name} wrote to its scores",) if wrote else ()
        return Answer(torch.stack(made), about=_about(device), notes=notes)

    def timed(self, launch: Launch, sampling: Sampling, on_sample: Callable[[int], None] = lambda at: None) -> Answer:
        """Call the function once, then time it, then call it once more; a function that writes to its scores is given
        them anew before each call.

        Args:
            on_sample: called with the number of each sample before it is taken.
        """
        first = self.answer(launch)
        if first.indices is None:
            return first
        device = launch.scores.device if self._device is None else torch.device(self._device)
        scores, lengths = _copied(launch.scores, device), launch.lengths.to(device, copy=True)

        def prepare() -> None:
            lengths.copy_(launch.lengths)
            if first.notes:
                scores.copy_(launch.scores)

        try:
            times = sample(lambda: self._called(scores, lengths, launch), prepare, sampling, device, on_sample)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return Answer(fault=f"{self.name} raised {_told(error)} while it was timed", about=first.about)
        last = self.answer(launch)
        if last.indices is None:
            return last
        return replace(first, indices=torch.cat([first.indices, last.indices]), times=times)

    def close(self) -> None:
        """It holds nothing."""

    def _refusals(self, launch: Launch, device: torch.device) -> list[str]:
        reasons = []
        if launch.starts is not None and not self._takes_starts:
            at = int(launch.starts.nonzero()[0])
            reasons.append(
                f"{self.name} has no parameter {STARTS}, and row {at} of the batch starts at {int(launch.starts[at])}"
            )
        if device.type == "cuda" and not torch.cuda.is_available():
            reasons.append(f"torch {torch.__version__} finds no CUDA device")
        return reasons

    def _expected(self, error: BaseException) -> str:
        """How it is called, where the error says that it does not take that: nothing of it ran."""
        if isinstance(error, TypeError):
            try:
                inspect.signature(self._function).bind(None, None, None)
            except TypeError:
                return "; it is called with scores [rows, width], lengths [rows] and k"
            except ValueError:  # a function that tells no signature
                return ""
        return ""

    def _called(self, scores: torch.Tensor, lengths: torch.Tensor, launch: Launch) -> object:
        more = {}
        if self._takes_starts:
            starts = torch.zeros_like(launch.lengths) if launch.starts is None else launch.starts
            more[STARTS] = starts.to(scores.device, copy=True)
        with torch.no_grad():
            return self._function(scores, lengths, launch.k, **more)

    def _call(self, scores: torch.Tensor, launch: Launch, device: torch.device) -> object:
        returned = self._called(scores, launch.lengths.to(device, copy=True), launch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return returned

    def _selected(self, returned: object, launch: Launch, device: torch.device) -> torch.Tensor | str:
        """The selections of the slots, int32 [slots, k] on the CPU, or what is wrong with them in words."""
        if not isinstance(returned, torch.Tensor):
            indices = getattr(returned, "indices", None)
            if not isinstance(indices, torch.Tensor):
                return f"returned {_kind(returned)}; {CONTRACT}, or an object with such indices, is needed"
            returned = indices
        needed = (launch.scores.shape[0], launch.k)
        if returned.dtype not in (torch.int32, torch.int64) or tuple(returned.shape) != needed:
            kind = str(returned.dtype).removeprefix("torch.")
            return f"returned {kind} {shape_text(returned.shape)}; int32 or int64 {list(needed)} is needed"
        if returned.layout is not torch.strided or returned.is_meta or returned.device.type != device.type:
            where = returned.device if returned.layout is torch.strided else returned.layout
            return f"returned indices on {where}; they are needed on {device}, as the scores are"
        indices = returned.detach()[list(launch.slots)].cpu()
        if ((indices < INT32_BOUNDS[0]) | (indices > INT32_BOUNDS[1])).any():
            wrong = indices[(indices < INT32_BOUNDS[0]) | (indices > INT32_BOUNDS[1])][0]
            return f"returned index {int(wrong)}, which is no int32"
        return indices.to(torch.int32, copy=True)


def name_of(function: object) -> str:
    """``module:function``, as far as a callable says; of others the type."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if isinstance(function, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
        return f"torch.ops.{str(function).replace('::', '.')}"
    if not isinstance(name, str):
        return kind_of(function)
    return f"{module}:{name}" if isinstance(module, str) else name


def _takes_starts(function: Callable[..., Any]) -> bool:
    if isinstance(function, torch._ops.OpOverloadPacket):
        schemas = [getattr(function, name)._schema for name in function.overloads()]  # type: ignore[no-untyped-call]
        return any(argument.name == STARTS for schema in schemas for argument in schema.arguments)
    if isinstance(function, torch._ops.OpOverload):
        return any(argument.name == STARTS for argument in function._schema.arguments)
    try:
        return STARTS in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in: it says nothing of itself
        return False


def _copied(scores: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy [rows, width] with the same distance between rows; what lies between them holds -inf."""
    rows, width = scores.shape
    copy = scores.new_full((rows, max(scores.stride(0), width)), -torch.inf, device=device)[:, :width]
    return copy.copy_(scores)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal bit for bit, NaN too; a function may have made anything of ``one``."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.untyped_storage().nbytes() < one.numel() * one.element_size():
        return False
    whole = torch.int32 if one.dtype is torch.float32 else torch.int16
    return torch.equal(one.view(whole), other.to(one.device).view(whole))


def _about(device: torch.device) -> dict[str, str]:
    about = {"torch": str(torch.__version__)}
    return about | {"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else about


def _shown(error: BaseException) -> str:
    """An exception in words, also one that cannot say what it is."""
    try:
        return _told(error)
    except Exception:
        return type(error).__name__


def _told(error: BaseException) -> str:
    """An exception on one line of bounded length."""
    text = said(error)
    if text.startswith("CUDA error"):  # the lines after the first are about debugging
        text = text.partition("\n")[0]
    text = " ".join(text.split())
    text = text if len(text) <= _TOLD else f"{text[:_TOLD]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _kind(returned: object) -> str:
    if isinstance(returned, tuple | list):
        return f"a {type(returned).__name__} of {len(returned)}"
    return "nothing" if returned is None else brief(kind_of(returned))
