"""The directory of a zip archive, read strictly: PyTorch and NumPy keep tensors in such files.

Only places are read here. Members that are stored, as ``torch.save`` and ``numpy.savez`` store them, are then read by
exact byte ranges; deflated ones are inflated under a bound, never beyond the size that the directory tells.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from workbench.capture.source import Source
from workbench.capture.values import brief, shown
from workbench.errors import CaptureError

MAGIC = b"PK\x03\x04"
MOST_MEMBERS = 200_000
MOST_DIRECTORY = 32 * 2**20
MOST_INFLATED = 2**30  # bytes of one member that are held in memory
_END, _END64, _LOCATOR, _ENTRY = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x01\x02"
_COMMENT = 0xFFFF
_NONE = 0xFFFFFFFF
_CHUNK = 2**20


@dataclass(frozen=True)
class Member:
    """One member as the directory describes it.

    Attributes:
        name: as in the archive. header: where its local header begins. stored, size: bytes in the archive, and of the
            content. deflated: whether it must be inflated. crc: of the content.
    """

    name: str
    header: int
    stored: int
    size: int
    deflated: bool
    crc: int


def read_directory(source: Source) -> dict[str, Member]:
    """All members by name.

    Raises:
        CaptureError: damaged, cut short, encrypted, of an unknown compression, or with members that overlap.
    """

    def bad(reason: str) -> CaptureError:
        return CaptureError(f"{reason}; copy or write the archive again", file=source.file)

    end, count, size, begin = _end(source)
    if count > MOST_MEMBERS or size > MOST_DIRECTORY:
        raise CaptureError(
            f"the archive has {count} members; {MOST_MEMBERS} is the most that is read: split it", file=source.file
        )
    if begin + size != end:
        raise bad(f"the archive's directory should lie at bytes {begin} to {begin + size}, but ends at {end}")
    text = source.read(begin, size)
    members: dict[str, Member] = {}
    at = 0
    for _ in range(count):
        if at + 46 > size or text[at : at + 4] != _ENTRY:
            raise bad("the archive's directory is damaged")
        flags, method = struct.unpack_from("<HH", text, at + 8)
        crc, stored, full, named, extra, comment = struct.unpack_from("<IIIHHH", text, at + 16)
        header = struct.unpack_from("<I", text, at + 42)[0]
        if at + 46 + named + extra + comment > size:
            raise bad("the archive's directory is damaged")
        raw = bytes(text[at + 46 : at + 46 + named])
        sizes = _wide(bytes(text[at + 46 + named : at + 46 + named + extra]), full, stored, header)
        if sizes is None:
            raise bad("the archive's directory is damaged")
        full, stored, header = sizes
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            name = raw.decode("cp437")
        if name in members:
            raise bad(f"the archive names {_shown(name)} twice")
        if flags & 1:
            raise CaptureError(f"member {_shown(name)} is encrypted; write it without a password", file=source.file)
        if method not in (0, 8):
            raise CaptureError(
                f"member {_shown(name)} is compressed in a way (method {method}) that is not read; store it",
                file=source.file,
            )
        if method == 0 and full != stored:
            raise bad(f"member {_shown(name)} is stored, but in {stored} bytes and not in its {full}")
        members[name] = Member(name, header, stored, full, method == 8, crc)
        at += 46 + named + extra + comment
    if at != size:
        raise bad("the archive's directory is damaged")
    _apart(members, begin, source)
    return members


def _shown(name: str) -> str:
    return repr(brief(shown(name)))


def begin_of(source: Source, member: Member) -> int:
    """Where the bytes of a member begin.

    Raises:
        CaptureError: its local header is damaged, or of another member.
    """
    head = source.read(member.header, 30)
    named, extra = struct.unpack_from("<HH", head, 26)
    name = source.read(member.header + 30, named) if head[:4] == MAGIC else b""
    if not name or name.decode("utf-8", "replace") != member.name.encode().decode("utf-8", "replace"):
        raise CaptureError(
            f"member {_shown(member.name)} is damaged; copy or write the archive again", file=source.file
        )
    begin = member.header + 30 + named + extra
    if begin + member.stored > source.size:
        raise CaptureError(f"member {_shown(member.name)} is cut short; copy it again", file=source.file)
    return int(begin)


def content(source: Source, member: Member, most: int) -> bytes:
    """The whole content of a member of at most ``most`` bytes, its checksum compared.

    Raises:
        CaptureError: it is larger, or damaged.
    """
    if member.size > most:
        raise CaptureError(
            f"member {_shown(member.name)} holds {member.size} bytes; {most} is the most here", file=source.file
        )
    read = inflate(source, member, member.size)
    if len(read) != member.size or zlib.crc32(read) != member.crc:
        raise CaptureError(
            f"member {_shown(member.name)} is damaged: its checksum differs; copy it again", file=source.file
        )
    return read


def inflate(source: Source, member: Member, most: int) -> bytes:
    """The first ``most`` bytes of a member's content, or all of it where it has fewer; no more is ever inflated.

    Raises:
        CaptureError: it is damaged, or goes on beyond the size that the directory tells.
    """
    begin = begin_of(source, member)
    if not member.deflated:
        return bytes(source.read(begin, min(most, member.stored)))
    unpack = zlib.decompressobj(-15)
    parts, room = bytearray(), min(most, member.size)
    try:
        for at in range(begin, begin + member.stored, _CHUNK):
            part = bytes(source.read(at, min(_CHUNK, begin + member.stored - at)))
            parts += unpack.decompress(part, room - len(parts) + 1)
            if len(parts) > room or unpack.eof:
                break
    except zlib.error:
        raise CaptureError(
            f"member {_shown(member.name)} cannot be inflated; copy it again", file=source.file
        ) from None
    if len(parts) > member.size:
        raise CaptureError(
            f"member {_shown(member.name)} inflates to more than the {member.size} bytes that it claims; "
            "do not trust this file",
            file=source.file,
        )
    return bytes(parts[:room])


def _end(source: Source) -> tuple[int, int, int, int]:
    """Where the directory must end, its members and bytes, and where it begins."""
    count = min(source.size, 22 + _COMMENT)
    tail = source.read(source.size - count, count)
    at = tail.rfind(_END)
    while at >= 0 and (at + 22 > count or at + 22 + int.from_bytes(tail[at + 20 : at + 22], "little") != count):
        at = tail.rfind(_END, 0, at)
    if at < 0:
        raise CaptureError("the archive is cut short: it has no directory at its end; copy it again", file=source.file)
    members, size, begin = struct.unpack_from("<HII", tail, at + 10)
    end = source.size - count + at
    wide = end >= 20 and source.read(end - 20, 4) == _LOCATOR
    if not wide and members != 0xFFFF and _NONE not in (size, begin):
        return end, members, size, begin
    if end < 20:
        raise CaptureError("the archive's directory is damaged; copy it again", file=source.file)
    locator = source.read(end - 20, 20)
    place = struct.unpack_from("<Q", locator, 8)[0]
    if locator[:4] != _LOCATOR or place + 56 > end:
        raise CaptureError("the archive's directory is damaged; copy it again", file=source.file)
    record = source.read(place, 56)
    if record[:4] != _END64:
        raise CaptureError("the archive's directory is damaged; copy it again", file=source.file)
    members, size, begin = struct.unpack_from("<QQQ", record, 32)
    return int(place), members, size, begin


def _wide(extra: bytes, full: int, stored: int, header: int) -> tuple[int, int, int] | None:
    """Sizes and place of a member, from its 64-bit field where the 32-bit ones say so; ``None`` if that is damaged."""
    if _NONE not in (full, stored, header):
        return full, stored, header
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        field = extra[at + 4 : at + 4 + size]
        if kind == 1:
            values = [value[0] for value in struct.iter_unpack("<Q", field[: len(field) // 8 * 8])]
            found = []
            for value in (full, stored, header):
                if value == _NONE:
                    if not values:
                        return None
                    value = values.pop(0)
                found.append(value)
            return found[0], found[1], found[2]
        at += 4 + size
    return None


def _apart(members: dict[str, Member], end: int, source: Source) -> None:
    """No two members may share bytes: that is how a small archive claims to hold a huge one."""
    before = 0
    for member in sorted(members.values(), key=lambda member: member.header):
        if member.header < before:
            raise CaptureError(
                f"member {_shown(member.name)} overlaps another; do not trust this file", file=source.file
            )
        before = member.header + 30 + member.stored
    if before > end:
        raise CaptureError("the archive is cut short or damaged; copy it again", file=source.file)
