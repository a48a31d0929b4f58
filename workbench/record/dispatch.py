"""Where calls are caught: a kernel in torch's dispatcher above every backend, active in every thread of the process.

A ``TorchDispatchMode`` is of one thread. A kernel under ``BackendSelect`` is of the process: that key is in the set
that every thread starts with, inference mode included; it lies below autograd, tracing and dispatch modes, so that what
arrives has values (fake and meta tensors apart), and above the backends. It can be registered before its op is: a
library that loads later is caught as well. The kernel hands on to the same op below the key.

Entering and leaving are sound while other threads call: a kernel is put in place whole before calls go to it. Taking
one out is not, since a thread may be on its way into it, waiting for the interpreter's lock. So a kernel is taken out
only while no other Python thread lives; otherwise it stays and hands on, which costs microseconds a call, and goes at
the next occasion.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch.library import Library

from workbench.record.interfaces import INTERFACES, TOPK, Interface
from workbench.record.reading import Seen, UnreadError, read

_KEY = "BackendSelect"
_LIBRARY: Any = Library  # untyped in torch


class Listener(Protocol):
    """What is told of calls. Nothing that it raises but ``KeyboardInterrupt`` and the like reaches the program."""

    def wants(self, interface: Interface) -> bool:
        """Whether calls of this op are to be told now."""

    def before(self, seen: Seen) -> Any:
        """A call is about to be made; ``None`` if it is not to be told of what comes back."""

    def after(self, taken: Any, returned: Any) -> None:
        """The call was made: what ``before`` returned, and what the op did."""

    def raised(self, taken: Any) -> None:
        """The op raised."""

    def unread(self, interface: Interface, reason: str) -> None:
        """A call that cannot be told of, and why."""

    def broken(self, error: Exception) -> None:
        """One of the others raised."""

    def forked(self) -> None:
        """This is a new process, which has inherited the listener."""


class _Thread(threading.local):
    """Attributes: inside: calls and listeners that this thread is in. seam: the Python seam that it is in, if any."""

    inside = 0
    seam: set[int] | None = None


_thread = _Thread()
_lock = threading.RLock()
_listeners: tuple[Listener, ...] = ()
_kernels: dict[str, Any] = {}


class unrecorded:  # noqa: N801  used as a function; a class, since every call of the program's enters it
    """What this thread calls meanwhile is no call of the program's, and no mode of the program's changes it."""

    __slots__ = ("_grad", "_modes")

    def __enter__(self) -> None:
        _thread.inside += 1
        self._modes: Any = torch._C.DisableTorchFunction()
        self._modes.__enter__()
        self._grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *error: object) -> None:
        torch._C._set_grad_enabled(self._grad)
        self._modes.__exit__(*error)
        _thread.inside -= 1


def listen(listener: Listener, targets: tuple[Interface, ...]) -> None:
    """Tell a listener of all calls of these ops, from now on and in every thread."""
    global _listeners
    with _lock:
        for one in targets:
            if one.dispatched and one.target not in _kernels:
                _kernels[one.target] = _put_in(one)
        _listeners = (*_listeners, listener)


def leave(listener: Listener) -> None:
    """Tell a listener no more."""
    global _listeners
    with _lock:
        _listeners = tuple(one for one in _listeners if one is not listener)
        alone = len(sys._current_frames()) == 1 and not _thread.inside
        for target in [target for target in _kernels if alone and not _listeners]:
            _kernels.pop(target)._destroy()


def in_place() -> tuple[str, ...]:
    """The ops whose calls pass through here now."""
    return tuple(_kernels)


def _put_in(interface: Interface) -> Any:
    namespace, _, name = interface.target.partition("::")
    below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    found: list[Any] = []

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if not found:  # the op may have been registered after this
            packet, _, overload = name.partition(".")
            found.append(getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default"))
        op, rest = found[0], keys & below
        if not _listeners or _thread.inside:
            return op.redispatch(rest, *args, **kwargs)
        return told(interface, lambda: op.redispatch(rest, *args, **kwargs), lambda: interface.named(args, kwargs))

    library: Any = _LIBRARY(namespace, "IMPL")
    library.impl(name, kernel, _KEY, with_keyset=True)
    return library


def told(interface: Interface, call: Callable[[], Any], given: Callable[[], Mapping[str, Any]]) -> Any:
    """Make a call and tell the listeners of it.

    Calls within an op of the dispatcher are the op's own business. Within a Python seam an op that a listener is told
    of stands for the seam, except ``torch.topk``, which knows less than the seam does.
    """
    outer = _thread.seam
    pending = _before(interface, given)
    if outer is not None:
        outer.update(id(listener) for listener, _ in pending)
    if interface.dispatched:
        _thread.inside += 1
    else:
        _thread.seam = set()
    try:
        returned = call()
    except BaseException:
        _leave_call(interface, outer)
        _each(pending, lambda listener, taken: listener.raised(taken))
        raise
    inner = _leave_call(interface, outer)
    _each(
        [one for one in pending if id(one[0]) not in inner],
        lambda listener, taken: listener.after(taken, returned),
    )
    return returned


def _leave_call(interface: Interface, outer: set[int] | None) -> set[int]:
    """The listeners that were told of an op within a seam."""
    if interface.dispatched:
        _thread.inside -= 1
        return set()
    inner = _thread.seam or set()
    _thread.seam = outer
    return inner


def _before(interface: Interface, given: Callable[[], Mapping[str, Any]]) -> list[tuple[Listener, Any]]:
    if interface.op == TOPK and _thread.seam is not None:
        return []
    listeners = [(one, None) for one in _listeners if one.wants(interface)]
    if not listeners:
        return []
    try:
        with unrecorded():
            seen = read(interface, given())
    except UnreadError as error:
        reason = str(error)
        _each(listeners, lambda listener, _: listener.unread(interface, reason))
        return []
    except torch.OutOfMemoryError as error:
        broken = error
        _each(listeners, lambda listener, _: listener.broken(broken))
        return []
    except Exception as error:  # of arguments that the op will not take either, or takes and this does not know
        reason = f"arguments that cannot be read ({type(error).__name__}: {' '.join(str(error).split())})"
        _each(listeners, lambda listener, _: listener.unread(interface, reason))
        return []
    answers = _each(listeners, lambda listener, _: listener.before(seen))
    return [(one, taken) for (one, _), taken in zip(listeners, answers, strict=True) if taken is not None]


def _each(listeners: list[tuple[Listener, Any]], tell: Callable[[Listener, Any], Any]) -> list[Any]:
    """What each listener answers; ``None`` where it raises, which it is told of."""
    answers = []
    for listener, taken in listeners:
        try:
            with unrecorded():
                answers.append(tell(listener, taken))
        except Exception as error:
            answers.append(None)
            with contextlib.suppress(Exception):
                listener.broken(error)
    return answers


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()
    _thread.inside = 0
    for listener in _listeners:
        with contextlib.suppress(Exception):
            listener.forked()


os.register_at_fork(after_in_child=_in_child)


def wanted(pattern: Callable[[str], bool]) -> tuple[Interface, ...]:
    """The interfaces whose op's name a pattern takes."""
    return tuple(one for one in INTERFACES if pattern(one.op))


def listening() -> bool:
    """Whether a call that this thread makes now is told to anybody."""
    return bool(_listeners) and not _thread.inside
