"""Files of the store: copied and hashed in pieces, and the disk's complaints as one line."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from workbench.errors import UsageError
from workbench.vendor.errors import VendorError
from workbench.words import because

PIECE = 1 << 20  # bytes held in memory at a time

# Called with what is being done, how many bytes of it are, and how many there are; ``None`` where that is not known.
Progress = Callable[[str, int, int | None], None]


def silent(_what: str, _done: int, _total: int | None) -> None:
    """No progress."""


@contextlib.contextmanager
def disk(place: Path | str) -> Iterator[None]:
    """Say what the disk refuses (full, read-only, no such folder) in one line that names the place: VendorError."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EXDEV:  # entries are moved into place, which no link within the store may prevent
            raise VendorError(
                f"{error.filename2 or place}: on another file system; link the store as a whole"
            ) from None
        where = error.filename if isinstance(error.filename, str) else place
        raise VendorError(f"{where}: {because(error)}") from None


def parse_sha256(text: str) -> str:
    """64 hexadecimal digits in lower case; UsageError for anything else."""
    found = text.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", found):
        raise UsageError(f"{text[:80]!r} is no sha256; it has 64 hexadecimal digits")
    return found


def pour(pieces: Iterator[bytes], target: Path) -> tuple[str, int]:
    """Write pieces to a new file, synced; their sha256 and size in bytes.

    Raises:
        OSError: the disk's; the file is there already.
    """
    digest, size = hashlib.sha256(), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as out:
        for piece in pieces:
            write(out, piece)
            digest.update(piece)
            size += len(piece)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest(), size


def write(out: BinaryIO, piece: bytes | bytearray | memoryview) -> None:
    """Every byte that is kept goes through here."""
    out.write(piece)


def pieces(file: BinaryIO, told: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """A file from where it stands to its end; ``told`` hears how many bytes were read so far."""
    done = 0
    while piece := file.read(PIECE):
        done += len(piece)
        yield piece
        if told is not None:
            told(done)


def sha256_of(path: Path, told: Callable[[int], None] | None = None) -> str:
    """The sha256 of a file; OSError as the disk gives it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in pieces(file, told):
            digest.update(piece)
    return digest.hexdigest()
