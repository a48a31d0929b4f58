"""Top-k regression tests: ``assert_topk`` and ``TopkCase``, and the pytest plugin that makes cases of fixture files.

Nothing is imported before it is used: pytest loads the plugin in every run, and torch is not to slow those down.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.testing.case import TopkCase, load_case
    from workbench.testing.check import assert_topk

__all__ = ["TopkCase", "assert_topk", "load_case"]

_HOMES = {"TopkCase": "case", "assert_topk": "check", "load_case": "case"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
