"""The worker's side of the ``cuda`` engine: it runs the kernels whose blocks wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import torch

from workbench.capture.mapped import Mapped
from workbench.engines import timers
from workbench.engines.cuda import launch
from workbench.engines.cuda.emission import emission_of
from workbench.engines.launch import Launch
from workbench.engines.timing import Sampling
from workbench.engines.worker.child import FaultError, RefusedError, Stages, told
from workbench.engines.worker.wire import Message, Parcel
from workbench.errors import UsageError
from workbench.paths.catalog import get_path


class CudaRunner:
    """Runs kernels on one device.

    Args:
        device: as torch spells it, as in ``cuda:0``.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def run(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        """Answer one request: the selection of one row with its report, or with ``time`` a batch that is timed.

        Raises:
            RefusedError: the device does not run the kernel.
        """
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        try:
            if "time" in request:
                return self._timed(request, tensors, stages)
            return self._selected(request, tensors, stages)
        except UsageError as error:
            raise RefusedError(str(error)) from None

    def _selected(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        path, variant = get_path(request["path"]), request["variant"]
        name = f"the kernel of {path.name} {variant}"
        stages.begin("load", f"building {name}")
        ints = {
            each: torch.tensor([request[each]], dtype=torch.int32, device=self._device) for each in ("length", "start")
        }
        emission = emission_of(_mapped(request, tensors), self._device)
        made = launch.prepare(
            path,
            variant,
            tensors["scores"].open().to(self._device)[None],
            ints["length"],
            request["k"],
            starts=ints["start"],
            emission=emission,
            positions=emission is not None,
            width=request["width"],
            histograms=True,
            dropped=request["dropped"],
        )
        stages.begin("call", name)
        launched = made.launched
        try:
            made()
            beside = {} if launched.positions is None else {"positions": launched.positions.cpu()}
            return {}, {"indices": launched.indices.cpu(), **beside, **launched.told()}
        except RuntimeError as error:  # of torch and of CuPy; the device is of no more use to this process
            raise FaultError(f"{name}: {told(error)}") from None

    def _timed(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        stages.begin("load", "building the kernels")
        scores, stride = tensors["scores"].open(), request["stride"]
        rows, width = scores.shape
        apart = torch.empty((rows, max(stride, width)), dtype=scores.dtype, device=self._device)[:, :width]
        apart.copy_(scores)
        batch = Launch(
            op=request["op"],
            k=request["k"],
            scores=apart,
            lengths=tensors["lengths"].open().to(self._device),
            max_seq_len=request["max_seq_len"],
        )
        taken = [timers.Taken(get_path(request["names"][at][0]), request["names"][at][1]) for at in request["taken"]]

        def begin(at: int) -> None:
            stages.begin("call", f"timed call {at + 1} of {sampling.calls} of the kernels")

        sampling = Sampling(**request["time"])
        timer = timers.CudaTimer(taken, request["release"], request["device"])
        try:
            answer = timer.timed_here(batch, sampling, lambda: stages.begin("call", "a call of the kernels"), begin)
        except RuntimeError as error:
            raise FaultError(f"the kernels: {told(error)}") from None
        if answer.refused:
            raise RefusedError(*answer.refused)
        if answer.indices is None or answer.times is None:
            raise FaultError("nothing came back")
        return {"times": asdict(answer.times), "notes": list(answer.notes)}, {"indices": answer.indices}


def _mapped(request: Message, tensors: Mapping[str, Parcel]) -> Mapped | None:
    """How the capture of the row says that its indices were mapped."""
    if "mapped" not in request:
        return None
    returned, page_size, offset = request["mapped"]
    return Mapped(returned, tensors["table"].open() if "table" in tensors else None, page_size, offset)
