"""SGLang's plan on the device that holds the lengths: what it chooses there, no host ever sees."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Planned:
    """Chooses one of several tables by the plan's heuristic whenever it is called, and waits for nothing.

    It is ``workbench.paths.plan.heuristic`` in operations of torch on the current stream.

    Args:
        lengths: int32 [rows] on any device, read at each call.
        plan: (threshold, most rows above it), from the least threshold up.
        tables: [len(plan), …] there, the table of each threshold. active: […], where the chosen one is written.
    """

    def __init__(
        self, lengths: torch.Tensor, plan: Sequence[tuple[int, int]], tables: torch.Tensor, active: torch.Tensor
    ) -> None:
        there, count = lengths.device, len(plan)
        falling = list(reversed(plan))  # it goes down for as long as the rows above are few enough
        self._lengths, self._tables, self._active = lengths[:, None], tables.flip(0).contiguous(), active[None]
        self._thresholds, self._most = (
            torch.tensor([one[at] for one in falling], dtype=torch.int64, device=there) for at in (0, 1)
        )
        self._above = torch.empty((lengths.shape[0], count), dtype=torch.bool, device=there)
        self._counts, self._fits = (torch.empty(count, dtype=torch.int64, device=there) for _ in range(2))
        self._chosen = torch.empty(1, dtype=torch.int64, device=there)

    def __call__(self) -> None:
        """Choose by the lengths as they are."""
        torch.gt(self._lengths, self._thresholds, out=self._above)
        torch.sum(self._above, 0, out=self._counts)
        self._fits.copy_(self._counts <= self._most)
        torch.sum(self._fits.cumprod(0), 0, keepdim=True, out=self._chosen)
        self._chosen.sub_(1).clamp_(min=0)
        torch.index_select(self._tables, 0, self._chosen, out=self._active)
