"""The device that kernels run on, and why there is none."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from workbench.engines.cuda.compile import NO_COMPILER
from workbench.engines.cuda.nvrtc import find_nvrtc
from workbench.paths.devices import forms_clusters

NO_GPU = "no CUDA device is visible to torch"
NO_CUPY = "CuPy is not installed: install the extra cuda13 or cuda12, as in pip install 'topk-workbench[cuda13]'"
CURE = "--engine model answers without a GPU"


@dataclass(frozen=True)
class Limits:
    """What a device can hold.

    Attributes:
        name: as the driver says it. capability: compute capability. sms: multiprocessors.
        optin_bytes: shared memory that a block may ask for.
    """

    name: str
    capability: tuple[int, int]
    sms: int
    optin_bytes: int

    @property
    def arch(self) -> str:
        """What kernels are compiled for, as in ``sm_90``."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    def lacks(self, shared_bytes: int, needs: tuple[int, int], cluster: int = 0) -> list[str]:
        """What a kernel needs and the device does not have, in words.

        Args:
            shared_bytes: of a block. needs: the least compute capability. cluster: blocks that form one, 0 for none.
        """
        found = []
        if cluster and not forms_clusters(self.capability):
            has = ".".join(map(str, self.capability))
            found.append(
                f"{self.name} has compute capability {has}, the kernel needs clusters of {cluster} blocks: "
                "9.0 or later, but not 12"
            )
        if self.capability < needs:
            wanted, has = (".".join(map(str, one)) for one in (needs, self.capability))
            found.append(f"{self.name} has compute capability {has}, the kernel needs {wanted}")
        if shared_bytes > self.optin_bytes:
            found.append(
                f"a block needs {shared_bytes} bytes of shared memory, {self.name} gives it at most {self.optin_bytes}"
            )
        return found


def unavailable() -> list[str]:
    """Why no kernel can run here, every reason in words; empty if one can."""
    reasons = []
    if not torch.cuda.is_available():
        reasons.append(NO_GPU)
    if _problem_with_cupy():
        reasons.append(_problem_with_cupy())
    if find_nvrtc() is None:
        reasons.append(NO_COMPILER)
    return [f"{'; '.join(reasons)}; {CURE}"] if reasons else []


def load_cupy() -> Any:
    """CuPy, which is imported when a kernel is to run and not before."""
    return importlib.import_module("cupy")


@cache
def limits_of(device: int) -> Limits:
    """The limits of a CUDA device by its index."""
    cupy = load_cupy()
    runtime = cupy.cuda.runtime
    seen = torch.cuda.get_device_properties(device)
    optin = runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device)
    return Limits(seen.name, (seen.major, seen.minor), seen.multi_processor_count, int(optin))


@cache
def _problem_with_cupy() -> str:
    try:
        load_cupy()
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "cupy"
        return NO_CUPY if missing else f"CuPy does not load: {str(error).strip().splitlines()[0]}"
    return ""
