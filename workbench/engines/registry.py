"""The engines by name."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

from workbench.engines.base import Engine
from workbench.engines.cuda.engine import CudaEngine
from workbench.engines.model import ModelEngine
from workbench.engines.recorded import RecordedEngine
from workbench.errors import UsageError

if TYPE_CHECKING:
    from workbench.engines.vendor.engine import VendorEngine

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (ModelEngine(), CudaEngine(), RecordedEngine())}


def get_engine(name: str) -> Engine:
    """The engine of that name; UsageError lists the known ones."""
    if name not in ENGINES:
        raise UsageError(f"unknown engine {name!r}; known engines: {', '.join(ENGINES)}")
    return ENGINES[name]


def vendor_engine(
    release: str | None = None,
    *,
    device: str | None = None,
    call_s: float | None = None,
    allow_hazards: bool = False,
    stop: Event | None = None,
) -> VendorEngine:
    """The real ops of a release, or of what is installed; a context manager that ends its processes.

    Args:
        release: as in ``vllm==0.26.0``. device: of the ops, a GPU by default. call_s: seconds that one call may take.
        allow_hazards: call also where a length is described to hang or to crash the op.
        stop: once set, by another thread, the process that is asked is ended, and the answer says so.

    Raises:
        UsageError: another spelling of a release, or no time.
    """
    from workbench.engines.vendor.engine import CALL_S, VendorEngine

    seconds = CALL_S if call_s is None else call_s
    return VendorEngine(release, device=device, call_s=seconds, allow_hazards=allow_hazards, stop=stop)
