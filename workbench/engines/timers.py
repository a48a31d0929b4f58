"""What is timed in this process: torch's own top-k, functions of the user's, and the workbench's models and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch

from workbench.engines.cuda.apart import APART, CALL_S, can_hang
from workbench.engines.cuda.device import unavailable
from workbench.engines.cuda.launch import needs_of, prepare
from workbench.engines.cuda.oplaunch import OpLaunch
from workbench.engines.cuda.sources import kernel_of, without_kernel
from workbench.engines.launch import Answer, Launch, Times, row_stride
from workbench.engines.timing import Sampling, sample
from workbench.engines.worker.parcels import parcels_of
from workbench.paths.arrival import Arrival
from workbench.paths.model import run_model
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path

TOPK = "torch.topk"
TOPK_NOTE = "torch.topk is given a copy in which the cells past each row's length hold -inf, made before the calls"
SEVERAL = "the rows take several paths: {} kernels, one after the other, each over all rows, of which it serves its own"
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
    """The workbench's kernels on a batch, built without telemetry: that of the one path that the rows take, or where
    they take several, those of the op. Kernels whose blocks wait for each other are timed in a process of their own.

    Args:
        taken: of each row of the batch; rows no longer than k go with any kernel.
        release, device: as routing knows them, for a batch whose rows take several paths.
    """

    name = "cuda"

    def __init__(self, taken: Sequence[Taken], release: str = "", device: str = "") -> None:
        self._taken, self._release, self._device = taken, release, device
        self._selecting = list(dict.fromkeys(one for one in taken if one.path.family != "identity"))

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Time it on the device of the scores; compiles it where that was not done before.

        Raises:
            UsageError: the kernel does not compile.
        """
        reasons = self._refusals(launch)
        if reasons:
            return Answer(refused=tuple(reasons))
        if any(can_hang(one.path, one.variant) for one in self._selecting):
            return self._apart(launch, sampling)
        return self.timed_here(launch, sampling)

    def timed_here(
        self,
        launch: Launch,
        sampling: Sampling,
        on_call: Callable[[], None] = lambda: None,
        on_sample: Callable[[int], None] = lambda at: None,
    ) -> Answer:
        """Time it in this process.

        Args:
            on_call: called before each call that is judged. on_sample: before each that is timed, with its number.

        Raises:
            UsageError: as for ``timed``, or what the device lacks.
        """
        lengths = launch.lengths.to(launch.scores.device)
        shape = (launch.scores.shape[0], launch.k)
        out = torch.empty(shape, dtype=torch.int32, device=launch.scores.device)
        if len(self._selecting) == 1:
            (one,) = self._selecting
            call: Callable[[], object] = prepare(
                one.path, one.variant, launch.scores, lengths, launch.k, output=out, telemetry=False
            )
            notes: tuple[str, ...] = ()
        else:
            made = OpLaunch(
                *(launch.op, self._release, self._device, launch.scores, lengths, launch.k),
                max_seq_len=launch.max_seq_len,
                output=out,
                occurring=launch.lengths.tolist(),
            )
            notes = (SEVERAL.format(len(made.parts.kernels)),)

            def call() -> None:
                made(poison=False)

        answer = _checked(call, lambda: out.fill_(UNWRITTEN), out, sampling, on_call, on_sample)
        return replace(answer, notes=notes)

    def _refusals(self, launch: Launch) -> list[str]:
        if not self._selecting:
            return [NO_KERNEL_NEEDED]
        lacking = [one for one in self._selecting if kernel_of(one.path, one.variant) is None]
        reasons = [f"{without_kernel(one.path, one.variant)} yet" for one in lacking]
        reasons += _unmet(self._taken, launch)
        reasons += unavailable()
        if not reasons and not launch.scores.is_cuda:
            reasons.append(f"the scores lie on {launch.scores.device}, and kernels run on a GPU")
        if not reasons:
            rows, width = launch.scores.shape
            for one in self._selecting:
                reasons += needs_of(
                    *(one.path, one.variant, launch.scores.device.index),
                    rows=rows,
                    width=width,
                    k=launch.k,
                    telemetry=False,
                )
        return reasons

    def _apart(self, launch: Launch, sampling: Sampling) -> Answer:
        names = list(dict.fromkeys((one.path.name, one.variant) for one in self._taken))
        request = {
            "op": launch.op,
            "release": self._release,
            "device": self._device,
            "k": launch.k,
            "stride": row_stride(launch),
            "max_seq_len": launch.max_seq_len,
            "names": names,
            "taken": [names.index((one.path.name, one.variant)) for one in self._taken],
            "time": asdict(sampling),
        }
        try:
            parcels = parcels_of(launch)
        except OSError as error:
            return Answer(refused=(f"there is no memory for a copy of the launch: {error}",))
        outcome = APART.ask(launch.scores.device, request, parcels, CALL_S)
        if outcome.data is None:
            return Answer(refused=outcome.refused, fault=outcome.fault)
        times = outcome.data["times"]
        return Answer(
            outcome.tensors["indices"],
            notes=tuple(outcome.data["notes"]),
            times=Times(tuple(times["seconds"]), times["late"]),
        )

    def close(self) -> None:
        """Kernels are kept for the life of the process."""


def _checked(
    call: Callable[[], object],
    poison: Callable[[], object],
    out: torch.Tensor,
    sampling: Sampling,
    on_call: Callable[[], None] = lambda: None,
    on_sample: Callable[[int], None] = lambda at: None,
) -> Answer:
    """One call, the timed ones, and one more; what the first and the last one returned."""

    def judged() -> torch.Tensor:
        on_call()
        poison()
        call()
        return out.cpu().clone()

    first = judged()
    times = sample(call, poison, sampling, out.device, on_sample)
    return Answer(torch.stack([first, judged()]), times=times)


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
