"""Two audits read side by side: the rows of both in windows, each row beside its like.

What lies where is found first, from two columns; then windows of the rows' common order are read from both, so that
memory stays flat. Only rows that have no like at their own place are kept, some hundred bytes each, to be found again
by the digest of their scores.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.audit.dataset import MOST_ROW, Dataset, Lines, Words
from workbench.audit.summing import FAR, VERDICTS, Vocabulary, judged
from workbench.audit.tally import BIT

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = (
    *("file", "row", "layer", "step", "rank", "scores", "engine", "path", "reached", "refused", "verdict", "missing"),
    *("selection", "risk", "finding", "error"),
)
PLACE = ("layer", "step", "rank")
SEVERITY = np.array([3, 2, 0, 0, -1])  # of verdicts, in their order; the last for none
_WINDOW = 1 << 17  # lines of either side, about
_KEPT = 3  # record files of either side that are held


@dataclass(frozen=True, eq=False)
class Extents:
    """Where a dataset's rows are: runs of lines of one file, sorted by key.

    Attributes:
        first, last: int64 [n], keys of the first and the last row of a run: the file's number, then the row's.
        record, begin, count: int64 [n], the record file, the first line and the number of lines.
        reach: int64 [n], the last key of this run and those before it.
    """

    first: np.ndarray
    last: np.ndarray
    record: np.ndarray
    begin: np.ndarray
    count: np.ndarray
    reach: np.ndarray

    def within(self, low: int, high: int) -> np.ndarray:
        """The numbers of the runs that may have rows from ``low`` to ``high - 1``."""
        begin = np.searchsorted(self.reach, low, side="left")
        end = np.searchsorted(self.first, high, side="left")
        found = np.arange(begin, end)
        return found[self.last[found] >= low]


def extents(dataset: Dataset, files: Words) -> Extents:
    """Where a dataset's rows are. ``files``: numbers of files, new ones behind those that are known."""
    runs: list[np.ndarray] = []
    for lines in dataset.lines(()):
        code, row = lines.codes("file", files), lines.numbers("row")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(code) != 0]))
        count = np.diff(starts, append=len(code))
        low, high = np.minimum.reduceat(row, starts), np.maximum.reduceat(row, starts)
        base = code[starts] * MOST_ROW
        record = np.full(len(starts), lines.record)
        runs.append(np.stack([base + low, base + high, record, lines.first + starts, count]))
    found = np.concatenate(runs, axis=1) if runs else np.empty((5, 0), dtype=np.int64)
    found = found[:, np.argsort(found[0], kind="stable")]
    return Extents(*found, np.maximum.accumulate(found[1]))  # type: ignore[call-arg]


def windows(first: Extents, second: Extents) -> Iterator[tuple[int, int]]:
    """Spans of keys that hold about as many lines as memory has room for, all rows of both."""
    starts = np.concatenate([first.first, second.first])
    counts = np.concatenate([first.count, second.count])
    order = np.argsort(starts, kind="stable")
    starts, held = starts[order], counts[order].cumsum()
    last = int(max(first.reach.max(initial=0), second.reach.max(initial=0)))
    low = 0
    while low < len(starts):
        before = held[low - 1] if low else 0
        high = max(int(np.searchsorted(held, before + 2 * _WINDOW, side="right")), low + 1)
        while high < len(starts) and starts[high] == starts[low]:
            high += 1
        yield int(starts[low]), int(starts[high]) if high < len(starts) else last + 1
        low = high


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a window, by ascending key; all arrays of [n].

    Attributes:
        key: int64, the file's number and the row's. place: int64 [n, 3], layer, step and rank, ``-FAR`` for unknown.
        scores, selection: int64, numbers of digests, the same for both sides; -1 for none.
        risk: int64, the gravest that counts, -1 for none. verdict: int64, of the recorded selection, -1 for none.
        bits: int64, flags as in ``tally.BIT``.
        lines: [m], for each line of the census its row's place in these arrays. path, level: [m], its path and risk.
    """

    key: np.ndarray
    place: np.ndarray
    scores: np.ndarray
    selection: np.ndarray
    risk: np.ndarray
    verdict: np.ndarray
    bits: np.ndarray
    lines: np.ndarray
    path: np.ndarray
    level: np.ndarray

    def __len__(self) -> int:
        return len(self.key)

    @property
    def bad(self) -> np.ndarray:
        """bool [n]: rows that lose winners or can."""
        found: np.ndarray = self.bits & BIT["bad"] != 0
        return found


class Side:
    """One of the two datasets.

    Args:
        files, paths: numbers of files and paths, of both sides.
    """

    def __init__(self, dataset: Dataset, files: Words, paths: Words) -> None:
        self.dataset, self._files = dataset, files
        self.extents = extents(dataset, files)
        self._vocabulary = Vocabulary(dataset.served)
        self._vocabulary.words["path"] = paths
        self._held: OrderedDict[int, pa.Table] = OrderedDict()

    def rows(self, low: int, high: int, digests: Words) -> Rows:
        """The rows with keys from ``low`` to ``high - 1``. ``digests``: numbers of digests, of both sides.

        Raises:
            CaptureError: a record file cannot be read, or a row is told twice.
        """
        import pyarrow as pa

        chosen = self.extents.within(low, high)
        held = self.extents.record[chosen]
        pieces = [self._piece(int(record), chosen[held == record]) for record in np.unique(held)]
        table = pa.concat_tables(pieces) if pieces else None
        record = int(held[0]) if len(held) else 0
        if table is not None:
            base = Lines(table, record, 0, np.empty(0)).codes("file", self._files) * MOST_ROW
            key = base + table.column("row").to_numpy()
            inside = np.flatnonzero((key >= low) & (key < high))
            order = inside[np.argsort(key[inside], kind="stable")]
            table, key = table.take(order).combine_chunks(), key[order]
        if table is None or not table.num_rows:
            empty = np.empty(0, dtype=np.int64)
            return Rows(empty, np.empty((0, 3), dtype=np.int64), *[empty] * 8)
        starts = np.flatnonzero(np.concatenate([[True], np.diff(key) != 0]))
        try:
            return self._told(Lines(table, record, 0, starts), key[starts], digests)
        except ValueError as error:
            raise self.dataset.bad(record, str(error)) from None

    def _piece(self, record: int, runs: np.ndarray) -> pa.Table:
        """The lines of some runs of a record file, and those between them."""
        if record not in self._held:
            self._held[record] = self.dataset.table(record, COLUMNS)
            if len(self._held) > _KEPT:
                self._held.popitem(last=False)
        self._held.move_to_end(record)
        begin = self.extents.begin[runs]
        end = int((begin + self.extents.count[runs]).max())
        return self._held[record].slice(int(begin.min()), end - int(begin.min()))

    def _told(self, lines: Lines, key: np.ndarray, digests: Words) -> Rows:
        seen = judged(lines, self._vocabulary)
        at = lines.starts
        row = np.repeat(np.arange(len(at)), np.diff(at, append=len(lines)))
        place = [np.where(lines.known(name)[at], lines.numbers(name)[at], -FAR) for name in PLACE]
        kept = np.flatnonzero(seen.recorded & (seen.verdict >= 0))
        verdict, selection = np.full(len(at), -1), np.full(len(at), -1)
        if len(np.unique(row[kept])) < len(kept):
            raise ValueError("a row has two recorded selections")
        verdict[row[kept]] = seen.verdict[kept]
        selection[row[kept]] = lines.codes("selection", digests)[kept]
        asked = np.flatnonzero(seen.census)
        return Rows(
            key=key,
            place=np.stack(place, axis=1),
            scores=lines.codes("scores", digests)[at],
            selection=selection,
            risk=np.maximum.reduceat(np.where(seen.counts, seen.risk, -1), at),
            verdict=verdict,
            bits=seen.row_bits(lines),
            lines=row[asked],
            path=seen.path[asked],
            level=seen.risk[asked],
        )


def severity(verdict: np.ndarray) -> np.ndarray:
    """How bad verdicts are: 3 invalid, 2 lossy, 0 where no value is lost, -1 for none."""
    assert len(SEVERITY) == len(VERDICTS) + 1
    found: np.ndarray = SEVERITY[verdict]
    return found
