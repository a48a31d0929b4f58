"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Iterable


def listed(items: Iterable[object], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``; empty for no items."""
    words = [str(item) for item in items]
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), "".join(words[-1:]))))
