"""The file that a shrinking row is kept in: whole at any time, and gone on from if the work was stopped."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.capture.opening import open_capture
from workbench.capture.row import Row
from workbench.capture.values import path_text, shown
from workbench.capture.write import CURE, write_capture
from workbench.errors import CaptureError
from workbench.targets import check_target


class Saved:
    """The output of one shrinking.

    Args:
        path: of the file. row, k: what shrinks. on, variant: names of its path and variant. seed, most_clean: of the
            shrinking. overwrite: replace another file.

    Attributes:
        start: the smallest row of an earlier run of the same that was stopped; ``None`` without one.

    Raises:
        UsageError: another file is there and must not be replaced, or the path cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        row: Row,
        k: int,
        on: str,
        variant: str,
        seed: int,
        most_clean: float,
        overwrite: bool,
    ) -> None:
        self._path = path
        self._said = (
            f"shrunk from a row of {row.length} scores, {row.digest[:23]}, k {k}, on {on} ({variant}), "
            f"seed {seed}, p_clean up to {most_clean!r}"
        )
        self.start = self._unfinished()
        self._overwrite = overwrite or self.start is not None
        check_target(Path(path_text(path)), shown(path), overwrite=self._overwrite, cure=CURE)

    def _source(self, finished: bool) -> str:
        return self._said + ("" if finished else "; not finished")

    def _unfinished(self) -> Row | None:
        if not os.path.isfile(self._path):  # noqa: PTH113  what cannot be looked at is told by who writes it
            return None
        try:
            with open_capture(self._path) as capture:
                return capture[0] if capture.info.source == self._source(finished=False) else None
        except CaptureError:
            return None

    def write(self, row: Row, finished: bool) -> None:
        """Put a row in the file's place."""
        # An interrupt can come between the first file and the note below that it is this run's own.
        self._overwrite = self._overwrite or self._unfinished() is not None
        write_capture(self._path, [row], source=self._source(finished), overwrite=self._overwrite)
        self._overwrite = True
