"""Where a call happens: device, release and rank, as far as they can be known."""

from __future__ import annotations

import functools
import re
from importlib.metadata import PackageNotFoundError, version

import torch
from packaging.version import InvalidVersion, Version

from workbench.paths.devices import DEVICES


@functools.cache
def device_name(device: torch.device) -> str:
    """A GPU's name: the workbench's, as in ``h200``, where name, capability and size are those of a known device, else
    what its driver calls it; otherwise the type of the device, as in ``cpu``."""
    if device.type != "cuda":
        return device.type
    about = torch.cuda.get_device_properties(device)
    words = set(re.split(r"[^a-z0-9]+", about.name.lower()))
    for known in DEVICES:
        shape = (about.major, about.minor), about.multi_processor_count
        if known.name in words and (known.platform == "rocm" or shape == (known.capability, known.sms)):
            return known.name
    return str(about.name)


@functools.cache
def release_of(packages: tuple[str, ...]) -> str | None:
    """``package==version`` of the first of these packages that is installed, without a local label as in ``+cu130``."""
    for package in packages:
        try:
            return f"{package}=={Version(version(package)).public}"
        except (PackageNotFoundError, InvalidVersion):
            continue
    return None


def rank() -> int | None:
    """The rank of this process where torch.distributed has been set up."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    return None
