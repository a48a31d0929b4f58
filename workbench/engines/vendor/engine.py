"""The ``vendor`` engine: an op of a release called on whole batches, in a process that may be lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import torch

from workbench.engines.launch import Answer, Launch, Times, row_stride
from workbench.engines.timing import Sampling
from workbench.engines.vendor import sources
from workbench.engines.vendor.adapters import ADAPTERS, Adapter
from workbench.engines.vendor.hazards import hazards
from workbench.engines.vendor.sources import Finder, Source, Stored
from workbench.engines.worker.host import LOAD_S, Worker, patience
from workbench.engines.worker.parcels import parcels_of
from workbench.engines.worker.wire import NAMES, Message
from workbench.errors import UsageError, WorkbenchError
from workbench.paths.ops import OPS
from workbench.vendor.release import parse_wheel

CALL_S = 20.0
DEVICE = "cuda"
CHOICES = ("vllm.sparse_indexer_topk", "sglang.dsa_topk_transform")
NO_DEVICE = "no CUDA device is visible to torch: released ops run on a GPU"


class VendorEngine:
    """Calls the real ops of one release, from the store or as installed.

    Args:
        release: as in ``vllm==0.26.0``; ``None`` for what is installed of the op's package.
        device: of the ops, ``DEVICE`` by default. ``cpu`` is for packages whose ops run there.
        call_s, load_s: seconds that one call, and loading a library or building a kernel, may take.
        allow_hazards: call also where a length is described to hang the op, or to make it read or write outside its
            rows. By default such a launch is answered with a fault that says so.
        finder: the store of released libraries.
        stop: once set, by another thread, the process that is asked is ended, and the answer is a fault that says so.

    Raises:
        UsageError: another spelling of a release, or no time.
    """

    name = "vendor"

    def __init__(
        self,
        release: str | None = None,
        *,
        device: str | None = None,
        call_s: float = CALL_S,
        load_s: float = LOAD_S,
        allow_hazards: bool = False,
        finder: Finder | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.release = release
        self._wheel = None if release is None else parse_wheel(release)
        self._device, self._patience = device or DEVICE, patience(call_s, load_s)
        self._allow_hazards = allow_hazards
        self._finder = finder or sources.store
        self._stop = stop
        self._workers: dict[str, _Opened] = {}  # by package: without a release, ops of several can be asked for

    def answer(self, launch: Launch, calls: int = 1) -> Answer:
        """Make a launch ``calls`` times, the output poisoned before each.

        Raises:
            UsageError: no launch of any op: shapes that do not fit, no call at all.
        """
        return self._answer(launch, calls, None)

    def timed(self, launch: Launch, sampling: Sampling) -> Answer:
        """Make a launch once, then time it as ``sampling`` says, then make it once more; each has ``call_s`` seconds.

        Raises:
            UsageError: as for ``answer``.
        """
        return self._answer(launch, 2, sampling)

    def _answer(self, launch: Launch, calls: int, sampling: Sampling | None) -> Answer:
        check(launch, calls)
        adapter = ADAPTERS.get(launch.op)
        if adapter is None:
            return Answer(refused=(_no_adapter(launch.op),))
        source = sources.find(adapter, self._wheel, self._finder)
        reasons = [source] if isinstance(source, str) else []
        version = source.version if isinstance(source, Source) else self._wheel.version.release if self._wheel else ()
        reasons += adapter.unmet(launch, version)
        if self._device != "cpu" and not torch.cuda.is_available():
            reasons.append(NO_DEVICE)
        if reasons or isinstance(source, str):
            return Answer(refused=tuple(reasons))
        opened = self._opened(adapter)
        if isinstance(opened, Answer):
            return opened
        return self._called(launch, calls, sampling, adapter, source, opened)

    def close(self) -> None:
        """End its processes."""
        while self._workers:
            self._workers.popitem()[1].worker.close()

    def __enter__(self) -> VendorEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self, adapter: Adapter) -> _Opened | Answer:
        """The package's worker and the machine that it sees, or what became of asking."""
        if adapter.package not in self._workers:
            worker = Worker("vendor", {"package": adapter.package, "device": self._device})
            outcome = worker.ask({}, patience=self._patience, stop=self._stop)
            if outcome.data is None:
                return Answer(refused=outcome.refused, fault=outcome.fault)
            self._workers[adapter.package] = _Opened(worker, outcome.data["about"])
        return self._workers[adapter.package]

    def _called(
        self,
        launch: Launch,
        calls: int,
        sampling: Sampling | None,
        adapter: Adapter,
        source: Source,
        opened: _Opened,
    ) -> Answer:
        origin = "installed" if source.stored is None else "store"
        about = {"release": str(source.wheel), "from": origin, **opened.about}
        library = None
        major, _, minor = about.get("capability", "0.0").partition(".")
        capability = (int(major), int(minor))
        reasons = adapter.unmet_device(capability) if self._device != "cpu" else []
        if source.stored is not None:
            try:
                library = opened.library(source.stored, adapter.op, capability)
            except (WorkbenchError, LookupError) as error:
                reasons.append(str(error))
        if reasons:
            return Answer(refused=tuple(reasons), about=about)
        if not self._allow_hazards and (harm := hazards(launch, str(source.wheel), about.get("gpu", ""))):
            return Answer(fault=f"not called: {'; '.join(harm)}", about=about)
        try:
            tensors = parcels_of(launch)
        except OSError as error:
            return Answer(refused=(f"there is no memory for a copy of the launch: {error}",), about=about)
        request = _request(launch, calls, library)
        if sampling is not None:
            request["time"] = asdict(sampling)
        outcome = opened.worker.ask(request, tensors, self._patience, self._stop)
        if outcome.data is None:
            opened.libraries.clear()  # the next process loads them anew
            return Answer(refused=outcome.refused, fault=outcome.fault, about=about)
        about.update(outcome.data["about"])
        times = outcome.data["times"]
        return Answer(
            outcome.tensors["indices"],
            about=about,
            notes=tuple(outcome.data["notes"]),
            times=None if times is None else Times(tuple(times["seconds"]), times["late"]),
        )


@dataclass(frozen=True)
class _Opened:
    """A worker, the machine that it sees, and the libraries that it was told to load, by op."""

    worker: Worker
    about: dict[str, str]
    libraries: dict[str, str] = field(default_factory=dict)

    def library(self, stored: Stored, op: str, capability: tuple[int, int]) -> str:
        """The library of an op; its file is checked when it is first named to the process that loads it."""
        if op not in self.libraries:
            self.libraries[op] = str(stored.library_for(op, capability))
        return self.libraries[op]


def check(launch: Launch, calls: int) -> None:
    """Refuse what is no launch of any op.

    Raises:
        UsageError: what is wrong.
    """
    scores = launch.scores
    if scores.ndim != 2 or not scores.numel() or scores.dtype not in NAMES:
        raise UsageError(f"scores are {scores.dtype} {list(scores.shape)}; rows of floating-point scores are needed")
    rows, width = scores.shape
    if scores.stride(1) != 1 or row_stride(launch) < width:
        raise UsageError(f"scores have strides {scores.stride()}; rows of {width} that lie apart are needed")
    for name in ("lengths", "starts"):
        tensor = getattr(launch, name)
        if tensor is not None and (tensor.dtype != torch.int32 or tensor.shape != (rows,)):
            raise UsageError(f"{name} are {tensor.dtype} {list(tensor.shape)}; int32 [{rows}] is needed")
    if launch.k < 1 or calls < 1:
        raise UsageError(f"k is {launch.k} and calls {calls}; both must be at least 1")
    bad: Sequence[int] = [slot for slot in launch.slots if not 0 <= slot < rows]
    if bad or not launch.slots:
        raise UsageError(f"slots are {list(launch.slots)[:10]}; rows from 0 to {rows - 1} are needed")


def _request(launch: Launch, calls: int, library: str | None) -> Message:
    return {
        "op": launch.op,
        "library": library,
        "k": launch.k,
        "max_seq_len": launch.max_seq_len,
        "width": launch.scores.shape[1],
        "stride": row_stride(launch),
        "dtype": NAMES[launch.scores.dtype],
        "static_threshold": launch.static_threshold,
        "slots": list(launch.slots),
        "calls": calls,
    }


def _no_adapter(op: str) -> str:
    if not op:
        return "the op is not known; give it (--op)"
    if op in CHOICES:
        return f"{op} is an engine's own choice among ops, and no op: name the one that it takes"
    others = ", ".join(one.name for one in OPS if one.name in ADAPTERS)
    return f"the vendor engine does not know how {op} is called; it calls {others}"
