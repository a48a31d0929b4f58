"""The ``recorded`` engine: what production returned, as the capture holds it."""

from __future__ import annotations

from workbench.engines.base import Task
from workbench.paths.selection import Selection


class RecordedEngine:
    """Returns the recorded selection of a row."""

    name = "recorded"
    runs_paths = False
    repeatable = True
    poisons = False

    def refusals(self, task: Task) -> list[str]:
        recorded = task.row.indices
        if recorded is None:
            return ["the capture holds no recorded selection"]
        if recorded.numel() != task.k:
            return [f"the recorded selection has {recorded.numel()} slots, k is {task.k}"]
        return []

    def select(self, task: Task) -> Selection:
        assert task.row.indices is not None
        return Selection(task.row.indices)
