"""Arguments of public functions held against their annotations, so that a wrong one is told in words at the door."""

from __future__ import annotations

import collections.abc as abc
import inspect
import math
import numbers
import os
import types
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from workbench.errors import UsageError
from workbench.words import described, listed

P = ParamSpec("P")
R = TypeVar("R")

_WORDS: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    bytes: "bytes",
    types.NoneType: "None",
    os.PathLike: "a path",
    abc.Callable: "a function",
    abc.Mapping: "a mapping",
}
_SEVERAL = (abc.Sequence, abc.Iterable)
_MOST_BITS = 128
# Looking at their items reads nothing from a disk.
_HELD = (list, tuple, set, frozenset, deque, abc.KeysView, abc.ValuesView)


class _UnfitError(Exception):
    """The value is of another type."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A function that refuses arguments which are not what it is annotated with, in words.

    Items of lists and the like are looked at before the call, those of an iterator as it yields them. An integer of any
    integral type, NumPy's too, arrives as an ``int``; no other value is changed, and a bool is no number. What has no
    annotation, as ``self``, is taken as it is.

    Raises:
        UsageError: from the function, before it runs: which argument, what it is and what it must be.
    """
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # Python's own words for a missing or an unknown name
        if not hints:
            hints.update(_of_parameters(function))
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(_fitted(name, one, hints.get(name, Any)) for one in value)
            elif kind is not inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = _fitted(name, value, hints.get(name, Any))
        return function(*bound.args, **bound.kwargs)

    return call


def check_fields(made: object) -> None:
    """Hold the fields of a frozen dataclass against their annotations, as ``checked`` does; for ``__post_init__``.

    Raises:
        UsageError: which field, what it is and what it must be.
    """
    fields = vars(made)
    for name, hint in _hints_of(cast("abc.Hashable", type(made))).items():
        fields[name] = _fitted(name, fields[name], hint)


def _of_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Without what is returned, which can be of a library that is not imported yet."""

    def taken() -> None: ...

    taken.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    return get_type_hints(taken, function.__globals__)


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _fitted(name: str, value: object, hint: Any) -> Any:
    """A value as the function shall have it."""
    try:
        return _fit(name, value, hint)
    except _UnfitError:
        wanted = listed(dict.fromkeys(_words(one) for one in _kinds(hint)), "or")
        named = "a Row" in wanted and isinstance(value, str | os.PathLike)
        cure = "; open a file first: workbench.open(…)" if named else ""
        raise UsageError(f"{name} is {described(value)}; it must be {wanted}{cure}") from None


def _kinds(hint: Any) -> list[Any]:
    """What a hint offers, one by one."""
    return (
        [one for part in get_args(hint) for one in _kinds(part)]
        if get_origin(hint) in (Union, types.UnionType)
        else [hint]
    )


def _fit(name: str, value: object, hint: Any) -> Any:
    offered = _kinds(hint)
    if len(offered) > 1:
        for one in offered:
            try:
                return _fit(name, value, one)
            except _UnfitError:
                continue
        raise _UnfitError
    origin, items = get_origin(hint) or hint, get_args(hint)
    if origin is Any or origin is object:
        return value
    if origin is Literal:  # which of them is for the function to say
        fits: bool = isinstance(value, tuple({type(one) for one in items}))
    elif origin is int or origin is float:
        number = numbers.Integral if origin is int else numbers.Real
        if isinstance(value, bool) or not isinstance(value, number):
            raise _UnfitError
        if not isinstance(value, numbers.Integral):
            return value
        if (bits := int(value).bit_length()) > _MOST_BITS:  # no bound is beyond, and messages could not write it
            raise UsageError(f"{name} is an integer of {bits} bits; one of at most {_MOST_BITS} is needed")
        return int(value)
    elif origin is abc.Callable:
        fits = callable(value)
    elif origin in _SEVERAL:
        return _several(name, value, items[0] if items else Any)
    elif getattr(origin, "_is_protocol", False):
        members = {*vars(origin), *vars(origin).get("__annotations__", ())}
        fits = all(_has(value, one) for one in members if not one.startswith("_"))
    else:
        fits = isinstance(value, origin)
    if not fits:
        raise _UnfitError
    return value


def _several(name: str, value: object, item: Any) -> Any:
    """Items one after another; text is one, and so is an array."""
    if isinstance(value, str | bytes | abc.Mapping) or hasattr(value, "__array__") or not hasattr(value, "__iter__"):
        raise _UnfitError
    if isinstance(value, abc.Iterator):
        return _each(name, value, item)
    if isinstance(value, _HELD):
        items = list(_each(name, iter(value), item))
        return value if all(one is two for one, two in zip(items, value, strict=True)) else items
    if isinstance(value, range):  # alike, all of them
        _fitted(f"item 0 of {name}", value.start, item)
    return value


def _each(name: str, items: Iterator[object], hint: Any) -> Iterator[Any]:
    for at, one in enumerate(items):
        yield _fitted(f"item {at} of {name}", one, hint)


def _words(hint: Any) -> str:
    origin = get_origin(hint) or hint
    if origin in _SEVERAL:
        items = [_words(one) for one in _kinds(get_args(hint)[0])]
        return f"a sequence (each {listed(items, 'or')})"
    if origin in _WORDS:
        return _WORDS[origin]
    name = getattr(origin, "__name__", str(origin))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _has(value: object, name: str) -> bool:
    """Whether it has a member; a property is not asked for it, which may be at a cost."""
    missing = object()
    return inspect.getattr_static(value, name, missing) is not missing or (
        hasattr(type(value), "__getattr__") and hasattr(value, name)
    )


def check_timeout(seconds: object) -> None:
    """Whether something may take so many seconds; ``None`` is no bound of the caller's.

    Raises:
        UsageError: no such time.
    """
    fits = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf
    if seconds is not None and not fits:
        raise UsageError(f"the timeout is {described(seconds)}; a positive number of seconds is needed")
