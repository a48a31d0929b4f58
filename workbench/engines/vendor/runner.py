"""The worker's side of the ``vendor`` engine: it loads libraries of one release and calls their ops."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from workbench.engines.timing import Sampling
from workbench.engines.vendor import calling
from workbench.engines.vendor.adapters import ADAPTERS, PACKAGES, Adapter, Package
from workbench.engines.worker.child import FaultError, RefusedError, Stages
from workbench.engines.worker.wire import DTYPES, Message, Parcel

OWN_OUTPUT = (
    "the op makes its own output where it cannot be poisoned: slots that it never writes look like ones it writes"
)


class VendorRunner:
    """Calls ops of one release.

    Args:
        package: its name in ``adapters.PACKAGES``. device: as torch spells it.
    """

    def __init__(self, package: str, device: str) -> None:
        self._package, self._device = PACKAGES[package], device
        self._loaded: dict[str, dict[str, str]] = {}  # by library; what an import of the package gave under ""
        self._built: set[tuple[str, int, str]] = set()  # ops that the package compiled when first called
        self._scores: tuple[tuple[int, int], torch.Tensor] | None = None

    def run(
        self, request: Message, tensors: Mapping[str, Parcel], stages: Stages
    ) -> tuple[Message, dict[str, torch.Tensor]]:
        """Answer one request: with ``about`` the machine, without an ``op``, else the op's positions; with ``time``
        calls are timed after the first one.

        Raises:
            FaultError: a library that does not load. RefusedError: it has no such op.
        """
        if "op" not in request:
            return {"about": machine(self._device)}, {}
        adapter = ADAPTERS[request["op"]]
        stages.begin("load", f"loading {request['library'] or self._package.name}")
        about, op, plan = self._load(adapter, request["library"])
        base = self._base(tensors["scores"], request["stride"])
        lengths, starts = (self._ints(tensors.get(name)) for name in ("lengths", "starts"))
        assert lengths is not None
        made_plan = partial(_planned, plan, request["static_threshold"]) if plan else None
        if adapter.built_when_called:
            stages.begin("load", f"building {adapter.op}")
            self._warm_up(adapter, op, plan, request)
        inputs = calling.Inputs(adapter, request, base, lengths, starts, made_plan)
        calls, slots = request["calls"], torch.tensor(request["slots"], device=self._device)
        kept, poisoned = torch.empty((calls, len(slots), inputs.k), dtype=torch.int32), True
        running = calling.called(op, inputs, calls, self._device)
        times: Message | None = None
        for at in range(calls):
            stages.begin("call", f"call {at + 1} of {calls} of {adapter.op}")
            entries, was = next(running)
            kept[at], poisoned = calling.positions(entries[slots], adapter.pool).cpu(), poisoned and was
            if "time" in request and not at:
                times = _timed(op, inputs, Sampling(**request["time"]), self._device, stages)
        notes = [] if poisoned else [OWN_OUTPUT]
        return {"about": about, "notes": notes, "times": times}, {"indices": kept}

    def _base(self, parcel: Parcel, stride: int) -> torch.Tensor:
        """The scores on the device; the last ones are kept, for the next op that is given them."""
        key = (parcel.number, stride)
        if self._scores is None or self._scores[0] != key:
            self._scores = None
            self._scores = (key, calling.padded(parcel.open(), stride, self._device))
        return self._scores[1]

    def _ints(self, parcel: Parcel | None) -> torch.Tensor | None:
        return None if parcel is None else parcel.open().to(self._device, torch.int32, copy=True)

    def _warm_up(
        self, adapter: Adapter, op: Callable[..., Any], plan: Callable[..., Any] | None, given: Message
    ) -> None:
        """Let the package compile its kernel on a launch of one short row, apart from the calls that are timed."""
        key = (adapter.op, given["k"], given["dtype"])
        if key in self._built:
            return
        width = max(given["k"], 64)
        scores = torch.zeros((1, width), dtype=DTYPES[given["dtype"]])
        step = max(1, adapter.stride_bytes // scores.element_size())
        base = calling.padded(scores, width if adapter.contiguous else -(-width // step) * step, self._device)
        lengths = torch.ones(1, dtype=torch.int32, device=self._device)
        request = {"k": given["k"], "max_seq_len": width, "width": width}
        made_plan = partial(_planned, plan, -1) if plan else None
        for _ in calling.called(op, calling.Inputs(adapter, request, base, lengths, None, made_plan), 1, self._device):
            pass
        self._built.add(key)

    def _load(
        self, adapter: Adapter, library: str | None
    ) -> tuple[dict[str, str], Callable[..., Any], Callable[..., Any] | None]:
        if library is not None:
            if library not in self._loaded:
                self._loaded[library] = _load_library(library)
        elif "" not in self._loaded:
            self._loaded[""] = {}
            _import(self._package.modules)
        reasons = []
        for name in adapter.calls:
            try:
                op, plan, source = _found(name, adapter.plan)
            except _AbsentError as error:
                reasons.append(str(error))
                continue
            about = self._loaded[library or ""] or _where(self._package, source)
            return {**machine(self._device), **about}, op, plan
        raise RefusedError(*reasons)


def _timed(op: Callable[..., Any], inputs: calling.Inputs, sampling: Sampling, device: str, stages: Stages) -> Message:
    def begin(at: int) -> None:
        stages.begin("call", f"timed call {at + 1} of {sampling.calls} of {inputs.adapter.op}")

    return asdict(calling.timed(op, inputs, sampling, device, begin))


class _AbsentError(Exception):
    """What is to be called is not there, in words."""


def machine(device: str) -> dict[str, str]:
    """What runs here: torch, its CUDA runtime and the GPU, where there is one."""
    about = {"torch": torch.__version__, "python": sys.version.split()[0], "device": device}
    if device != "cpu":
        about["cuda"] = torch.version.cuda or ""
        about["gpu"] = torch.cuda.get_device_name()
        about["capability"] = "{}.{}".format(*torch.cuda.get_device_capability())
    return about


def _load_library(path: str) -> dict[str, str]:
    """Load a shared library for the ops that it registers with torch.

    Raises:
        FaultError: the loader's own words, as of a symbol that this torch lacks.
    """
    try:
        ctypes.CDLL(path)
    except OSError as error:
        raise FaultError(f"the library does not load: {error}") from None
    return _file(Path(path))


def _import(modules: tuple[str, ...]) -> None:
    """Import a package's modules, as many as there are.

    Raises:
        FaultError: none of them can be imported.
    """
    failed = []
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            failed.append(f"{name}: {error or type(error).__name__}")
    if modules and len(failed) == len(modules):
        raise FaultError(f"the installed package cannot be imported: {'; '.join(failed)}")


def _found(name: str, plan: str) -> tuple[Callable[..., Any], Callable[..., Any] | None, object]:
    """The callable of that name, its planner, and the module that it was found in."""
    module, _, function = name.partition(":")
    if not function:
        _, _, namespace, op = name.split(".")
        there: Any = getattr(torch.ops, namespace)
        if not hasattr(there, op):
            raise _AbsentError(f"{name} is not there: the release does not register it")
        return getattr(there, op), None, None
    try:
        home = importlib.import_module(module)
    except ImportError as error:
        raise _AbsentError(f"{module} cannot be imported: {error}") from None
    missing = [one for one in (function, plan) if one and not hasattr(home, one)]
    if missing:
        raise _AbsentError(f"{module} has no {' and no '.join(missing)}")
    return getattr(home, function), getattr(home, plan) if plan else None, home


def _where(package: Package, home: object) -> dict[str, str]:
    """The file that an installed op comes from: the package's library if it has loaded one, else a module."""
    mapped = {line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()}
    for ending in package.libraries:
        for path in sorted(mapped):
            if path.endswith(f"/{ending}"):
                return _file(Path(path))
    imported = [home, *(sys.modules.get(name) for name in package.modules)]
    files = [file for one in imported if (file := getattr(one, "__file__", None))]
    return _file(Path(files[0])) if files else {}


def _file(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {"library": str(path), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _planned(plan: Callable[..., Any], static_threshold: int, lengths: torch.Tensor) -> Any:
    """SGLang's plan of lengths; without a threshold it follows its own heuristic, which releases spell differently."""
    return plan(lengths) if static_threshold < 0 else plan(lengths, static_threshold)
