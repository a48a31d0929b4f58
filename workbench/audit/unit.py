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
