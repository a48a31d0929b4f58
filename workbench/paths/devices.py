"""The devices that routing knows, by the three numbers that decide it."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError


@dataclass(frozen=True)
class Device:
    """A GPU as a selector's launcher sees it.

    Attributes:
        name: as in ``h200``. capability: compute capability, (major, minor).
        sms: streaming multiprocessors. optin_bytes: opt-in shared memory a block may ask for.
        sm_bytes: shared memory of one multiprocessor. sm_threads: resident threads of one multiprocessor.
        measured: whether the numbers were read off a device (else they are from published specifications).
    """

    name: str
    capability: tuple[int, int]
    sms: int
    optin_bytes: int
    sm_bytes: int
    sm_threads: int
    measured: bool = False

    def resident_blocks(self, threads: int, shared_bytes: int) -> int:
        """Blocks of this size that fit one multiprocessor, by threads and shared memory (1 KiB a block is reserved
        from compute capability 8.0 on). Registers are not counted."""
        reserved = 1024 if self.capability >= (8, 0) else 0
        return min(self.sm_threads // threads, self.sm_bytes // (shared_bytes + reserved))


KIB = 1024
DEVICES: tuple[Device, ...] = (
    Device("h200", (9, 0), 132, 227 * KIB, 228 * KIB, 2048, measured=True),
    Device("h100", (9, 0), 132, 227 * KIB, 228 * KIB, 2048),
    Device("b300", (10, 3), 148, 227 * KIB, 228 * KIB, 2048),
    Device("l20", (8, 9), 92, 99 * KIB, 100 * KIB, 1536),
    Device("v100", (7, 0), 80, 96 * KIB, 96 * KIB, 2048),
)


def get_device(name: str) -> Device:
    """The device of that name, in any case; UsageError lists the known ones."""
    for device in DEVICES:
        if device.name == name.lower():
            return device
    raise UsageError(f"unknown device {name!r}; known devices: {', '.join(d.name for d in DEVICES)}")
