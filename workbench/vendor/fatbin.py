"""Fat binaries: the GPU architectures that the device code in a CUDA shared library is for, and blanking the rest.

A compiler puts one fat binary for each source file into a section of the library: a header, then an entry for each
architecture, which is machine code (a cubin) or PTX that the driver compiles. A driver takes the machine code that
suits its GPU best; only where there is none does it compile PTX. An entry whose payload is blanked keeps its header, so
that the library keeps its size and layout and loads as before on the architectures that are left.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.vendor.errors import VendorError

_HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of the header, bytes of the entries
_ENTRY = struct.Struct("<HHIQIIHHI8xQ8xQ")  # see _code
MAGIC = 0xBA55ED50
PTX, MACHINE = 1, 2
_SPECIFIC, _FAMILY = 1 << 20, 1 << 21  # flags of an entry
_ZSTD, _LZ4 = 1 << 15, 1 << 13
_NOT_ZERO = re.compile(rb"[^\0]")
_MOST_PTX = 1 << 28  # bytes of PTX that one entry may inflate to

Capability = tuple[int, int]
Buffer = bytes | bytearray | mmap.mmap


@dataclass(frozen=True)
class Code:
    """The device code for one architecture in one fat binary.

    Attributes:
        kind: ``MACHINE``, ``PTX``, or another number that only its compiler knows.
        arch: as in 90. suffix: ``a`` for code that runs on that architecture alone, ``f`` on its family, or empty.
        start, size: where its payload lies in the file, in bytes. flags: as the entry holds them.
        stored, inflated: bytes that count of a compressed payload, and those that it inflates to.
        blank: whether the payload was blanked.
    """

    kind: int
    arch: int
    suffix: str
    start: int
    size: int
    flags: int = 0
    stored: int = 0
    inflated: int = 0
    blank: bool = False

    @property
    def name(self) -> str:
        """As in ``sm_90a``; ``compute_90`` for PTX."""
        prefix = {MACHINE: "sm", PTX: "compute"}.get(self.kind, f"kind{self.kind}")
        return f"{prefix}_{self.arch}{self.suffix}"

    def runs_on(self, capability: Capability) -> bool:
        """Whether a GPU can take it: machine code as it is, PTX by compiling it."""
        return not self.blank and _runs(self.kind, self.arch, self.suffix, capability)


FatBinary = tuple[Code, ...]


def parse_arch(text: str) -> Capability:
    """The compute capability of ``sm_90``; UsageError for another spelling."""
    found = re.fullmatch(r"sm_([1-9][0-9]?)([0-9])", text)
    if found is None:
        raise UsageError(f"{text[:40]!r} is no architecture; write it as in sm_90")
    return int(found[1]), int(found[2])


def name_arch(capability: Capability) -> str:
    """As in ``sm_90``."""
    return f"sm_{capability[0]}{capability[1]}"


def runs_on(name: str, capability: Capability) -> bool:
    """Whether a GPU runs machine code of an architecture named as in ``sm_90a``; PTX and what is not known: no."""
    found = re.fullmatch(r"sm_([0-9]{2,3})([af]?)", name)
    return found is not None and _runs(MACHINE, int(found[1]), found[2], capability)


def _runs(kind: int, arch: int, suffix: str, capability: Capability) -> bool:
    own = divmod(arch, 10)
    if suffix == "a":
        return own == capability
    if suffix == "f" or kind == MACHINE:
        return own[0] == capability[0] and own[1] <= capability[1]
    return kind == PTX and own <= capability


def read_fatbins(data: Buffer, sections: Iterable[tuple[int, int]], name: str) -> list[FatBinary]:
    """Every fat binary in the device sections of a library.

    Args:
        data: the whole file. sections: (offset, bytes) of each. name: of the library in messages.

    Raises:
        VendorError: a section that holds something else.
    """
    found: list[FatBinary] = []
    with memoryview(data) as view:
        for start, length in sections:
            at, end = start, start + length
            while at < end:
                padding = _padding(view, at, end)
                at += padding // 8 * 8  # fat binaries begin at multiples of 8
                if at + padding % 8 == end:
                    break
                if at + _HEADER.size > end:
                    raise _damaged(name, at)
                magic, _, header, size = _HEADER.unpack_from(view, at)
                if magic != MAGIC or header < _HEADER.size or at + header + size > end:
                    raise _damaged(name, at)
                found.append(tuple(_codes(view, at + header, at + header + size, name)))
                at += header + size
    return found


def _padding(view: memoryview, at: int, end: int) -> int:
    """How many bytes from here on are zero."""
    found = _NOT_ZERO.search(view, at, end)
    return (found.start() if found else end) - at


def _codes(view: memoryview, at: int, end: int, name: str) -> Iterable[Code]:
    while at < end:
        if at + _ENTRY.size > end:
            raise _damaged(name, at)
        kind, _, header, size, stored, _, _, _, arch, flags, inflated = _ENTRY.unpack_from(view, at)
        start = at + header
        if header < _ENTRY.size or start + size > end:
            raise _damaged(name, at)
        suffix = "a" if flags & _SPECIFIC else "f" if flags & _FAMILY else ""
        empty = _padding(view, start, start + size) == size
        yield Code(kind, arch, suffix, start, size, flags, stored, inflated, empty)
        at = start + size


def _damaged(name: str, at: int) -> VendorError:
    return VendorError(
        f"{name}: what lies at byte {at} of its device code is no fat binary; damaged, or of a newer kind"
    )


def architectures(binaries: Iterable[FatBinary]) -> tuple[str, ...]:
    """The names of all code that is not blank: machine code first, then by number."""
    codes = {
        (code.kind != MACHINE, code.arch, code.suffix, code.name) for one in binaries for code in one if not code.blank
    }
    return tuple(name for *_, name in sorted(codes))


def blank(data: bytearray, binaries: Iterable[FatBinary], wanted: Sequence[Capability]) -> None:
    """Blank the code in a library that no wanted architecture needs for its selectors, in place.

    Of each fat binary stays what a driver would take on a wanted architecture: the machine code made for it alone or
    for its family, and of the rest the nearest. PTX stays only where a wanted architecture has no machine code there
    and the PTX holds a top-k kernel, or cannot be read; other kernels then miss on that architecture, selectors do not.
    """
    for binary in binaries:
        needed = {code for capability in wanted for code in _needed(binary, capability, data)}
        for code in binary:
            if code not in needed and code.kind in (MACHINE, PTX):
                data[code.start : code.start + code.size] = bytes(code.size)


def _needed(binary: FatBinary, capability: Capability, data: bytearray) -> list[Code]:
    usable = [code for code in binary if code.runs_on(capability)]
    machine = [code for code in usable if code.kind == MACHINE]
    if machine:
        nearest = max((code.arch for code in machine if not code.suffix), default=0)
        return [code for code in machine if code.suffix or code.arch == nearest]
    ptx = [code for code in usable if code.kind == PTX]
    nearest = max((code.arch for code in ptx), default=0)
    return [code for code in ptx if code.arch == nearest and _selects(code, data)]


def _selects(code: Code, data: bytearray) -> bool:
    """Whether PTX holds a top-k kernel; so it counts where it cannot be read."""
    text = _ptx(code, bytes(data[code.start : code.start + code.size]))
    if text is None or b".version" not in text:
        return True
    names = re.findall(rb"\.entry\s+([A-Za-z_$%][\w$]*)", text)
    return any(re.search(rb"top_?k", name, re.IGNORECASE) for name in names)


def _ptx(code: Code, payload: bytes) -> bytes | None:
    """The text of PTX, ``None`` where it cannot be inflated."""
    if not code.flags & (_ZSTD | _LZ4):
        return payload
    if not 0 < code.inflated <= _MOST_PTX or not 0 < code.stored <= len(payload):
        return None
    import pyarrow as pa

    codec = "zstd" if code.flags & _ZSTD else "lz4_raw"
    try:
        return bytes(pa.decompress(payload[: code.stored], decompressed_size=code.inflated, codec=codec, asbytes=True))
    except (pa.ArrowException, ValueError, OSError):
        return None
