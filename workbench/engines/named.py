"""Callables by name, as the command line gives them: ``package.module:function`` or ``torch.ops.library.op``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.capture.values import brief
from workbench.engines.callable import CallableEngine
from workbench.errors import UsageError
from workbench.words import few

TORCH_OPS = "torch.ops."
SPELLING = "write it as in package.module:function"


def is_callable_name(text: str) -> bool:
    """Whether a text can only name a callable: ops of the workbench have neither a colon nor torch's prefix."""
    return ":" in text or text.startswith(TORCH_OPS)


def named_engine(text: str, device: str | None = None) -> CallableEngine:
    """The engine of a callable by name.

    Args:
        text: ``package.module:function`` (dots lead further in, as in ``module:Class.method``), or an op that torch
            knows, ``torch.ops.library.op``. The current folder is looked in first.
        device: where it runs, as in ``cuda``.

    Raises:
        UsageError: another spelling, a module that cannot be imported, or nothing callable of that name.
    """
    return CallableEngine(_torch_op(text) if text.startswith(TORCH_OPS) else _function(text), text, device)


def import_named(module: str) -> object:
    """A module by name, looked for in the current folder first, and from now on for its own imports too.

    Raises:
        UsageError: there is none, or importing it fails; the message says what it raised.
    """
    if not _dotted(module):
        raise UsageError(f"{brief(module)!r} is no name of a module; {SPELLING}")
    if module.endswith(".py"):
        raise UsageError(f"{brief(module)!r} names a file; write its module, {brief(module.removesuffix('.py'))}")
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
        raise UsageError(f"importing {module} failed: {type(error).__name__}: {brief(str(error))}") from None


def _function(text: str) -> Callable[..., Any]:
    module, _, name = text.partition(":")
    if not _dotted(module) or not _dotted(name):
        raise UsageError(f"{brief(text)!r} names no callable; {SPELLING}")
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
    import torch

    library, _, name = text.removeprefix(TORCH_OPS).partition(".")
    if not _dotted(library) or not _dotted(name):
        raise UsageError(f"{brief(text)!r} names no op of torch; write it as in torch.ops.library.op")
    found: Any = getattr(torch.ops, library)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise UsageError(f"torch has no op {text}; import what registers it (--import package.module)") from None
    if not isinstance(found, torch._ops.OpOverloadPacket | torch._ops.OpOverload):
        raise UsageError(f"{text} is no op of torch; write it as in torch.ops.library.op")
    return found


def _dotted(text: str) -> bool:
    return bool(text) and all(part.isidentifier() for part in text.split("."))
