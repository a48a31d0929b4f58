"""What is counted over records: which lines tell of a loss, and what becomes of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
        judged = pc.or_(
            pc.or_(pc.is_valid(table["verdict"]), pc.is_valid(table["risk"])), pc.is_valid(table["finding"])
        )
        tells = table.append_column("tells", telling(table, paths)).append_column("judged", judged)
        # Lines stand in the order of files and rows, so that groups do too.
        grouped = tells.group_by(["file", "row"], use_threads=False).aggregate(
            [
                ("tells", "any"),
                ("judged", "any"),
                ("error", "first"),
                ("scores", "first"),
                ("selection", "last"),
                ("row", "count"),
            ]
        )
        yield from _by_file(grouped)


def _by_file(grouped: pa.Table) -> Iterator[Counted]:
    files = grouped["file"].to_pylist()
    begin = 0
    for at in range(1, len(files) + 1):
        if at < len(files) and files[at] == files[begin]:
            continue
        yield _counted(files[begin], grouped.slice(begin, at - begin).to_pydict())
        begin = at


def _counted(file: str, found: dict[str, list[Any]]) -> Counted:
    errors = [error for error in found["error_first"] if error is not None]
    tally = Tally(
        rows=len(found["row"]),
        failed=len(errors),
        judged=sum(map(bool, found["judged_any"])),
        found=sum(map(bool, found["tells_any"])),
        lines=sum(found["row_count"]),
        error=errors[0] if errors else None,
    )
    pairs = zip(found["scores_first"], found["selection_last"], strict=True)
    return Counted(file, tally, "".join(f"{scores} {selection}\n" for scores, selection in pairs))
