"""Python functions that select without an op of torch's dispatcher: wrapped by name, in modules loaded now or later."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from workbench.record import dispatch
from workbench.record.interfaces import Interface

_wrapped: dict[str, tuple[Any, str, Any, Any]] = {}
_awaited: dict[str, list[Interface]] = {}
_users: list[object] = []


def listen(listener: object, interfaces: Sequence[Interface]) -> None:
    """Have these functions tell of their calls; those of a module that is not loaded yet once it is."""
    _users.append(listener)
    for one in interfaces:
        module, _, _ = one.target.partition(":")
        if one not in _awaited.setdefault(module, []):
            _awaited[module].append(one)
        if module in sys.modules:
            _wrap(sys.modules[module], one)
    if _awaited and _WATCH not in sys.meta_path:
        sys.meta_path.insert(0, _WATCH)


def leave(listener: object) -> None:
    """Put every function back once no listener is left."""
    _users[:] = [one for one in _users if one is not listener]
    if _users:
        return
    if _WATCH in sys.meta_path:
        sys.meta_path.remove(_WATCH)
    _awaited.clear()
    for owner, name, original, wrapper in _wrapped.values():
        _replace(owner, name, wrapper, original)
    _wrapped.clear()


def _wrap(module: ModuleType, interface: Interface) -> None:
    if interface.target in _wrapped:
        return
    owner: Any = module
    *path, name = interface.target.partition(":")[2].split(".")
    for part in path:
        owner = getattr(owner, part, None)
    original = vars(owner).get(name) if owner is not None else None
    if not inspect.isfunction(original):
        return
    wrapper = _telling(interface, original)
    _wrapped[interface.target] = (owner, name, original, wrapper)
    _replace(owner, name, original, wrapper)


def _telling(interface: Interface, original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not dispatch.listening():
            return original(*args, **kwargs)

        def given() -> dict[str, Any]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return dict(bound.arguments)

        return dispatch.told(interface, lambda: original(*args, **kwargs), given)

    return wrapper


def _replace(owner: Any, name: str, old: Any, new: Any) -> None:
    """Put ``new`` where ``old`` is: its own place, and what other modules of its package have taken from there."""
    if vars(owner).get(name) is old:
        setattr(owner, name, new)
    if not isinstance(owner, ModuleType):
        return
    package = owner.__name__.partition(".")[0]
    for other in list(sys.modules.values()):
        if isinstance(other, ModuleType) and other.__name__.partition(".")[0] in (package, "__main__"):
            for held, value in list(vars(other).items()):
                if value is old:
                    setattr(other, held, new)


class _Watch:
    """A finder that finds nothing itself: it sees to it that awaited modules are wrapped once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that wraps the functions afterwards."""
        if name not in _awaited:
            return None
        for finder in [one for one in sys.meta_path if one is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _after_loading(spec, name)
                return spec
        return None


def _after_loading(spec: ModuleSpec, name: str) -> None:
    loader: Any = spec.loader
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        for interface in _awaited.get(name, []):
            try:
                _wrap(module, interface)
            except Exception:  # a package of another shape is left as it is
                continue

    loader.exec_module = exec_module


_WATCH: Any = _Watch()
