"""A unit of an audit's work: some rows of one file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Unit:
    """Rows ``first`` to ``first + count - 1`` of one capture file.

    Attributes:
        file: below the audited folder, with ``/`` between its parts. bytes: of the rows' scores.
    """

    file: str
    first: int
    count: int
    bytes: int

    def __str__(self) -> str:
        rows = f"row {self.first}" if self.count == 1 else f"rows {self.first} to {self.first + self.count - 1}"
        return f"{self.file}, {rows}"
