"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def listed(items: Iterable[object], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``; empty for no items."""
    words = [str(item) for item in items]
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), "".join(words[-1:]))))


def few(items: Iterable[object], most: int = 3) -> str:
    """The first items of a list and how many more there are: ``3, 9, 12 and 40 more``."""
    words = [str(item) for item in items]
    return listed(words if len(words) <= most + 1 else [*words[:most], f"{len(words) - most} more"])
