"""An audit's output folder, opened again: nothing in it is believed before it is checked.

Records are read in batches of whole rows and only the columns asked for, so that memory stays flat however large the
dataset is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.audit.about import AUDIT, FORMAT
from workbench.audit.regular import irregular
from workbench.audit.schema import COLUMNS, arrow_schema, is_of_disk, named_file
from workbench.audit.store import LOCK, MANIFEST, RECORDS, UNFINISHED
from workbench.audit.unfinished import Unfinished, progress_of
from workbench.audit.work import CENSUS, RECORDED
from workbench.capture.strictjson import short, strict_json
from workbench.capture.values import path_text, shown
from workbench.errors import CaptureError
from workbench.runs.members import Members, content_of
from workbench.words import because

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIX = ".parquet"
EVERY = "*"  # what is asked for where no paths are
ENGINES = (CENSUS, RECORDED)
BATCH = 1 << 17  # lines held at once
MOST_LINES = 4096  # of one row
MOST_ROW = 1 << 40
_LONGEST_LINE = 1 << 20  # bytes of the manifest's
NAMES = tuple(column.name for column in COLUMNS)
TEXTS = frozenset(column.name for column in COLUMNS if column.type == "string")
CURE = "audit the folder again, into another one"


@dataclass(frozen=True)
class FileLine:
    """A line of the manifest: a file of the audited folder, and what became of it."""

    file: str
    size: int | None
    digest: str | None
    rows: int | None
    state: str
    error: str | None


class Lines:
    """Some lines of the records, whole rows only, as arrays.

    Args:
        table: the lines. record: the number of their record file. first: the number of the first line within it.
    """

    def __init__(self, table: pa.Table, record: int, first: int, starts: np.ndarray) -> None:
        self.table, self.record, self.first = table, record, first
        self.starts = starts  # int64 [rows], where each row's lines begin

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def known(self, name: str) -> np.ndarray:
        """bool [n]: where a column says something."""
        found: np.ndarray = self.table.column(name).is_valid().to_numpy()
        return found

    def numbers(self, name: str) -> np.ndarray:
        """int64, float64 or bool [n]: a column, 0 where it says nothing."""
        column = self.table.column(name)
        found: np.ndarray = column.fill_null(False if str(column.type) == "bool" else 0).to_numpy()
        return found

    def codes(self, name: str, words: Words) -> np.ndarray:
        """int64 [n]: a column of texts by their numbers in ``words``, -1 where it says nothing."""
        return np.concatenate([words.codes(chunk) for chunk in self.table.column(name).chunks] or [np.empty(0, int)])

    def each_row(self, bits: np.ndarray) -> np.ndarray:
        """Of every row, the bits that any of its lines has."""
        return np.bitwise_or.reduceat(bits, self.starts)


class Words:
    """Texts and their numbers, in the order in which they were first met."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str | None, int] = {None: -1}

    def number(self, text: str | None) -> int:
        """The number of a text, a new one where it was not met before."""
        found = self._numbers.get(text)
        if found is None:
            assert text is not None
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def codes(self, chunk: pa.DictionaryArray) -> np.ndarray:
        """int64 [n]: the numbers of a column's texts, -1 for null."""
        table = np.array([*(self.number(text) for text in chunk.dictionary.to_pylist()), -1], dtype=np.int64)
        places: np.ndarray = chunk.indices.fill_null(len(table) - 1).to_numpy()
        found: np.ndarray = table[places]
        return found


class Dataset:
    """An audit's output folder.

    Attributes:
        name: as it was given. records: the record files, by name. about: what ``audit.json`` says.
        finished: whether the audit is. served: whether only paths of serving systems count for rows whose route is not
            known. folder: that was audited, absolute.

    Raises:
        CaptureError: it cannot be read, or is not what an audit writes.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path, self.name = Path(path_text(folder)), shown(folder)
        try:
            if not self.path.is_dir():
                what = "is a file, not the folder that an audit wrote" if self.path.exists() else "no such folder"
                raise CaptureError(what, file=self.name)
            if not (self.path / AUDIT).is_file():
                raise CaptureError(f"this is no audit's output folder: it holds no {AUDIT}", file=self.name)
            if (other := irregular(self.path)) is not None:
                raise CaptureError("it is no regular file", file=shown(other))
            held = self.path / RECORDS
            names = sorted(os.listdir(held)) if held.is_dir() else []  # noqa: PTH208  names, not paths
        except (OSError, ValueError) as error:
            raise CaptureError(f"cannot be read: {because(error)}", file=self.name) from None
        self.records = [held / name for name in names if name.endswith(SUFFIX) and not name.startswith(".")]
        self.about = self._about()
        self.finished: bool = self.about["finished"]
        self.served = self.about["asked"]["paths"] == EVERY
        self.folder: str = self.about["asked"]["folder"]

    def _about(self) -> dict[str, Any]:
        file = shown(self.path / AUDIT)
        reader = Members(file, "audit", CURE)
        said = reader.members(strict_json(content_of(self.path / AUDIT, file), "the audit", file, CURE), "the audit")
        if said.get("format") != FORMAT:
            raise CaptureError(
                f"this is no audit: its format is {short(said.get('format'))}, not {FORMAT!r}", file=file
            )
        if not isinstance(said.get("finished"), bool):
            raise reader.bad("the audit does not say whether it is finished")
        asked = reader.members(said.get("asked"), "asked")
        for name in ("folder", "paths"):
            reader.text(asked.get(name), f"asked.{name}")
        return said

    def unfinished(self) -> Unfinished | None:
        """How far the audit is; ``None`` if it is finished.

        Raises:
            CaptureError: its plan is damaged.
        """
        return None if self.finished else progress_of(self.path / UNFINISHED, self.path / RECORDS)

    def manifest(self) -> Iterator[FileLine]:
        """The lines of the manifest, in its order.

        Raises:
            CaptureError: it is missing, or a line is none of a manifest.
        """
        path = self.path / MANIFEST
        name = shown(path)
        try:
            with path.open("rb") as lines:
                number = 0
                while line := lines.readline(_LONGEST_LINE):
                    number += 1
                    if len(line) == _LONGEST_LINE:
                        raise CaptureError(f"line {number} is longer than {_LONGEST_LINE} bytes; {CURE}", file=name)
                    yield _file_line(line, f"line {number}", name)
        except FileNotFoundError:
            raise CaptureError(f"it holds no {MANIFEST}; {CURE}", file=self.name) from None
        except OSError as error:
            raise CaptureError(f"cannot be read: {because(error)}", file=name) from None

    def check_rows(self, count: int) -> None:
        """Whether the records hold as many rows as a finished audit's manifest tells of; if not, a part is missing.

        Raises:
            CaptureError: they do not.
        """
        if not self.finished:
            return
        told = sum(line.rows or 0 for line in self.manifest())
        if told != count:
            raise CaptureError(f"its manifest tells of {told} rows and its records of {count}; {CURE}", file=self.name)

    def check_lines(self, count: int) -> None:
        """Whether the records hold so many lines, from what each file says of itself.

        Raises:
            CaptureError: they do not, or one cannot be read.
        """
        held = 0
        for record in range(len(self.records)):
            file = self._open(record)
            held += file.metadata.num_rows
            file.close(force=True)  # the file that it is given, too
        if held != count:
            raise CaptureError(f"its {AUDIT} tells of {count} lines and its records of {held}; {CURE}", file=self.name)

    def lines(self, columns: Sequence[str]) -> Iterator[Lines]:
        """All lines in the order of the record files, batch by batch, no row in two of them.

        Args:
            columns: what is read, beside ``file`` and ``row``.

        Raises:
            CaptureError: a record file cannot be read, or is not what an audit writes.
        """
        wanted = list(dict.fromkeys(("file", "row", *columns)))
        for record in range(len(self.records)):
            yield from self._whole_rows(record, wanted)

    def _whole_rows(self, record: int, wanted: list[str]) -> Iterator[Lines]:
        import pyarrow as pa

        held: pa.Table | None = None
        first = 0
        for batch in self._batches(record, wanted):
            table = pa.Table.from_batches([batch])
            held = table if held is None else pa.concat_tables([held, table])
            starts = self._starts(held, record)
            if len(starts) < 2:
                continue
            cut = int(starts[-1])
            yield Lines(held.slice(0, cut), record, first, starts[:-1])
            held, first = held.slice(cut), first + cut
        if held is not None and held.num_rows:
            yield Lines(held, record, first, self._starts(held, record))

    def _starts(self, table: pa.Table, record: int) -> np.ndarray:
        try:
            return row_starts(table)
        except ValueError as error:
            raise self.bad(record, str(error)) from None

    def _batches(self, record: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        file = self._open(record)
        try:
            yield from file.iter_batches(batch_size=BATCH, columns=columns)
        except Exception as error:  # what a damaged file makes of pyarrow is of many kinds
            raise self._unread(record, error) from None
        finally:
            file.close(force=True)  # the file that it is given, too

    def _open(self, record: int) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        path = self.records[record]
        try:
            with named_file(path) as file:
                about = pq.read_metadata(file)
            found = about.schema.to_arrow_schema()
        except Exception as error:
            raise self._unread(record, error) from None
        for name in found.names:
            if name not in NAMES:
                raise self.bad(record, f"it has a column {short(name)} that no audit of this version writes")
        for field in arrow_schema():
            at = found.get_field_index(field.name)
            if at < 0:
                raise self.bad(record, f"it has no column {field.name!r}")
            held = found.field(at).type
            if held != field.type:
                raise self.bad(record, f"its column {field.name!r} is {held}, not {field.type}")
        try:
            return pq.ParquetFile(named_file(path), metadata=about, read_dictionary=sorted(TEXTS))
        except Exception as error:
            raise self._unread(record, error) from None

    def table(self, record: int, columns: Sequence[str]) -> pa.Table:
        """A record file, some of its columns; ``lines`` takes it to pieces that memory has room for."""
        import pyarrow as pa

        return pa.Table.from_batches(self._batches(record, list(columns)))

    def whole_lines(self, places: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        """Lines with all their columns. ``places``: (record file, line within it)."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for record in sorted({record for record, _ in places}):
            wanted = sorted({line for one, line in places if one == record})
            file = self._open(record)
            try:
                first = 0
                for group in range(file.num_row_groups):
                    size = file.metadata.row_group(group).num_rows
                    if not any(first <= line < first + size for line in wanted):
                        first += size
                        continue
                    for batch in file.iter_batches(batch_size=BATCH, row_groups=[group]):
                        here = [line for line in wanted if first <= line < first + batch.num_rows]
                        for line in here:
                            found[record, line] = batch.slice(line - first, 1).to_pylist()[0]
                        first += batch.num_rows
            except Exception as error:
                raise self._unread(record, error) from None
            finally:
                file.close(force=True)  # the file that it is given, too
        return [found[place] for place in places]

    def bad(self, record: int, what: str) -> CaptureError:
        """The error for a record file that is not as it must be."""
        return CaptureError(f"{what}; {CURE}", file=shown(self.records[record]))

    def _unread(self, record: int, error: Exception) -> Exception:
        if isinstance(error, CaptureError | MemoryError):
            return error
        if is_of_disk(error):
            return CaptureError(f"cannot be read: {because(error)}", file=shown(self.records[record]))
        text = " ".join(because(error).split()) or type(error).__name__
        return self.bad(record, f"cannot be read as Parquet: {text[:200]}")


def row_starts(table: pa.Table) -> np.ndarray:
    """int64 [rows]: where rows begin in lines whose texts are dictionaries, checked: every line has a file and a row.

    Raises:
        ValueError: one has none, or a row that no file has.
    """
    if not table.num_rows:
        return np.empty(0, dtype=np.int64)
    if table.column("file").null_count or table.column("row").null_count:
        raise ValueError("a line names no file or no row")
    rows = table.column("row").to_numpy()
    if rows.min() < 0 or rows.max() >= MOST_ROW:
        raise ValueError(f"a line is of row {rows.min() if rows.min() < 0 else rows.max()}")
    files = Lines(table, 0, 0, rows).codes("file", Words())
    changes = np.flatnonzero((np.diff(rows) != 0) | (np.diff(files) != 0)) + 1
    starts: np.ndarray = np.concatenate([[0], changes])
    if np.diff(starts, append=len(rows)).max() > MOST_LINES:
        raise ValueError(f"a row has more than {MOST_LINES} lines")
    return starts


def is_kept(folder: Path, file: Path) -> bool:
    """Whether a file is one of those that an audit's folder is made of."""
    place, held = file.resolve(), folder.resolve()
    if held not in place.parents:
        return False
    return place.relative_to(held).parts[0] in (AUDIT, MANIFEST, RECORDS, UNFINISHED, LOCK)


def _file_line(line: bytes, where: str, name: str) -> FileLine:
    reader = Members(name, "manifest", CURE)
    said = reader.members(strict_json(line, where, name, CURE), where)
    reader.names(said, ["file", "size", "digest", "rows", "state", "error"], where, more=["failed", "found"])

    def text(member: str) -> str | None:
        return None if said[member] is None else reader.text(said[member], f"{where}, {member}")

    def whole(member: str) -> int | None:
        return None if said[member] is None else reader.whole(said[member], f"{where}, {member}")

    if said["file"] is None or said["state"] is None:
        raise reader.bad(f"{where} names no file or no state")
    return FileLine(
        text("file") or "", whole("size"), text("digest"), whole("rows"), text("state") or "", text("error")
    )
