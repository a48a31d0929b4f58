"""Strict JSON for machines: one document on stdout, nothing else.

Numbers that JSON does not know are the strings ``"nan"``, ``"inf"`` and ``"-inf"``; unknown values are ``null``.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum


def plain(value: object) -> object:
    """A value as dictionaries, lists, strings, numbers, booleans and ``None``; dataclasses by their fields.

    Raises:
        TypeError: something else, as a tensor: what is not meant for JSON must not slip into it.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):  # half characters, as file names can hold, have no place in UTF-8
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no place in a JSON document")


def dumps(value: object) -> str:
    """One JSON document; ASCII, so that no terminal encoding can spoil it."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(dumps(value) + "\n")
