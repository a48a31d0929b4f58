"""The devices that routing knows, by the numbers that decide it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.errors import UsageError


@dataclass(frozen=True)
class Device:
    """A GPU as a selector's launcher sees it.

    Attributes:
        name: as in ``h200``. capability: compute capability, (major, minor); (0, 0) where there is none.
        sms: streaming multiprocessors, or compute units. optin_bytes: opt-in shared memory a block may ask for.
        sm_bytes: shared memory of one multiprocessor.
        measured: whether the numbers were read off a device (else they are from published specifications).
        clusters_8, clusters_16: clusters of so many blocks that are resident at once, at two and at one block a
            multiprocessor, as the driver answered; ``None`` where it was not asked.
        platform: what the ops are built for. gfx: the architecture's name on ROCm.
    """

    name: str
    capability: tuple[int, int]
    sms: int
    optin_bytes: int
    sm_bytes: int
    measured: bool = False
    clusters_8: int | None = None
    clusters_16: int | None = None
    platform: Literal["cuda", "rocm"] = "cuda"
    gfx: str = ""

    @property
    def arch(self) -> str:
        """In words, as in ``compute capability 9.0`` or ``gfx942``."""
        return self.gfx or f"compute capability {self.capability[0]}.{self.capability[1]}"

    @property
    def has_clusters(self) -> bool:
        """Whether blocks can form clusters that the selectors are built for."""
        return self.platform == "cuda" and forms_clusters(self.capability)

    @property
    def sm_threads(self) -> int:
        """Resident threads of one multiprocessor."""
        return resident_threads(self.capability)

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        """Blocks of this size that fit one multiprocessor, by threads and shared memory (1 KiB a block is reserved
        from compute capability 8.0 on). Registers are not counted."""
        reserved = 1024 if self.capability >= (8, 0) else 0
        return min(self.sm_threads // threads, self.sm_bytes // (shared_bytes + reserved))


def forms_clusters(capability: tuple[int, int]) -> bool:
    """Whether a compute capability has clusters that the selectors are built for: 9.0 and later, but not 12."""
    return 9 <= capability[0] != 12


FEWER_THREADS = {(7, 5): 1024, **dict.fromkeys([(8, 6), (8, 7), (8, 8), (8, 9), (11, 0), (12, 0), (12, 1)], 1536)}


def resident_threads(capability: tuple[int, int]) -> int:
    """Threads that a multiprocessor of a compute capability has at once, as ptxas holds launch bounds against them."""
    return FEWER_THREADS.get(capability, 2048)


KIB = 1024
DEVICES: tuple[Device, ...] = (
    Device("h200", (9, 0), 132, 227 * KIB, 228 * KIB, measured=True, clusters_8=30, clusters_16=7),
    Device("h100", (9, 0), 132, 227 * KIB, 228 * KIB),
    Device("b200", (10, 0), 148, 227 * KIB, 228 * KIB),
    Device("b300", (10, 3), 148, 227 * KIB, 228 * KIB),
    Device("a100", (8, 0), 108, 163 * KIB, 164 * KIB),
    Device("gb10", (12, 1), 48, 99 * KIB, 100 * KIB),
    Device("l20", (8, 9), 92, 99 * KIB, 100 * KIB),
    Device("v100", (7, 0), 80, 96 * KIB, 96 * KIB),
    Device("mi300x", (0, 0), 304, 64 * KIB, 64 * KIB, platform="rocm", gfx="gfx942"),
    Device("mi355x", (0, 0), 256, 160 * KIB, 160 * KIB, platform="rocm", gfx="gfx950"),
)


def get_device(name: str) -> Device:
    """The device of that name, in any case; UsageError lists the known ones."""
    for device in DEVICES:
        if device.name == name.lower():
            return device
    raise UsageError(f"unknown device {name!r}; known devices: {', '.join(d.name for d in DEVICES)}")
