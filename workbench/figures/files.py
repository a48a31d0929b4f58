"""Tables as files that lose nothing: whole numbers stay whole, scores keep all their digits, NaN is not "unknown"."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A table as comma-separated values, UTF-8. Floats in the shortest spelling that reads back to the same float64;
    ``NaN``, ``inf`` and ``-inf`` as such; what is unknown is empty."""
    import csv

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(frame.columns)
    columns = arrow_table(frame).to_pydict()
    writer.writerows([_spelled(cell) for cell in line] for line in zip(*columns.values(), strict=True))
    return out.getvalue().encode("utf-8", "backslashreplace")


def _spelled(cell: object) -> object:
    if isinstance(cell, float) and math.isnan(cell):
        return "NaN"
    return "" if cell is None else repr(cell) if isinstance(cell, float) else cell


def parquet_bytes(frame: pd.DataFrame) -> bytes:
    """A table as Parquet: NaN stays NaN, what is unknown is null."""
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(arrow_table(frame), out)
    return out.getvalue()


def arrow_table(frame: pd.DataFrame) -> pa.Table:
    """A table of Arrow, of a frame without its index. Columns of NumPy's floats keep NaN; of nullable columns and of
    columns of texts what is missing is null."""
    import pandas as pd
    import pyarrow as pa

    arrays = []
    for _, column in frame.items():
        if pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype):
            arrays.append(pa.array([None if _is_missing(cell) else _text(cell) for cell in column]))
        elif pd.api.types.is_extension_array_dtype(column.dtype):
            arrays.append(pa.array(column, from_pandas=True))
        else:
            arrays.append(pa.array(column.to_numpy(), from_pandas=False))
    return pa.Table.from_arrays(arrays, names=[str(name) for name in frame.columns])


def _is_missing(cell: object) -> bool:
    import pandas as pd

    return cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell))


def _text(cell: object) -> object:
    """A text that UTF-8 can hold, whatever stood in a file's name; anything else as it is."""
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
