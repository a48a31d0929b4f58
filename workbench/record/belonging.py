"""What recorded calls belong to: a step, a layer and a request, as the program tells them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from workbench.errors import UsageError

_HERE: ContextVar[dict[str, Any]] = ContextVar("workbench_record_here", default={})  # noqa: B039  never written to


class Belonging:
    """What the calls belong to, from now on or within a block.

    Args:
        step, layer: of calls that no block says otherwise of: an integer, or a function that gives one.

    Raises:
        UsageError: one of them is neither.
    """

    def __init__(self, *, step: Any = None, layer: Any = None) -> None:
        for name, value in (("step", step), ("layer", layer)):
            if not (value is None or callable(value) or (isinstance(value, int) and not isinstance(value, bool))):
                raise UsageError(f"{name} is {value!r}; an integer, or a function that gives one, is needed")
        self._told: dict[str, Any] = {"step": step, "layer": layer}

    def step(self, number: int | None) -> None:
        """The calls from now on, of every thread, are of this decoding step."""
        self._told["step"] = number

    def layer(self, number: int | None) -> None:
        """The calls from now on, of every thread, are of this layer."""
        self._told["layer"] = number

    @contextlib.contextmanager
    def at(self, *, step: int | None = None, layer: int | None = None, request: str | None = None) -> Iterator[None]:
        """The calls of this thread or task within the block are of this step, layer and request."""
        here = {"step": step, "layer": layer, "request": request}
        token = _HERE.set({**_HERE.get(), **{name: value for name, value in here.items() if value is not None}})
        try:
            yield
        finally:
            _HERE.reset(token)

    def _here(self, request: str | None) -> dict[str, Any]:
        """What a call of this thread or task belongs to now; ``request``: where no block says another."""
        told = {name: value() if callable(value) else value for name, value in self._told.items()}
        return {"request": request, **told, **_HERE.get()}
