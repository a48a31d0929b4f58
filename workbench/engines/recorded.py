"""The ``recorded`` engine: what production returned, as the capture holds it."""

from __future__ import annotations

from workbench.engines.base import Task
from workbench.errors import UsageError
from workbench.paths.selection import Selection
from workbench.paths.transforms.recorded import recorded_positions


class RecordedEngine:
    """Returns the recorded selection of a row as positions; refused where these cannot be told."""

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
        try:
            recorded_positions(task.row)
        except UsageError as error:
            return [str(error)]
        return []

    def select(self, task: Task) -> Selection:
        return Selection(recorded_positions(task.row))
