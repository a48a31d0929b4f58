"""What is timed in this process: torch's own top-k, functions of the user's, and the workbench's models and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from workbench.engines.cuda.device import unavailable
from workbench.engines.cuda.launch import launch as launch_kernel
from workbench.engines.cuda.launch import needs_of
from workbench.engines.cuda.sources import kernel_of, without_kernel
from workbench.engines.launch import Answer, Launch
from workbench.engines.timing import Sampling, sample
from workbench.paths.arrival import Arrival
from workbench.paths.model import run_model
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path
from workbench.words import listed

TOPK = "torch.topk"
TOPK_NOTE = "torch.topk is given a copy in which the cells past each row's length hold -inf, made before the calls"
NO_KERNEL_NEEDED = "no row is longer than k, so that no kernel selects"


@dataclass(frozen=True)
class Taken:
    """A row's path and variant."""

    path: Path
    variant: str


class TopkTimer:
    """``torch.topk`` on whole rows, the baseline; the copy without padding is made before the calls."""

    name = TOPK

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Time it on the device of the scores."""
        width = launch.scores.shape[1]
        if launch.k > width:
            return Answer(refused=(f"torch.topk takes k up to the width, {width}, not k {launch.k}",))
        cells = torch.arange(width, device=launch.scores.device)
        lengths = launch.lengths.to(launch.scores.device)[:, None]
        scores = launch.scores.masked_fill(cells >= lengths, -torch.inf)
        out: list[torch.Tensor] = []

        def call() -> None:
            out[:] = [torch.topk(scores, launch.k, dim=1).indices]

        call()
        first = out[0]
        times = sample(call, _nothing, sampling, launch.scores.device)
        made = torch.stack([first, out[0]])
        made = torch.where(made < lengths, made, -1)  # winners of the -inf past a short row
        notes = (TOPK_NOTE,) if bool((launch.lengths < width).any()) else ()
        return Answer(made.to(torch.int32).cpu(), notes=notes, times=times)

    def close(self) -> None:
        """It holds nothing."""


class ModelTimer:
    """The models of the rows' paths, one row after another, each in a random arrival order of its own.

    Args:
        taken: of each row of the batch. seed: of the arrival orders.
    """

    name = "model"

    def __init__(self, taken: Sequence[Taken], seed: int = 0) -> None:
        self._taken, self._seed = taken, seed

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Time them on the device of the scores."""
        reasons = _unmet(self._taken, launch)
        for one in dict.fromkeys(self._taken):
            if not one.path.variant(one.variant).modelled:
                reasons.append(f"{one.path.name} {one.variant} has no model")
        if reasons:
            return Answer(refused=tuple(reasons))
        lengths, width = launch.lengths.tolist(), launch.scores.shape[1]
        out = torch.empty((len(lengths), launch.k), dtype=torch.int32, device=launch.scores.device)

        def call() -> None:
            for row, (one, length) in enumerate(zip(self._taken, lengths, strict=True)):
                order = Arrival("random", one.path.arrival_unit, (self._seed + row) % 2**63)
                scores = launch.scores[row, :length]
                out[row] = run_model(one.path, scores, launch.k, order, one.variant, width=width).indices

        return _checked(call, lambda: out.fill_(UNWRITTEN), out, sampling)

    def close(self) -> None:
        """It holds nothing."""


class CudaTimer:
    """The workbench's kernel of the path that the rows of a batch take, built without telemetry.

    Args:
        taken: of each row of the batch; rows no longer than k go with any kernel.
    """

    name = "cuda"

    def __init__(self, taken: Sequence[Taken]) -> None:
        self._taken = taken

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Time it on the device of the scores; compiles it where that was not done before.

        Raises:
            UsageError: the kernel does not compile.
        """
        selecting = list(dict.fromkeys(one for one in self._taken if one.path.family != "identity"))
        if not selecting:
            return Answer(refused=(NO_KERNEL_NEEDED,))
        reasons = []
        for one in selecting:
            if kernel_of(one.path, one.variant) is None:
                reasons.append(f"{without_kernel(one.path, one.variant)} yet")
        if len(selecting) > 1:
            names = listed(one.path.name for one in selecting)
            reasons.append(f"the rows of the batch take {names}: a launch runs the kernel of one path")
        reasons += _unmet(self._taken, launch)
        reasons += unavailable()
        if not reasons and not launch.scores.is_cuda:
            reasons.append(f"the scores lie on {launch.scores.device}, and kernels run on a GPU")
        if reasons:
            return Answer(refused=tuple(reasons))
        one, device = selecting[0], launch.scores.device
        rows, width = launch.scores.shape
        if lacking := needs_of(
            one.path, one.variant, device.index, rows=rows, width=width, k=launch.k, telemetry=False
        ):
            return Answer(refused=tuple(lacking))
        lengths = launch.lengths.to(device)
        out = torch.empty((launch.scores.shape[0], launch.k), dtype=torch.int32, device=device)

        def call() -> None:
            launch_kernel(one.path, one.variant, launch.scores, lengths, launch.k, output=out, telemetry=False)

        return _checked(call, lambda: out.fill_(UNWRITTEN), out, sampling)

    def close(self) -> None:
        """Kernels are kept for the life of the process."""


def _checked(call: Callable[[], None], poison: Callable[[], object], out: torch.Tensor, sampling: Sampling) -> Answer:
    """One call, the timed ones, and one more; what the first and the last one returned."""
    kept = []
    poison()
    call()
    kept.append(out.cpu().clone())
    times = sample(call, poison, sampling, out.device)
    poison()
    call()
    kept.append(out.cpu().clone())
    return Answer(torch.stack(kept), times=times)


def _unmet(taken: Sequence[Taken], launch: Launch) -> list[str]:
    """Every condition of the rows' paths that their lengths, k and dtype do not meet, each once."""
    dtype = str(launch.scores.dtype).removeprefix("torch.")
    asked = set(zip(taken, launch.lengths.tolist(), strict=True))
    reasons = []
    for one, length in sorted(asked, key=lambda pair: (pair[0].path.name, pair[1])):
        reasons += one.path.as_variant(one.path.variant(one.variant)).unmet(k=launch.k, length=length, dtype=dtype)
    return list(dict.fromkeys(reasons))


def _nothing() -> None:
    """Nothing has to be prepared."""
