"""How many blocks share a row, and what they share it through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.paths.devices import get_device
from workbench.paths.models import per_row
from workbench.paths.own_variants import SPLIT_FROM
from workbench.paths.route_vllm import persistent_chunks

H200 = get_device("h200")


@dataclass(frozen=True)
class Shape:
    """What a launch is asked for: rows of so many padded columns and k winners of each; and what the device has.

    Attributes:
        optin_bytes: shared memory that a block may ask for. sms: multiprocessors.
    """

    rows: int
    width: int
    k: int
    optin_bytes: int = H200.optin_bytes
    sms: int = H200.sms


@dataclass(frozen=True)
class Grid:
    """The blocks of a launch.

    Attributes:
        blocks: that share a row. groups: of so many blocks that wait for each other, each of which serves one row
            after the other; ``None`` where no block waits and every row has its own. more_shared: bytes of shared
            memory a block beyond what its kernel always has.
        zeroed, group_zeroed, cells: int32 of their workspace: of a row and of a group, which are 0 when the launch
            begins, and others of a row.
    """

    blocks: int = 1
    groups: int | None = None
    more_shared: int = 0
    zeroed: int = 0
    group_zeroed: int = 0
    cells: int = 0

    def workspace(self, rows: int) -> tuple[int, int]:
        """Cells of a launch's workspace, and how many of them, from the first, begin at 0."""
        zeroed = rows * self.zeroed + (self.groups or 0) * self.group_zeroed
        return zeroed + rows * self.cells, zeroed


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
        return Grid(per_row.SPLITS, zeroed=ARRIVED, cells=2 * per_row.SPLITS * shape.k)

    return grid


RING = 3  # histograms that a group adds up in turn
SCORE_BYTES = 4


def group_cells(bins: int) -> int:
    """Cells of a group that adds up so many bins: a ring of histograms, and how often a block arrived."""
    return RING * bins + 1


RADIX_BINS, RADIX_COUNTERS = 1 << 8, 2
COOP_BINS, COOP_COUNTERS = 1 << 12, 3


def chunks(shape: Shape) -> Grid:
    """As many blocks a row as it takes to hold its keys in shared memory, by the rule of vLLM's persistent kernel."""
    blocks, chunk = persistent_chunks(shape.rows, shape.width, shape.optin_bytes)
    held = -(-chunk // 4) * 4 * SCORE_BYTES
    return Grid(blocks, shape.rows, held, RADIX_COUNTERS, group_cells(RADIX_BINS), cells=blocks)


def whole_device(ties: int) -> GridOf:
    """One block a multiprocessor, all of them on one row after the other; a buffer of so many ties a row."""

    def grid(shape: Shape) -> Grid:
        return Grid(shape.sms, 1, zeroed=COOP_COUNTERS, group_zeroed=group_cells(COOP_BINS), cells=ties)

    return grid
