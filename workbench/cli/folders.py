"""What a command that takes a file or a folder reads: one capture, or everything that opens below a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.exits import complain
from workbench.cli.options import Given, Naming, open_file
from workbench.cli.tables import counted
from workbench.errors import CaptureError

if TYPE_CHECKING:
    from workbench.capture import Capture


class Below:
    """The captures and dumps of a folder, to its depth, in natural order; hidden ones are left out.

    Args:
        folder: as it was given. naming, given: as for ``open_file``.

    Attributes:
        files: that open, with how many rows each has. unread: why others cannot be read, by file.

    Raises:
        CaptureError: nothing there can be read.
    """

    def __init__(self, folder: str, naming: Naming, given: Given) -> None:
        self._naming, self._given = naming, given
        self.unread: dict[str, str] = {}
        self.files: dict[str, int] = {}
        from workbench.audit.walk import walk

        for found in walk("", (folder,)):
            if found.error:
                self.unread[found.file] = found.error
            elif len(found.loose) < 2 or not self._together(found.file, found.loose):
                for file in found.loose or (found.file,):
                    self._look(file)
        if not self.files:
            reasons = [f"{file}: {why}" for file, why in self.unread.items()]
            raise CaptureError(
                reasons[0] if reasons else "holds no capture and no dump; name a folder of captures",
                file=None if reasons else folder,
            )

    @property
    def rows(self) -> int:
        """Of all files that open."""
        return sum(self.files.values())

    def captures(self) -> Iterator[tuple[str, Capture]]:
        """Each capture in its turn, open while it is looked at."""
        for file in self.files:
            try:
                with open_file(file, self._naming, self._given) as capture:
                    yield file, capture
            except CaptureError as error:
                self.unread[file] = error.reason

    def complain(self) -> None:
        """Say on stderr what could not be read."""
        for file, why in self.unread.items():
            complain(why if why.startswith(file) else f"{file}: {why}")
        if self.unread:
            complain(f"{counted(len(self.unread), 'file')} could not be read to the end; the answer is of the others")

    def _together(self, folder: str, loose: tuple[str, ...]) -> bool:
        """Whether plain files say nothing each by itself, as lengths beside scores, and the folder does."""
        if all(self._rows(file) is not None for file in loose):
            return False
        rows = self._rows(folder)
        if rows is not None:
            self.files[folder] = rows
        return rows is not None

    def _look(self, file: str) -> None:
        try:
            with open_file(file, self._naming, self._given) as capture:
                self.files[file] = len(capture)
        except CaptureError as error:
            self.unread[file] = error.reason

    def _rows(self, file: str) -> int | None:
        try:
            with open_file(file, self._naming, self._given) as capture:
                return len(capture)
        except CaptureError:
            return None


def is_folder_of_captures(file: str) -> bool:
    """Whether a name is of a folder, and not of one that is a dump in itself, which opens as a file does."""
    from workbench.capture.readers import folder as plain
    from workbench.capture.readers.look import look_at
    from workbench.capture.readers.table import reader_of

    try:
        path = Path(file)
        return path.is_dir() and reader_of(look_at(path, file)).format == plain.FORMAT
    except (OSError, ValueError):
        return False
