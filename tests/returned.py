"""Which classes of the workbench the public surface hands out, by its annotations."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import workbench as wb
from workbench.rendering import Rendered

OWN = "workbench."


def returned() -> dict[type, str]:
    """Classes by what hands them out first, as in ``wb.run().lines``: the public ones, what public functions return,
    and what attributes of results hold and methods of results return, of results that are reached so as well."""
    found: dict[type, str] = {}
    waiting: list[type] = []

    def add(kinds: Iterator[type], how: str) -> None:
        for kind in kinds:
            if kind.__module__.startswith(OWN) and kind not in found:
                found[kind] = how
                waiting.append(kind)

    for name in wb.__all__:
        public = getattr(wb, name)
        add(iter([public]) if isinstance(public, type) else _of(public, "return"), f"wb.{name}")
    while waiting:
        kind = waiting.pop(0)
        if issubclass(kind, Rendered):
            for name, kinds in _held(kind):
                add(kinds, f"{found[kind]}.{name}")
    return found


def _held(kind: type) -> Iterator[tuple[str, Iterator[type]]]:
    """Names of a class with the classes of their values, or of what they return."""
    for name, one in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        if isinstance(one, property) and one.fget is not None:
            yield name, _of(one.fget, "return")
        elif isinstance(one, cached_property):
            yield name, _of(one.func, "return")
        elif isinstance(one, classmethod | staticmethod):
            yield name, _of(one.__func__, "return")
        elif inspect.isfunction(one):
            yield name, _of(one, "return")
    for field in fields(kind) if is_dataclass(kind) else ():
        home = next(base for base in kind.__mro__ if field.name in vars(base).get("__annotations__", {}))
        yield field.name, _parts(_evaluated(field.type, home.__module__))
    if not is_dataclass(kind):  # what such a result is made of it commonly holds
        for name in inspect.signature(kind).parameters:
            yield name, _of(kind.__init__, name)  # type: ignore[misc]


def _of(function: Callable[..., object], name: str) -> Iterator[type]:
    plain = inspect.unwrap(function)
    return _parts(_evaluated(plain.__annotations__.get(name), plain.__module__))


def _parts(hint: Any) -> Iterator[type]:
    inner = get_args(hint)
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        yield hint
    for one in inner:
        yield from _parts(one)


def _evaluated(hint: object, module: str) -> Any:
    return eval(hint, _names(module)) if isinstance(hint, str) else hint


@cache
def _names(module: str) -> dict[str, Any]:
    """The names of a module, those too that it imports for annotations alone."""
    home = sys.modules[module]
    names = dict(vars(home))
    assert home.__file__ is not None
    for block in ast.parse(Path(home.__file__).read_text()).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                for one in getattr(line, "names", ()):
                    if isinstance(line, ast.ImportFrom):
                        names[one.asname or one.name] = getattr(import_module(str(line.module)), one.name)
                    else:
                        names[one.asname or one.name] = import_module(one.name)
    return names
