"""The looks of ``doctor``: each gives facts of one area, and none depends on another."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement

from workbench.resources import DISTRIBUTION
from workbench.runs import looks_engines, looks_gpu, looks_kept
from workbench.runs.asked import ask
from workbench.runs.doctor import Fact
from workbench.runs.looks_common import Ask, below_its_floor, installed, is_installed_from, needs

Look = tuple[str, str, Callable[[], Iterator[Fact]]]

# Distributions, and the module that is imported to see whether one works, where the workbench itself does.
IMPORTED = {
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "plotly": "plotly.graph_objects",
    "streamlit": "streamlit",
    "ray": "ray",
}
SERVING = {
    "vllm": "vllm",
    "sglang": "sglang",
    "sglang-kernel": "sgl_kernel",
    "sgl-kernel": "sgl_kernel",
    "flashinfer-python": "flashinfer",
}
OLDER_NAMES = ("sgl-kernel",)  # said only where they are installed
OPTIONAL = {"ray": "topk-workbench[ray]"}
# What is looked at in another way.
ELSEWHERE = (
    "torch",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
)


def version() -> str:
    """Of the workbench."""
    return str(sys.modules["workbench"].__version__)


def all_looks(*, verify: bool, timeout: float, stop: threading.Event) -> list[Look]:
    """Every look, the slow ones first.

    Args:
        verify, timeout: as for ``doctor``. stop: ends what is being asked once it is set.
    """
    asked = partial(ask, timeout=timeout, stop=stop)
    packages = [("packages", need.name, partial(_package, asked, need)) for need in _needed()]
    return [
        ("gpu", "torch", partial(looks_gpu.torch, asked)),
        ("engines", "engines", partial(looks_engines.engines, asked)),
        *(("serving", name, partial(_serving, asked, name)) for name in SERVING),
        *packages,
        ("kernels", "CuPy", partial(looks_gpu.cupy, asked)),
        ("kernels", "NVRTC", partial(looks_gpu.compiler, asked)),
        ("releases", "store", partial(looks_kept.releases, verify)),
        ("recorder", "plugins", partial(looks_engines.plugins, asked)),
        ("python", "python", _python),
        ("storage", "folders", looks_kept.storage),
        ("variables", "variables", looks_kept.variables),
    ]


def _python() -> Iterator[Fact]:
    there, source = installed(DISTRIBUTION), Path(__file__).resolve().parents[2]
    said = f"{version()}, {'installed as a package' if there else 'not installed as a package'}"
    if there and not is_installed_from(source):
        said = f"{version()}, from {source}, beside the package {there} that is installed"
    yield Fact("python", "workbench", said, details={"version": version(), "installed": there, "source": str(source)})
    venv = "a virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    details = {"version": platform.python_version(), "executable": sys.executable, "prefix": sys.prefix}
    yield Fact("python", "python", f"{platform.python_version()}, {sys.executable}, {venv}", details=details)
    yield Fact("python", "system", f"{platform.platform()}, {platform.machine()}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Fact("python", "cores", f"{cores} of {os.cpu_count()} for this process", details={"cores": cores})


def _needed() -> list[Requirement]:
    """What the workbench needs, and Ray; without metadata of its own what it imports."""
    known = needs() or [Requirement(name) for name in IMPORTED]
    found = {
        need.name: need for need in known if need.name not in ELSEWHERE and (_for_all(need) or need.name in OPTIONAL)
    }
    return list(found.values())


def _for_all(need: Requirement) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": ""})


def _package(asked: Ask, need: Requirement) -> Iterator[Fact]:
    name, there = need.name, installed(need.name)
    wanted = f" (needed: {need.specifier})" if str(need.specifier) else ""
    cure = f"pip install '{OPTIONAL.get(name) or f'{name}{need.specifier}'}'"
    if there is None:
        yield Fact("packages", name, f"not installed{wanted}", "absent" if name in OPTIONAL else "broken", "", cure)
        return
    why = below_its_floor(name, there)
    if not why and name in IMPORTED:
        why = asked("import", IMPORTED[name]).failed
    details = {"version": there, "needed": str(need.specifier)}
    yield Fact("packages", name, f"{there}{wanted}", "broken" if why else "fine", why, cure if why else "", details)


def _serving(asked: Ask, name: str) -> Iterator[Fact]:
    """A serving engine's package: none is needed, and one that is there and does not load is told."""
    there = installed(name)
    if there is None:
        if name not in OLDER_NAMES:
            yield Fact("serving", name, "not installed", "absent")
        return
    failed = asked("import", SERVING[name]).failed
    cure = f"install {name} for this torch and this Python again" if failed else ""
    yield Fact("serving", name, there, "broken" if failed else "fine", failed, cure, {"version": there})
