"""Values that callers and files hand in: checks of them, and how messages show them on one line of bounded length."""

from __future__ import annotations

import numbers
import operator
import os
import re
from collections.abc import Sequence
from typing import Any

from workbench.errors import UsageError
from workbench.words import described as described
from workbench.words import kind_of as kind_of
from workbench.words import printable

_NAME_SHOWN = 120
_EXTENTS_SHOWN = 8
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def path_text(path: object) -> str:
    """A path as a string; bytes are decoded as the file system does.

    Raises:
        UsageError: it is none.
    """
    try:
        return os.fsdecode(path)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"the path is {described(path)}; a string or a path is needed") from None


def shown(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str:
    """A path as printable text on one line, which any Unicode encoding takes."""
    return printable(path_text(path))


def brief(name: str) -> str:
    """A name from a file, its middle left out where it is long."""
    if len(name) <= _NAME_SHOWN:
        return name
    half = (_NAME_SHOWN - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def shape_text(shape: Sequence[int]) -> str:
    """``[2, 3]``; of many dimensions the first, and how many there are."""
    if len(shape) <= _EXTENTS_SHOWN:
        return str(list(shape))
    return f"[{', '.join(map(str, shape[:_EXTENTS_SHOWN]))}, … {len(shape)} dimensions]"


def whole(value: object, name: str, least: int, most: int) -> int:
    """An integer of any integral type, NumPy's too, as an int.

    Raises:
        ValueError: it is none (a bool is none) or outside [least, most]; the message names it.
    """
    number = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None
    if number is None or number < least:
        raise ValueError(f"{name} is {described(value)}; an integer of {least} or more is needed")
    if number > most:
        raise ValueError(f"{name} is {described(number)}; {most} is the most")
    return number


def parse_count(name: str, value: Any) -> int:
    """An integer of at least 1, of a number or of text.

    Raises:
        UsageError: it is none; the message names it.
    """
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise UsageError(f"{name} is {value!r}; an integer of at least 1 is needed")
    return number


def parse_size(name: str, value: Any) -> int:
    """Bytes, of a number or of text as in ``512MiB``.

    Raises:
        UsageError: it is neither; the message names it.
    """
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None or found[2].upper() not in _UNITS:
            raise UsageError(f"{name} is {value!r}; write bytes, as in 1000000, 512MiB or 4GiB")
        value = int(float(found[1]) * _UNITS[found[2].upper()])
    return parse_count(name, value)


def check_text(value: object, name: str) -> None:
    """Whether a value is a string that a file can hold.

    Raises:
        ValueError: it is none; the message names it.
    """
    if not isinstance(value, str):
        raise ValueError(f"{name} is {described(value)}; a string is needed")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{name} {described(value)} is not text that can be stored as UTF-8") from None


def position(number: object, what: str) -> int:
    """The number of a row, call or token, as it is given.

    Raises:
        TypeError: it is no integer; a bool is none.
    """
    try:
        if isinstance(number, bool):
            raise TypeError
        return operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        cure = "; ask for them one by one" if isinstance(number, slice) else ""
        raise TypeError(f"a {what} number is an integer, this is {described(number)}{cure}") from None
