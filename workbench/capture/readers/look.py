"""A first look at what was given, by which readers recognise their formats: content and names, not endings alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from workbench.capture.readers import archive
from workbench.capture.readers.dump import names_in
from workbench.capture.source import Source
from workbench.errors import CaptureError

_FIRST = 128


@dataclass(frozen=True)
class Look:
    """A file or a folder.

    Attributes:
        path: as given. file: the same for messages. folder: whether it is one.
        names: of a folder, in no order. first: of a file, its first 128 bytes.
    """

    path: Path
    file: str
    folder: bool
    names: tuple[str, ...] = ()
    first: bytes = b""
    members: tuple[str, ...] | CaptureError | None = field(default=None, repr=False)

    def has_member(self, ending: str) -> bool:
        """Whether a zip archive holds a member whose name ends so.

        Raises:
            CaptureError: it is a damaged archive.
        """
        if isinstance(self.members, CaptureError):
            raise self.members
        return any(name.endswith(ending) for name in self.members or ())


def look_at(path: Path, file: str) -> Look:
    """Look at a file or a folder.

    Raises:
        CaptureError: there is neither, or it cannot be read.
    """
    try:
        folder = path.is_dir()
    except (OSError, ValueError):
        folder = False  # opening it says why
    if folder:
        return Look(path, file, True, tuple(names_in(path)))
    source = Source(path, header=False)
    try:
        first = bytes(source.read(0, min(_FIRST, source.size)))
        members: tuple[str, ...] | CaptureError | None = None
        if first.startswith(archive.MAGIC) and first[8:9] != b"{":  # else a safetensors header of just that length
            try:
                members = tuple(archive.read_directory(source))
            except CaptureError as error:
                members = error
        return Look(path, file, False, first=first, members=members)
    finally:
        source.close()
