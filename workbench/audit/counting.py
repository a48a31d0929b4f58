"""What is counted over records: which lines tell of a loss, and what becomes of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.paths.catalog import PATHS
from workbench.runs.run import SYSTEMS

NEEDED = ("file", "row", "scores", "path", "reached", "verdict", "selection", "risk", "finding", "error")
_SERVED = [path.name for path in PATHS if path.system in SYSTEMS]


def telling(table: pa.Table, paths: str = "*") -> pa.BooleanArray:
    """Which lines tell of a loss, a risk or a harm: bool, a value a line.

    A recorded selection that is lossy or invalid does. So does a risk that is not ``safe``, or a finding, on the path
    that the op sends the row to, or on each that it may where that is not known: those of the op, and without an op
    those that were asked for, or every path of a serving system.
    """
    lost = pc.is_in(table["verdict"], value_set=pa.array(["lossy", "invalid"]))
    risky = pc.or_(
        pc.is_in(table["risk"], value_set=pa.array(["at risk", "certain"])),
        pc.is_valid(table["finding"]),
    )
    asked = pc.is_in(table["path"], value_set=pa.array(_SERVED if paths == "*" else [path.name for path in PATHS]))
    counts = pc.fill_null(table["reached"], asked)
    return pc.or_(lost, pc.and_(risky, counts))


@dataclass
class Tally:
    """What the records say of one file, or of all.

    Attributes:
        rows: with a line. failed: of them, how many could not be read or judged. judged: how many have a verdict, a
            risk or a finding. found: how many tell of a loss, a risk or a harm. lines: how many. error: the first one.
    """

    rows: int = 0
    failed: int = 0
    judged: int = 0
    found: int = 0
    lines: int = 0
    error: str | None = None

    def add(self, other: Tally) -> None:
        """Count another one's too."""
        self.rows += other.rows
        self.failed += other.failed
        self.judged += other.judged
        self.found += other.found
        self.lines += other.lines
        self.error = self.error or other.error


@dataclass(frozen=True)
class Counted:
    """A run of lines of one file: their tally, and the digests of each row's scores and selection."""

    file: str
    tally: Tally
    digests: str


def count(tables: Iterable[pa.Table], paths: str = "*") -> Iterator[Counted]:
    """Tallies of records in their order, for each run of lines of one file; rows are never parted between tables."""
    for table in tables:
        if not table.num_rows:
            continue
        verdict, risk, finding = (pc.is_valid(table[name]) for name in ("verdict", "risk", "finding"))
        judged, tells = pc.or_(pc.or_(verdict, risk), finding), telling(table, paths)
        rows, files = _begins(table, ("file", "row")), _begins(table, ("file",))
        ends = np.append(rows[1:], table.num_rows)
        first = table.take(rows)
        selections = table["selection"].take(ends - 1)  # a recorded selection's line is the last of its row
        any_judged, any_tells = (np.logical_or.reduceat(one.to_numpy(), rows) for one in (judged, tells))
        for begin, end in zip(files, np.append(files[1:], table.num_rows), strict=True):
            of = slice(*np.searchsorted(rows, (begin, end)))
            own = first.slice(of.start, of.stop - of.start)
            errors = own["error"].drop_null()
            pairs = zip(own["scores"].to_pylist(), selections[of].to_pylist(), strict=True)
            tally = Tally(
                rows=own.num_rows,
                failed=len(errors),
                judged=int(any_judged[of].sum()),
                found=int(any_tells[of].sum()),
                lines=int(end - begin),
                error=errors[0].as_py() if len(errors) else None,
            )
            yield Counted(own["file"][0].as_py(), tally, "".join(f"{one} {other}\n" for one, other in pairs))


def _begins(table: pa.Table, names: tuple[str, ...]) -> np.ndarray:
    """Where the values of some columns differ from those of the line before: int64, the first line among them."""
    differs = np.zeros(table.num_rows, dtype=bool)
    differs[0] = True
    for name in names:
        column = table[name].combine_chunks()
        differs[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(differs)
