"""The engines by name."""

from __future__ import annotations

from workbench.engines.base import Engine
from workbench.engines.model import ModelEngine
from workbench.engines.recorded import RecordedEngine
from workbench.errors import UsageError

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (ModelEngine(), RecordedEngine())}


def get_engine(name: str) -> Engine:
    """The engine of that name; UsageError lists the known ones."""
    if name not in ENGINES:
        raise UsageError(f"unknown engine {name!r}; known engines: {', '.join(ENGINES)}")
    return ENGINES[name]
