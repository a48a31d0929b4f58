"""The lines of a unit on their way into the records: facts of rows once, what is said of each path beside them.

A row has some thirty lines that share half of their columns. So a worker sends two small tables, and whoever writes
the records joins them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from workbench.audit.schema import COLUMNS, arrow_schema

_NAMES = [column.name for column in COLUMNS]
ROW_COLUMNS = tuple(_NAMES[: _NAMES.index("engine")])
LINE_COLUMNS = tuple(_NAMES[_NAMES.index("engine") :])
_AT = "at"


class Lines:
    """Lines, collected.

    Attributes:
        failed: of how many rows there is an error.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[Any]] = {name: [] for name in ROW_COLUMNS}
        self._lines: dict[str, list[Any]] = {name: [] for name in (_AT, *LINE_COLUMNS)}
        self.failed = 0

    def add(self, row: Mapping[str, Any], lines: list[dict[str, Any]]) -> None:
        """A row's own columns, and those of its lines; what is left out is null."""
        at = len(self._rows["file"])
        for name, values in self._rows.items():
            values.append(row.get(name))
        for line in lines:
            line[_AT] = at
        for name, values in self._lines.items():
            values.extend([line.get(name) for line in lines])

    def fail(self, file: str, row: int, error: str) -> None:
        """A row that cannot be read or judged."""
        self.failed += 1
        self.add({"file": file, "row": row}, [{"error": error}])

    def dumped(self) -> bytes:
        """Both tables in one piece."""
        schema = arrow_schema()
        rows = pa.table(self._rows, schema=pa.schema([schema.field(name) for name in ROW_COLUMNS]))
        fields = [pa.field(_AT, pa.int32()), *(schema.field(name) for name in LINE_COLUMNS)]
        lines = pa.table(self._lines, schema=pa.schema(fields))
        sink = pa.BufferOutputStream()
        for table in (rows, lines):
            with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
                writer.write_table(table)
        found: bytes = sink.getvalue().to_pybytes()
        return found


def joined(payload: bytes) -> pa.Table:
    """The records of a piece that ``Lines.dumped`` made."""
    source = pa.BufferReader(payload)
    rows, lines = (pa.ipc.open_stream(source).read_all() for _ in range(2))
    at = lines.column(_AT)
    columns = [rows.column(name).take(at) for name in ROW_COLUMNS] + [lines.column(name) for name in LINE_COLUMNS]
    return pa.table(columns, schema=arrow_schema())
