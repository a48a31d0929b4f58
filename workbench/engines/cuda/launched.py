"""What a launch of a kernel returned: the output, how it was launched, and what the kernel told of its inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from workbench.engines.cuda.reports import Report, read_report
from workbench.engines.cuda.sources import telemetry_of, unbinned_of
from workbench.paths.spec import Path

TOLD = ("reports", "histograms", "dropped")


@dataclass(frozen=True)
class Geometry:
    """How a kernel was launched.

    Attributes:
        blocks, threads: of the grid, and of a block. blocks_a_row: that share a row. shared_bytes: dynamic, of a block.
        registers, spilled_bytes: of a thread, as compiled.
        resident_clusters: how many rows' clusters the device runs at once; ``None`` where blocks form none.
    """

    blocks: int
    threads: int
    shared_bytes: int
    registers: int
    spilled_bytes: int
    blocks_a_row: int = 1
    resident_clusters: int | None = None


@dataclass(frozen=True, eq=False)
class Launched:
    """What a launch returned.

    Attributes:
        indices: int32 [rows, k] on the device, relative to the rows' starts, or what stands for them by the launch's
            ``emission``; -1 marks an empty slot, ``UNWRITTEN`` one never written.
        reports: of each row, read when first asked for; none without telemetry. geometry: of the launch.
        positions: int32 [rows, k], which stand beside the indices where these are none; ``None`` if not asked for.
    """

    indices: torch.Tensor
    geometry: Geometry
    _reports: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None] | None
    _of: tuple[Path, str, int]
    positions: torch.Tensor | None = None

    @property
    def reports(self) -> list[Report]:
        """The inside of every selection; waits for the launch to end."""
        return reports_of(*self._of, self.told())

    def told(self) -> dict[str, torch.Tensor]:
        """What the kernels wrote of their inside, on the CPU, by the names of ``TOLD``; waits for the launch to end."""
        told = zip(TOLD, self._reports or (), strict=False)
        return {name: one.cpu() for name, one in told if one is not None}


def reports_of(path: Path, variant: str, k: int, told: Mapping[str, torch.Tensor]) -> list[Report]:
    """The inside of every selection of a launch from what its kernel told; none without telemetry."""
    if TOLD[0] not in told:
        return []
    begun, unbinned = telemetry_of(path, variant, k), unbinned_of(path, variant, k)
    histograms, dropped = (told.get(name) for name in TOLD[1:])
    return [
        read_report(
            row.tolist(),
            begun,
            None if histograms is None else histograms[at],
            None if dropped is None else dropped[at],
            unbinned,
        )
        for at, row in enumerate(told[TOLD[0]])
    ]
