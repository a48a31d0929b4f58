"""Run the model of a path."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.errors import UsageError
from workbench.paths.arrival import Arrival
from workbench.paths.models import buffered, plain, rescans
from workbench.paths.models.tape import Model, Tape
from workbench.paths.selection import UNWRITTEN, Selection
from workbench.paths.spec import Path

# By family, and by the name that a variant gives.
MODELS: dict[str, Model] = {
    "identity": plain.identity,
    "radix": plain.radix,
    "stash": buffered.stock,
    "register": buffered.stock,
    "detect_rescan": rescans.detect_rescan,
}


def run_model(path: Path, scores: torch.Tensor, k: int, arrival: Arrival, variant: str = "stock") -> Selection:
    """Run one path's model.

    Args:
        path: its spec. scores: [length], the valid scores, of a dtype the path takes; length must be at least 1.
        k: winners wanted. arrival: the order in which scores reach the buffer.
        variant: a variant of the path that is modelled.

    Raises:
        UsageError: the path or the variant has no model.
    """
    chosen = path.variant(variant)
    model = MODELS.get(chosen.model or path.family)
    if model is None or not chosen.modelled:
        raise UsageError(f"{path.name} {variant} has no model yet")
    tape = Tape(scores, arrival)
    made = model(path.as_variant(chosen), tape, k)
    out = torch.full((k,), -1, dtype=torch.int32, device=scores.device)
    out[: made.indices.numel()] = made.indices.to(torch.int32)
    out[made.indices.numel() : made.indices.numel() + made.unwritten] = UNWRITTEN
    return Selection(out, replace(made.telemetry, cost=tape.cost))
