"""Kernels that can hang, run in a process of their own: what they do instead of returning is told in words."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import torch

from workbench.engines.base import SelectionFaultError, Task
from workbench.engines.cuda.emission import selection_of
from workbench.engines.cuda.launched import reports_of
from workbench.engines.cuda.sources import kernel_of, ranks_of
from workbench.engines.worker.host import LOAD_S, Outcome, Worker, patience
from workbench.engines.worker.parcels import parcel_of
from workbench.engines.worker.wire import Message, Parcel, pack
from workbench.errors import UsageError
from workbench.paths.selection import Selection
from workbench.paths.spec import Path

CALL_S = 20.0


def can_hang(path: Path, variant: str) -> bool:
    """Whether blocks of a variant's kernel wait for each other."""
    kernel = kernel_of(path, variant)
    return kernel is not None and (kernel.waits or ranks_of(path, variant) is not None)


class Apart:
    """The process that runs them, by device; started when first asked, and anew after a fault."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._one = threading.Lock()

    def ask(
        self, device: torch.device, request: Message, tensors: Mapping[str, Parcel | torch.Tensor], call_s: float
    ) -> Outcome:
        """Ask the process of a device; one thread at a time."""
        with self._one:
            worker = self._workers.setdefault(str(device), Worker("cuda", {"device": str(device)}))
            return worker.ask(request, tensors, patience(call_s, LOAD_S))

    def select(self, task: Task, device: torch.device, width: int, listed: int) -> Selection:
        """The selection of a task, on the CPU.

        Args:
            device: that runs it. width: padded columns of the row's call. listed: how many dropped members are told.

        Raises:
            SelectionFaultError: it hung, crashed or faulted, or there is no memory for a copy of the row.
            UsageError: the device does not run it.
        """
        assert task.path is not None
        row, path = task.row, task.path
        request: Message = {
            "path": path.name,
            "variant": task.variant,
            "k": task.k,
            "length": row.length,
            "start": row.start,
            "width": width,
            "dropped": listed,
        }
        try:
            parcels = {"scores": parcel_of(row.scores)}
            if row.mapped is not None:
                request["mapped"] = [row.mapped.returned, row.mapped.page_size, row.mapped.offset]
                if row.mapped.table is not None:
                    parcels["table"] = pack(row.mapped.table)
        except OSError as error:
            raise UsageError(f"there is no memory for a copy of the row: {error}") from None
        outcome = self.ask(device, request, parcels, CALL_S if task.call_s is None else task.call_s)
        if outcome.refused:
            raise UsageError("; ".join(outcome.refused))
        if outcome.data is None:
            raise SelectionFaultError(outcome.fault)
        (report,) = reports_of(path, task.variant, task.k, outcome.tensors)
        return selection_of(row, outcome.tensors["indices"], outcome.tensors.get("positions"), report.telemetry)

    def close(self) -> None:
        """End the processes."""
        with self._one:
            while self._workers:
                self._workers.popitem()[1].close()


APART = Apart()
