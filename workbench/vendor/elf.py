"""What a shared library needs and where its device code lies, read from its ELF headers."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

from workbench.vendor.errors import VendorError

MOST = 4096  # sections, segments and dynamic entries; a library of the field has some forty
DEVICE_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_GLIBC = re.compile(r"GLIBC_(\d{1,4}(?:\.\d{1,4}){1,2})")


@dataclass(frozen=True)
class Elf:
    """A shared library's headers.

    Attributes:
        machine: ``x86_64`` or ``aarch64``. needed: the libraries that it is linked against, in their order.
        glibc: the newest version of glibc that it asks for; ``None`` where it asks for none.
        device: (offset, bytes) of each section with device code.
    """

    machine: str
    needed: tuple[str, ...]
    glibc: str | None
    device: tuple[tuple[int, int], ...]


def read_elf(path: Path, name: str) -> Elf:
    """Read a library's headers.

    Args:
        name: of the library in messages.

    Raises:
        VendorError: no shared library for Linux, or a damaged one. OSError: the disk's.
    """
    from elftools.common.exceptions import ELFError

    try:
        return _read(path, name)
    except (VendorError, OSError):
        raise
    except (ELFError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        # what the ELF reader makes of bytes that are none
        reason = " ".join(str(error).split()) or type(error).__name__
        raise VendorError(f"{name}: no shared library that can be read: {reason[:120]}") from None


def _read(path: Path, name: str) -> Elf:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    # mapped: a place outside is then the ELF reader's error and not the disk's
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        elf, size = ELFFile(cast("IO[bytes]", mapped)), len(mapped)
        if elf["e_type"] != "ET_DYN" or elf.elfclass != 64 or not elf.little_endian:
            raise VendorError(f"{name}: no shared library of 64 bits")
        machine = MACHINES.get(elf["e_machine"])
        if machine is None:
            raise VendorError(f"{name}: made for {elf['e_machine']}; {' and '.join(MACHINES.values())} are known")
        if elf.num_sections() > MOST or elf.num_segments() > MOST:
            raise VendorError(f"{name}: a header with more than {MOST} sections or segments; damaged")
        needed: list[str] = []
        for segment in elf.iter_segments():
            if isinstance(segment, DynamicSegment):
                tags = islice(segment.iter_tags(), MOST)
                needed += [str(tag.needed) for tag in tags if tag.entry.d_tag == "DT_NEEDED"]  # type: ignore[attr-defined]
        device, glibc = [], set()
        for section in elf.iter_sections():
            if section.name in DEVICE_SECTIONS and section["sh_type"] != "SHT_NOBITS":
                start, length = section["sh_offset"], section["sh_size"]
                if start + length > size:
                    raise VendorError(f"{name}: section {section.name} lies outside the file; damaged")
                device.append((start, length))
            if isinstance(section, GNUVerNeedSection):
                for _, wanted in islice(section.iter_versions(), MOST):
                    glibc |= {match[1] for one in islice(wanted, MOST) if (match := _GLIBC.fullmatch(one.name))}
        newest = max(glibc, key=lambda version: [int(part) for part in version.split(".")], default=None)
        return Elf(machine, tuple(needed), newest, tuple(device))
