"""The lines of a unit on their way into the records: facts of rows once, what is said of each path beside them.

A row has some thirty lines that share half of their columns. So a worker sends two small tables, and whoever writes
the records joins them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from workbench.audit.schema import COLUMNS, arrow_schema

_NAMES = [column.name for column in COLUMNS]
ROW_COLUMNS = tuple(_NAMES[: _NAMES.index("engine")])
LINE_COLUMNS = tuple(_NAMES[_NAMES.index("engine") :])
_AT = "at"
_TOGETHER = 4096  # lines that are converted at once


class Lines:
    """Lines, collected; some rows at a time become Arrow's, which takes a tenth of what Python's objects take.

    Attributes:
        failed: of how many rows there is an error.
    """

    def __init__(self) -> None:
        self._count = self.failed = 0
        self._batches: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, list[Any]] = {name: [] for name in ROW_COLUMNS}
        self._lines: dict[str, list[Any]] = {name: [] for name in (_AT, *LINE_COLUMNS)}

    def add(self, row: Mapping[str, Any], lines: list[dict[str, Any]]) -> None:
        """A row's own columns, and those of its lines; what is left out is null."""
        for name, values in self._rows.items():
            values.append(row.get(name))
        for line in lines:
            line[_AT] = self._count
        for name, values in self._lines.items():
            values.extend([line.get(name) for line in lines])
        self._count += 1
        if len(self._lines[_AT]) >= _TOGETHER:
            self._convert()

    def fail(self, file: str, row: int, error: str) -> None:
        """A row that cannot be read or judged."""
        self.failed += 1
        self.add({"file": file, "row": row}, [{"error": error}])

    def _convert(self) -> None:
        for batches, columns, schema in zip(self._batches, (self._rows, self._lines), _schemas(), strict=True):
            batches.append(pa.record_batch(columns, schema=schema))
        self._clear()

    def dumped(self) -> bytes:
        """Both tables in one piece."""
        self._convert()
        sink = pa.BufferOutputStream()
        for batches, schema in zip(self._batches, _schemas(), strict=True):
            table = pa.Table.from_batches(batches, schema).combine_chunks()
            with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(table)
        found: bytes = sink.getvalue().to_pybytes()
        return found


@cache
def _schemas() -> tuple[pa.Schema, pa.Schema]:
    schema = arrow_schema()
    return (
        pa.schema([schema.field(name) for name in ROW_COLUMNS]),
        pa.schema([pa.field(_AT, pa.int32()), *(schema.field(name) for name in LINE_COLUMNS)]),
    )


def joined(payload: bytes) -> pa.Table:
    """The records of a piece that ``Lines.dumped`` made."""
    return _joined(*_read(payload))


def check_piece(payload: bytes, file: str, rows: range) -> None:
    """Whether a piece that nobody vouches for holds lines of these rows of a file, each of them and no other.

    Raises:
        ValueError: it does not, or is none.
    """
    try:
        parts = _read(payload)
        for part in parts:
            part.validate(full=True)  # else a buffer may be read past its end
        table = _joined(*parts)
    except MemoryError:
        raise
    except Exception as error:  # what a damaged piece makes of pyarrow is of many kinds
        raise ValueError(f"no lines of a unit: {error}") from None
    names, numbers = table.column("file"), table.column("row")
    if names.null_count or numbers.null_count or names.unique().to_pylist() != [file]:
        raise ValueError("lines of another file")
    told = numbers.to_numpy()
    if told[np.append(True, np.diff(told) != 0)].tolist() != list(rows):
        raise ValueError("lines of other rows")


def _read(payload: bytes) -> list[pa.Table]:
    source = pa.BufferReader(payload)
    return [pa.ipc.open_stream(source).read_all() for _ in range(2)]


def _joined(rows: pa.Table, lines: pa.Table) -> pa.Table:
    at = lines.column(_AT)
    columns = [rows.column(name).take(at) for name in ROW_COLUMNS] + [lines.column(name) for name in LINE_COLUMNS]
    return pa.table(columns, schema=arrow_schema())
