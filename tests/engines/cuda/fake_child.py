"""A worker whose kernels are played on the CPU: ``FAKE_KERNEL`` says what they do instead of selecting."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch

from workbench.engines import timers
from workbench.engines.cuda import launch, oplaunch
from workbench.engines.cuda.sources import report_ints_of
from workbench.engines.worker import child
from workbench.paths.spans import RESIDUES
from workbench.paths.spec import Path
from workbench.paths.transforms import PageTable


class Played:
    """What ``launch.prepare`` gives, of the best of each row that is taken."""

    def __init__(
        self, path: Path, variant: str, scores: torch.Tensor, lengths: torch.Tensor, k: int, **more: Any
    ) -> None:
        self.launched, self._spans = self, more.get("spans")
        rows = scores.shape[0]
        self._scores, self._lengths, self._k = scores, lengths, k
        self._starts = more.get("starts") if more.get("starts") is not None else torch.zeros_like(lengths)
        self.indices = more.get("output")
        if self.indices is None:
            self.indices = torch.full((rows, k), launch.UNWRITTEN, dtype=torch.int32)
        self._emission, self.positions = more.get("emission"), None
        self._reports = torch.zeros((rows, report_ints_of(path, variant)), dtype=torch.int32)

    def __call__(self) -> None:
        how = os.environ.get("FAKE_KERNEL", "")
        if how == "hang":
            time.sleep(3600)
        if how == "abort":
            print("the driver said this", flush=True)
            os.abort()
        if how == "fault":
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nand how to debug it")
        for row, (length, start) in enumerate(zip(self._lengths.tolist(), self._starts.tolist(), strict=True)):
            first, last = (0, length) if self._spans is None else self._spans[start % RESIDUES].tolist()
            if first <= length <= last:
                self.indices[row] = self._scores[row, start : start + length].topk(self._k).indices

        if self._emission is not None:
            (self.positions,), (table,) = [self.indices.clone()], self._emission.tables
            mapped = PageTable(table, self._emission.page_size)
            self.indices = torch.stack([mapped.apply(one, None) for one in self.positions])

    def told(self) -> dict[str, torch.Tensor]:
        return {"reports": self._reports}


if __name__ == "__main__":
    launch.prepare = timers.prepare = oplaunch.prepare = Played  # type: ignore[assignment, misc]
    sys.exit(child.main(sys.argv[1:]))
