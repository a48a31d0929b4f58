"""The looks of ``doctor`` at torch, the GPU, and what builds and runs the workbench's own kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.runs.asked import Answer
from workbench.runs.doctor import Fact, State
from workbench.runs.looks_common import Ask, below_its_floor, cuda_cure, cuda_note, distributions, installed, size_text

TORCH = "pip install 'torch>=2.6'"
KERNEL_DRIVER = Path("/proc/driver/nvidia/version")


def torch(asked: Ask) -> Iterator[Fact]:
    there = installed("torch")
    if there is None and find_spec("torch") is None:
        yield Fact("gpu", "torch", "not installed", "broken", "every engine needs it", TORCH)
        return
    answer = asked("torch")
    if answer.failed:
        yield Fact("gpu", "torch", there or "installed", "broken", answer.failed, "install torch again")
        return
    found = answer.found
    why = below_its_floor("torch", found["version"])
    build = f"built for CUDA {found['cuda']}" if found["cuda"] else "a build without CUDA"
    build = f"built for ROCm {found['hip']}" if found["hip"] else build
    state: State = "broken" if why else "fine"
    yield Fact("gpu", "torch", f"{found['version']}, {build}", state, why, TORCH if why else "", found)
    yield Fact("gpu", "threads", f"{found['threads']} of torch", details={"threads": found["threads"]})
    driver = asked("driver")
    yield from _driver(driver)
    if not found["devices"]:
        why = "torch sees none" if found["cuda"] else "this torch is a build without CUDA"
        cure = "" if found["cuda"] else "install a torch that is built for CUDA"
        yield Fact("gpu", "GPU", "none", "absent", why, cure)
    told = driver.found.get("devices", [])
    for number, device in enumerate(found["devices"]):
        yield _device(number, device, told[number] if number < len(told) else {})


def _driver(driver: Answer) -> Iterator[Fact]:
    if driver.failed:
        yield Fact("gpu", "driver", "none", "absent", driver.failed)
    else:
        yield Fact("gpu", "driver", f"{_kernel_driver()}CUDA up to {driver.found['version']}", details=driver.found)


def _kernel_driver() -> str:
    """The kernel's driver, as in ``570.86, ``; empty where it does not say."""
    try:
        found = re.search(r"Kernel Module\D*([\d.]+)", KERNEL_DRIVER.read_text(errors="replace"))
    except OSError:
        return ""
    return f"{found[1]}, " if found else ""


def _device(number: int, device: dict[str, Any], told: dict[str, Any]) -> Fact:
    answers = {True: "yes", False: "no", None: "not known"}
    texts = [
        f"{device['name']}, compute capability {device['capability']}",
        f"{device['multiprocessors']} multiprocessors",
        f"{size_text(device['free_bytes'])} of {size_text(device['memory_bytes'])} free",
    ]
    if device["shared_bytes_a_block"] is not None:
        texts.append(f"up to {device['shared_bytes_a_block']} bytes of shared memory a block")
    texts += [f"cooperative launches: {answers[told.get('cooperative')]}"]
    texts += [f"clusters: {answers[told.get('clusters')]}"]
    return Fact("gpu", f"GPU {number}", ", ".join(texts), details={**device, **told})


def cupy(asked: Ask) -> Iterator[Fact]:
    names = [name for name in distributions() if name == "cupy" or name.startswith("cupy-")]
    cure = cuda_cure()
    if not names and find_spec("cupy") is None:
        yield Fact(
            "kernels",
            "CuPy",
            "not installed",
            "absent",
            f"the engine cuda runs kernels through it; {cuda_note()}",
            cure,
        )
        return
    said = ", ".join(f"{name} {installed(name)}" for name in names) or "installed"
    if len(names) > 1:
        why = "several distributions of CuPy overwrite each other's files; keep the one of your CUDA"
        yield Fact("kernels", "CuPy", said, "broken", why, f"pip uninstall {' '.join(names)}")
        return
    if names and (why := below_its_floor(names[0], installed(names[0]) or "")):
        yield Fact("kernels", "CuPy", said, "broken", why, cure)
        return
    answer = asked("cupy")
    if answer.failed:
        yield Fact("kernels", "CuPy", said, "broken", answer.failed, cure)
        return
    runtime = answer.found["runtime"]
    about = f"CUDA runtime {runtime // 1000}.{runtime % 1000 // 10}" if runtime else "no CUDA runtime answers"
    yield Fact("kernels", "CuPy", f"{answer.found['version']}, {about}", details=answer.found)


def compiler(asked: Ask) -> Iterator[Fact]:
    cure = cuda_cure()
    answer = asked("compiler")
    if answer.failed:
        yield Fact("kernels", "NVRTC", "installed", "broken", answer.failed, cure)
    elif answer.found["binding"] is None:
        why = "no package that binds it loads; the engine cuda compiles kernels with it"
        yield Fact("kernels", "NVRTC", "none", "absent", why, cure)
    else:
        said = f"{answer.found['version']} through {answer.found['binding']}"
        if answer.found["compiles"]:
            yield Fact("kernels", "NVRTC", f"{said}, compiles", details=answer.found)
        else:
            first = (answer.found["log"].splitlines() or ["the compiler gave no reason"])[0]
            yield Fact("kernels", "NVRTC", f"{said}, does not compile", "broken", first, cure, answer.found)
