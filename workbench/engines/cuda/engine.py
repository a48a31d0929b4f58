"""The ``cuda`` engine: a path's own kernel on a row."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.capture.row import Row
from workbench.engines.base import Task
from workbench.engines.cuda.apart import APART, can_hang
from workbench.engines.cuda.device import unavailable
from workbench.engines.cuda.emission import emission_of, selection_of, unreturnable
from workbench.engines.cuda.launch import launch, needs_of
from workbench.engines.cuda.sources import kernel_of, without_kernel
from workbench.paths.catalog import find_paths
from workbench.paths.selection import Selection

MOST_DROPPED = 1 << 16  # members that are listed in the telemetry of a row


class CudaEngine:
    """Runs the workbench's CUDA kernel of a path; what arrives first is decided by the device.

    Kernels whose blocks wait for each other run in a process of their own, which may hang or fault alone.
    """

    name = "cuda"
    runs_paths = True
    repeatable = False
    poisons = True

    def refusals(self, task: Task) -> list[str]:
        assert task.path is not None
        path, row = task.path, task.row
        kernel = kernel_of(path, task.variant)
        if kernel is None:
            return [without_kernel(path, task.variant)]
        if row.dtype in path.dtypes and not kernel.takes(row.dtype):
            return [f"scores are {row.dtype}, the CUDA kernel of {path.name} takes {kernel.dtype}"]
        if row.outside:
            return [f"length {row.length} leaves the row: the cuda engine reads no cell outside it"]
        reasons = path.as_variant(path.variant(task.variant)).unmet(k=task.k, length=row.length, dtype=row.dtype)
        reasons += unreturnable(row.mapped, row.length)
        if reasons or unavailable():
            return reasons or unavailable()
        device = _device_of(row.scores).index
        return needs_of(path, task.variant, device, rows=1, width=_width_of(row), k=task.k)

    def select(self, task: Task) -> Selection:
        """On the row's own device if it lies on one, else the current one; the selection is where the row is.

        A row whose capture holds how the op mapped its indices is mapped alike; what comes back is turned back into
        positions, as a recorded selection is.

        Raises:
            SelectionFaultError: the kernel did not return.
        """
        assert task.path is not None
        row, device = task.row, _device_of(task.row.scores)
        listed = min(row.length, MOST_DROPPED)
        if can_hang(task.path, task.variant) and task.path in find_paths(task.path.name):
            made = APART.select(task, device, _width_of(row), listed)
            returned = None if made.returned is None else made.returned.to(row.scores.device)
            return replace(made, indices=made.indices.to(row.scores.device), returned=returned)
        scores = row.scores.to(device)[None]
        lengths, starts = (torch.tensor([one], dtype=torch.int32, device=device) for one in (row.length, row.start))
        emission = emission_of(row.mapped, device)
        launched = launch(
            task.path,
            task.variant,
            scores,
            lengths,
            task.k,
            starts=starts,
            emission=emission,
            positions=emission is not None,
            width=_width_of(row),
            histograms=True,
            dropped=listed,
        )
        return selection_of(row, launched.indices, launched.positions, launched.reports[0].telemetry)


def _width_of(row: Row) -> int:
    """Padded columns of the row's call, of which the row here may have fewer."""
    return max(row.call.width or 0, row.scores.numel())


def _device_of(scores: torch.Tensor) -> torch.device:
    return scores.device if scores.is_cuda else torch.device("cuda", torch.cuda.current_device())
