"""The ``model`` engine: the path's model on the device that holds the row."""

from __future__ import annotations

from workbench.engines.base import Task
from workbench.paths.faults import Counts, finding
from workbench.paths.lengths import Window, effect, unmet_outside
from workbench.paths.model import run_model
from workbench.paths.selection import Selection, first_indices


class ModelEngine:
    """Runs the model of a path under the task's arrival order, with full telemetry."""

    name = "model"
    runs_paths = True
    repeatable = False
    poisons = True

    def refusals(self, task: Task) -> list[str]:
        assert task.path is not None
        variant = task.path.variant(task.variant)
        window = Window.of(task.row)
        does = effect(task.path, variant, window, task.k)
        if does is not None:
            reasons = unmet_outside(task.path, variant, window, does, k=task.k, dtype=task.row.dtype)
            if reasons or does.defined:
                return reasons
            return [does.words]
        reasons = task.path.as_variant(variant).unmet(k=task.k, length=task.row.length, dtype=task.row.dtype)
        told = None if reasons else finding(task.path, variant, task.counts or Counts(task.row.valid, task.k))
        if told is not None and not told.runs:
            reasons.append(f"{task.path.name} {task.variant} is not run: {told.words}")
        elif not variant.modelled:
            reasons.append(f"{task.path.name} {task.variant} has no model")
        return reasons

    def select(self, task: Task) -> Selection:
        assert task.path is not None
        row = task.row
        variant, scores = task.path.variant(task.variant), row.valid
        does = effect(task.path, variant, Window.of(row), task.k)
        if does is not None and does.first is not None:
            return first_indices(does.first, task.k, scores.device)
        keys = None if task.counts is None else task.counts.keys
        if does is not None and does.cells is not None:
            scores, keys = scores[: does.cells], None
        return run_model(
            task.path, scores, task.k, task.arrival, task.variant, width=row.call.width, start=row.start, row=keys
        )
