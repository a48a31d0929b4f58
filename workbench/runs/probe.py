"""What may die is looked at here: ``python -P probe.py NAME PIPE PATHS``, started by ``asked.py`` and by nothing else.

It answers one JSON document on a pipe; whatever a library prints or does to the process is no part of that. Only the
standard library is imported before the thing that is looked at.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

ARCH = "sm_80"  # of the kernel that is compiled to see whether the compiler works
SOURCE = 'extern "C" __global__ void probe(int *out) { *out = 1; }'


def imported(module: str) -> dict[str, Any]:
    """A package that is imported."""
    import_module(module)
    return {}


def torch() -> dict[str, Any]:
    """torch, and the devices that it sees."""
    torch: Any = import_module("torch")
    found: dict[str, Any] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "threads": torch.get_num_threads(),
        "available": bool(torch.cuda.is_available()),
        "devices": [],
    }
    if not found["available"]:
        return found
    for number in range(torch.cuda.device_count()):
        seen = torch.cuda.get_device_properties(number)
        found["devices"].append(
            {
                "name": seen.name,
                "capability": f"{seen.major}.{seen.minor}",
                "multiprocessors": seen.multi_processor_count,
                "memory_bytes": seen.total_memory,
                "free_bytes": torch.cuda.mem_get_info(number)[0],
                "shared_bytes_a_block": getattr(seen, "shared_memory_per_block_optin", None),
                "shared_bytes_a_multiprocessor": getattr(seen, "shared_memory_per_multiprocessor", None),
            }
        )
    torch.zeros(1, device="cuda").item()  # a driver that is too old, or a device that is gone, says so here
    return found


def driver() -> dict[str, Any]:
    """The CUDA driver's own version, and whether each device runs cooperative launches and clusters."""
    import ctypes

    library = ctypes.CDLL("libcuda.so.1")
    version, devices = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    found: dict[str, Any] = {"version": f"{version.value // 1000}.{version.value % 1000 // 10}", "devices": []}
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(devices)):
        return found
    for number in range(devices.value):
        told = {}
        for name, attribute in (("cooperative", 95), ("clusters", 120)):  # CUDA's numbers of a device's attributes
            answer = ctypes.c_int()
            failed = library.cuDeviceGetAttribute(ctypes.byref(answer), attribute, number)
            told[name] = None if failed else bool(answer.value)
        found["devices"].append(told)
    return found


def cupy() -> dict[str, Any]:
    """CuPy, with the CUDA runtime that it loads."""
    module: Any = import_module("cupy")
    found = {"version": module.__version__, "runtime": None}
    try:
        found["runtime"] = module.cuda.runtime.runtimeGetVersion()
    except Exception as error:  # without a driver; that CuPy loads is told all the same
        found["runtime_error"] = f"{type(error).__name__}: {error}"
    return found


def compiler() -> dict[str, Any]:
    """NVRTC through whichever package binds it, and whether it compiles a kernel."""
    nvrtc = import_module("workbench.engines.cuda.nvrtc").find_nvrtc()
    if nvrtc is None:
        return {"binding": None}
    made = nvrtc.compile(SOURCE, "probe.cu", (f"--gpu-architecture={ARCH}",))
    return {
        "binding": nvrtc.name,
        "version": ".".join(map(str, nvrtc.version)),
        "compiles": bool(made.cubin),
        "log": made.log,
    }


def engines() -> dict[str, Any]:
    """Why an engine cannot run here, in its own words, and where kernels are kept."""
    device = import_module("workbench.engines.cuda.device")
    sources = import_module("workbench.engines.vendor.sources")
    adapters = import_module("workbench.engines.vendor.adapters")
    releases = import_module("workbench.runs.releases")
    engine = import_module("workbench.engines.vendor.engine")
    errors = import_module("workbench.errors")
    torch: Any = import_module("torch")
    packages: dict[str, Any] = {}
    for name in adapters.PACKAGES:
        adapter = next(one for one in adapters.ADAPTERS.values() if one.package == name)
        try:
            stored = [str(one) for one in releases.stored(name)]
        except errors.WorkbenchError:  # damage is told where releases are listed
            stored = []
        source = sources.find(adapter, None, sources.store)
        packages[name] = {
            "stored": stored,
            "installed": None if isinstance(source, str) else str(source.wheel),
            "why": source if isinstance(source, str) else "",
        }
    return {
        "cuda": device.unavailable(),
        "vendor": packages,
        "no_device": "" if torch.cuda.is_available() else engine.NO_DEVICE,
        "kernels": str(import_module("workbench.engines.cuda.compile").cache_folder()),
    }


def entry(value: str) -> dict[str, Any]:
    """An entry point, loaded and not called."""
    module, _, name = value.partition(":")
    getattr(import_module(module), name)
    return {}


PROBES: dict[str, Callable[..., dict[str, Any]]] = {
    "import": imported,
    "torch": torch,
    "driver": driver,
    "cupy": cupy,
    "compiler": compiler,
    "engines": engines,
    "entry": entry,
}


def main(name: str, pipe: str, paths: str, *arguments: str) -> None:
    """Look, and answer: what was found, or the exception in one line."""
    os.set_inheritable(int(pipe), False)
    sys.path[:] = json.loads(paths)
    try:
        answer: dict[str, Any] = {"found": PROBES[name](*arguments)}
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        answer = {"raised": f"{type(error).__name__}: {lines[0] if lines else 'no message'}"}
    with os.fdopen(int(pipe), "w", encoding="utf-8") as out:
        json.dump(answer, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # what a library does when it is taken down is no part of the answer
