"""How many blocks share a row, and what they share it through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.paths.models import per_row
from workbench.paths.own_variants import SPLIT_FROM


@dataclass(frozen=True)
class Shape:
    """What a launch is asked for: rows of so many padded columns, and k winners of each."""

    rows: int
    width: int
    k: int


@dataclass(frozen=True)
class Grid:
    """The blocks of a launch.

    Attributes:
        blocks: that share a row. zeroed, cells: int32 of their workspace a row, those that are 0 when the launch begins
            and the others.
    """

    blocks: int = 1
    zeroed: int = 0
    cells: int = 0


GridOf = Callable[[Shape], Grid]
ARRIVED = 1  # cells of a row in which blocks count who has ended


def one_block(shape: Shape) -> Grid:
    """One block a row."""
    return Grid()


def slices(from_width: int = SPLIT_FROM) -> GridOf:
    """One block a row, or a slice of it each from so many columns on; each hands on k scores and their positions."""

    def grid(shape: Shape) -> Grid:
        if shape.width < from_width:
            return Grid()
        return Grid(per_row.SPLITS, ARRIVED, 2 * per_row.SPLITS * shape.k)

    return grid
