"""Finished units of a part that is not written yet: a file that grows by a frame a unit, and may be cut at any byte.

A frame is ``WBF1``, the unit's number (uint32) and the payload's length (uint64), little-endian, the SHA-256 of all of
that and the payload, and the payload. What follows the last whole frame was never finished.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"WBF1"
_HEAD = struct.Struct("<4sIQ")
_DIGEST = 32


@dataclass(frozen=True)
class Frame:
    """A frame as its head describes it.

    Attributes:
        number: of the unit. begin, length: of its payload, in bytes of the file. head, digest: what stands before it.
    """

    number: int
    begin: int
    length: int
    head: bytes
    digest: bytes


def frames(file: BinaryIO) -> Iterator[Frame]:
    """The frames that a file has room for, in their order; payloads are neither read nor checked.

    The file may be read and moved in between. It ends where the first frame is cut, or none.
    """
    size, end = os.fstat(file.fileno()).st_size, 0
    while True:
        file.seek(end)
        head, digest = file.read(_HEAD.size), file.read(_DIGEST)
        if len(head) + len(digest) < _HEAD.size + _DIGEST:
            return
        magic, number, length = _HEAD.unpack(head)
        begin = end + _HEAD.size + _DIGEST
        if magic != _MAGIC or length > size - begin:
            return
        yield Frame(number, begin, length, head, digest)
        end = begin + length


class Journal:
    """The frames of one part.

    Args:
        path: of its file, which need not be there.

    Attributes:
        numbers: of the units in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spans: dict[int, tuple[int, int]] = {}
        self._end = 0
        if path.exists():
            self._look()

    @property
    def numbers(self) -> frozenset[int]:
        """Of the units in it."""
        return frozenset(self._spans)

    def _look(self) -> None:
        """Find the whole frames, and cut off what follows them."""
        with self._path.open("r+b") as file:
            for frame in frames(file):
                file.seek(frame.begin)
                if _digest(frame.head, file.read(frame.length)) != frame.digest:
                    break
                self._spans[frame.number] = (frame.begin, frame.length)
                self._end = frame.begin + frame.length
            file.truncate(self._end)

    def add(self, number: int, payload: bytes) -> None:
        """Append a unit.

        Raises:
            OSError: of the disk; the journal is then as it was.
        """
        head = _HEAD.pack(_MAGIC, number, len(payload))
        data = head + _digest(head, payload) + payload
        with self._path.open("r+b" if self._path.exists() else "xb") as file:
            try:
                file.seek(self._end)
                file.write(data)
                file.flush()
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(file.fileno(), self._end)
                raise
        self._spans[number] = (self._end + len(data) - len(payload), len(payload))
        self._end += len(data)

    def payload(self, number: int, most: int | None = None) -> bytes:
        """What one unit holds, or its first bytes.

        Raises:
            OSError: of the disk. KeyError: there is none.
        """
        begin, length = self._spans[number]
        with self._path.open("rb") as file:
            file.seek(begin)
            return file.read(length if most is None else min(length, most))

    def payloads(self) -> Iterator[tuple[int, bytes]]:
        """Each unit's number and what it holds, by ascending number."""
        with self._path.open("rb") as file:
            for number in sorted(self._spans):
                begin, length = self._spans[number]
                file.seek(begin)
                yield number, file.read(length)

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


def _digest(head: bytes, payload: bytes) -> bytes:
    return hashlib.sha256(head + payload).digest()
