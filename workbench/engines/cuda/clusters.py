"""Clusters of blocks: what the driver must be told of a kernel, and what it tells of it."""

from __future__ import annotations

import ctypes
from typing import Any

from workbench.errors import UsageError

PORTABLE = 8  # blocks of a cluster that every device with clusters takes
CLUSTER_DIMENSION, ANY_SIZE = 4, 14  # CUDA's numbers of an attribute of a launch, and of one of a function


class Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` with the dimensions of a cluster; its value takes 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


def allow_size(cupy: Any, kernel: Any, blocks: int) -> None:
    """Let a kernel have clusters of so many blocks, before it is launched; more than eight have to be asked for."""
    if blocks > PORTABLE:
        cupy.cuda.driver.funcSetAttribute(kernel.kernel.ptr, ANY_SIZE, 1)


def clusters_at_once(kernel: Any, blocks: int, threads: int, shared_bytes: int) -> int:
    """How many clusters of a loaded kernel the current device runs at once.

    Args:
        blocks: of a cluster. threads, shared_bytes: of a block.

    Raises:
        UsageError: the driver does not say.
    """
    attribute = Attribute(CLUSTER_DIMENSION, 0, (blocks, 1, 1))
    asked = LaunchConfig((blocks, 1, 1), (threads, 1, 1), shared_bytes, None, ctypes.pointer(attribute), 1)
    found = ctypes.c_int()
    try:
        ask = _driver().cuOccupancyMaxActiveClusters
        status = f"error {code}" if (code := ask(ctypes.byref(found), _handle(kernel), ctypes.byref(asked))) else ""
    except (OSError, AttributeError) as error:  # no library of that name, or one from before clusters
        status = str(error)
    if status:
        raise UsageError(
            f"the driver does not say how many clusters of {blocks} blocks of {threads} threads and {shared_bytes} "
            f"bytes are resident: {status}"
        )
    return found.value


def _handle(kernel: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(kernel.kernel.ptr)


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")
