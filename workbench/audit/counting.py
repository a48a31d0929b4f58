"""What is counted over records: which lines tell of a loss, and what becomes of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.risk import LOSING
from workbench.analysis.verdict import LOST
from workbench.audit.telling import counting_lines, may_count, telling
from workbench.audit.work import CENSUS, RECORDED

NEEDED = ("file", "row", "scores", "engine", "path", "reached", "verdict", "selection", "risk", "finding", "error")


def bad_lines(table: pa.Table, paths: str = "*") -> np.ndarray:
    """bool [n]: which lines tell of a loss, a risk or a harm, as ``telling`` has it."""

    def among(name: str, texts: tuple[str, ...]) -> np.ndarray:
        found: np.ndarray = pc.is_in(table[name], value_set=pa.array(texts)).to_numpy()
        return found

    path = table["path"].combine_chunks().dictionary_encode()
    may = may_count(path.dictionary.to_pylist(), paths == "*")[path.indices.fill_null(-1).to_numpy()]
    known, reached = table["reached"].is_valid().to_numpy(), pc.fill_null(table["reached"], False).to_numpy()
    counts = counting_lines(among("engine", (CENSUS,)), known, reached, may)
    finding = table["finding"].is_valid().to_numpy()
    return telling(among("engine", (RECORDED,)), counts, among("verdict", LOST), among("risk", LOSING), finding).bad


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
        judged, tells = pc.or_(pc.or_(verdict, risk), finding).to_numpy(), bad_lines(table, paths)
        rows, files = _begins(table, ("file", "row")), _begins(table, ("file",))
        ends = np.append(rows[1:], table.num_rows)
        first = table.take(rows)
        selections = table["selection"].take(ends - 1)  # a recorded selection's line is the last of its row
        any_judged, any_tells = (np.logical_or.reduceat(one, rows) for one in (judged, tells))
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
