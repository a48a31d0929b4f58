"""Counts of rows, kept while an audit's records go by: by a key, over layers and steps, and of what was met already."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)

CELLS = 96  # of either axis of a grid


@dataclass(frozen=True)
class Tally:
    """How many rows there are, and what is found of them.

    Attributes:
        rows: all of them. bad: those that are any of the following, ``invalid`` to ``harmful``.
        invalid, lossy: whose recorded selection is so.
        certain, at_risk: that lose winners on a path that they reach, in every arrival order or in some; where their
            path is not known, on any that it may be.
        harmful: on which a selector does something beside selecting wrongly.
        errors: that could not be read or judged.
        recorded: with a recorded selection that was judged. unjudged: of which nothing is known on any path.
    """

    rows: int = 0
    bad: int = 0
    invalid: int = 0
    lossy: int = 0
    certain: int = 0
    at_risk: int = 0
    harmful: int = 0
    errors: int = 0
    recorded: int = 0
    unjudged: int = 0

    @property
    def gravity(self) -> tuple[int, ...]:
        """For sorting, the gravest first."""
        return (self.invalid, self.harmful, self.lossy, self.certain, self.at_risk, self.errors)


FLAGS = tuple(name for name in Tally.__dataclass_fields__ if name != "rows")
BIT = {name: 1 << at for at, name in enumerate(FLAGS)}


class Counter(Generic[K]):
    """Rows by a key, and how many of them have each flag."""

    def __init__(self) -> None:
        self._places: dict[K, int] = {}
        self._counts = np.zeros((16, len(FLAGS) + 1), dtype=np.int64)

    def add(self, keys: list[K], inverse: np.ndarray, bits: np.ndarray) -> None:
        """Count rows.

        Args:
            keys: each once. inverse: int64 [rows], which of them a row has. bits: int64 [rows], its flags.
        """
        size = len(keys)
        places = [self._places.setdefault(key, len(self._places)) for key in keys]
        while len(self._places) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        found = [np.bincount(inverse, minlength=size)]
        found += [np.bincount(inverse[bits & bit != 0], minlength=size) for bit in BIT.values()]
        self._counts[places] += np.stack(found, axis=1)

    def __len__(self) -> int:
        return len(self._places)

    def tallies(self) -> dict[K, Tally]:
        """All keys with their counts, in the order in which they were met."""
        return {key: tally_of(self._counts[at]) for key, at in self._places.items()}

    def worst(self, most: int) -> tuple[list[tuple[K, Tally]], int]:
        """The gravest keys, and how many of the others have bad rows; keys of equal gravity in their own order."""
        counts = self._counts[: len(self._places)]
        columns = [1 + FLAGS.index(name) for name in ("invalid", "harmful", "lossy", "certain", "at_risk", "errors")]
        keys = list(self._places)
        names = np.argsort(np.argsort(_order(keys), kind="stable"), kind="stable")
        order = np.lexsort([names, *(-counts[:, at] for at in reversed(columns))])
        shown = [(keys[at], tally_of(counts[at])) for at in order[:most]]
        return shown, int((counts[order[most:], 1 + FLAGS.index("bad")] > 0).sum())


def _order(keys: list[K]) -> np.ndarray:
    """Where each key stands among all: numbers by size, texts by their characters, ``None`` first."""
    order = sorted(range(len(keys)), key=lambda at: (keys[at] is not None, keys[at]))
    found = np.empty(len(keys), dtype=np.int64)
    found[order] = np.arange(len(keys))
    return found


def tally_of(counts: np.ndarray) -> Tally:
    """Counts in the order of a tally's fields."""
    return Tally(*(int(count) for count in counts))


def tally_rows(bits: np.ndarray) -> Tally:
    """The tally of rows by their flags."""
    return Tally(len(bits), *(int((bits & bit != 0).sum()) for bit in BIT.values()))


@dataclass(frozen=True)
class Grid:
    """Rows by layer and step, neighbours together where there are more than a picture has room for.

    Attributes:
        first_layer, first_step: of the first cell. layers_each, steps_each: of a cell.
        rows, bad: [layers][steps], rows of a cell and those of them that are bad.
    """

    first_layer: int
    first_step: int
    layers_each: int
    steps_each: int
    rows: tuple[tuple[int, ...], ...]
    bad: tuple[tuple[int, ...], ...]


class GridCounter:
    """Fills a grid: exact counts in cells that double whenever an axis outgrows ``CELLS``; their final size does not
    depend on the order in which rows come."""

    def __init__(self) -> None:
        self._size = np.array([1, 1], dtype=np.int64)
        self._cells = np.empty((0, 2), dtype=np.int64)
        self._counts = np.empty((0, 2), dtype=np.int64)

    def add(self, layers: np.ndarray, steps: np.ndarray, bad: np.ndarray) -> None:
        """Count rows. int64 [rows] twice, bool [rows]."""
        if not len(layers):
            return
        fresh = np.stack([layers, steps], axis=1) // self._size
        cells = np.concatenate([self._cells, fresh])
        for axis in (0, 1):
            while cells[:, axis].max() - cells[:, axis].min() >= CELLS:
                cells[:, axis] //= 2
                self._size[axis] *= 2
        counts = np.stack([np.ones(len(bad), dtype=np.int64), bad.astype(np.int64)], axis=1)
        counts = np.concatenate([self._counts, counts])
        flat = (cells[:, 0] - cells[:, 0].min()) * CELLS + cells[:, 1] - cells[:, 1].min()
        _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
        self._cells = cells[first]
        self._counts = np.zeros((len(first), 2), dtype=np.int64)
        np.add.at(self._counts, inverse, counts)

    def grid(self) -> Grid | None:
        """The grid; ``None`` where no row had both a layer and a step."""
        if not len(self._cells):
            return None
        low = self._cells.min(axis=0)
        high, wide = (int(np.ptp(self._cells[:, axis])) + 1 for axis in (0, 1))
        filled = np.zeros((2, high, wide), dtype=np.int64)
        at = self._cells - low
        filled[0, at[:, 0], at[:, 1]], filled[1, at[:, 0], at[:, 1]] = self._counts.T
        rows, bad = (tuple(tuple(map(int, line)) for line in half) for half in filled)
        first_layer, first_step = (int(low[axis] * self._size[axis]) for axis in (0, 1))
        return Grid(first_layer, first_step, int(self._size[0]), int(self._size[1]), rows, bad)


class Seen:
    """Which whole numbers were met, as ranges: what is dense takes little memory."""

    def __init__(self) -> None:
        self._ranges: list[np.ndarray] = []
        self._held = 0
        self._merged = 0

    def add(self, numbers: np.ndarray) -> None:
        """Meet numbers, int64 [n], ascending and each once."""
        if not len(numbers):
            return
        breaks = np.flatnonzero(np.diff(numbers) != 1)
        firsts = numbers[np.concatenate([[0], breaks + 1])]
        lasts = numbers[np.concatenate([breaks, [len(numbers) - 1]])]
        self._ranges.append(np.stack([firsts, lasts], axis=1))
        self._held += len(firsts)
        if self._held > 2 * self._merged + 4096:
            self._merge()

    def _merge(self) -> None:
        if len(self._ranges) > 1:
            ranges = np.concatenate(self._ranges)
            ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
            ends = np.maximum.accumulate(ranges[:, 1])
            fresh = np.concatenate([[True], ranges[1:, 0] > ends[:-1] + 1])
            places = np.flatnonzero(fresh)
            lasts = np.concatenate([ends[places[1:] - 1], ends[-1:]])
            self._ranges = [np.stack([ranges[places, 0], lasts], axis=1)]
        self._held = self._merged = sum(map(len, self._ranges))

    def __len__(self) -> int:
        """How many different numbers were met."""
        self._merge()
        return sum(int((one[:, 1] - one[:, 0] + 1).sum()) for one in self._ranges)
