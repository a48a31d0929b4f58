"""The columns of an audit's records, one line a row and path, and one for a recorded selection.

Kept as ``OUT/records/*.parquet``; beside them ``OUT/manifest.jsonl`` (a line a file: ``file``, ``size``, ``digest``,
``rows``, ``state``, ``error``) and ``OUT/audit.json`` (what was asked, versions, folder).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """A column: its name, its Arrow type by name, and what it says. Every one may be null: unknown, not applicable."""

    name: str
    type: str
    about: str


COLUMNS = (
    Column("file", "string", "capture file, below the audited folder, / between its parts"),
    Column("row", "int64", "number of the row within its file"),
    Column("call", "int64", "number of the call within its file"),
    Column("op", "string", "op of the call, as given or recorded"),
    Column("release", "string", "release, as given or recorded"),
    Column("device", "string", "device, as given or recorded"),
    Column("model", "string", "model, as recorded"),
    Column("request", "string", "request, as recorded"),
    Column("layer", "int64", "layer of the call"),
    Column("step", "int64", "decoding step of the call"),
    Column("rank", "int64", "rank of the process that made the call"),
    Column("k", "int64", "winners asked for"),
    Column("length", "int64", "valid scores, as the op was given it"),
    Column("width", "int64", "padded columns of the row"),
    Column("dtype", "string", "dtype of the scores"),
    Column("scores", "string", "digest of the row's input, sha256:… as Row.digest"),
    Column("nan", "int64", "valid scores that are NaN"),
    Column("neg_inf", "int64", "valid scores that are -inf"),
    Column("fp16_overflow", "int64", "valid finite scores beyond 65504 in magnitude, which fp16 cannot hold"),
    Column("ties", "int64", "valid scores that equal the k-th best, itself among them; null where length <= k"),
    Column(
        "engine",
        "string",
        "census: the risk over every arrival order; recorded: the verdict of what production returned",
    ),
    Column("path", "string", "path; of a recorded selection the one that the op takes, null where unknown"),
    Column("variant", "string", "variant of the path"),
    Column("reached", "bool", "whether the op sends this row to this path; null where unknown"),
    Column("refused", "string", "why the path does not take the row, every unmet condition"),
    Column("verdict", "string", "of a recorded selection: invalid, lossy, ties or exact"),
    Column("missing", "int64", "winners that a recorded selection lacks, as a multiset"),
    Column("selection", "string", "digest of a recorded selection as a set, sha256:…"),
    Column("risk", "string", "safe, at risk or certain, over every arrival order"),
    Column("p_clean", "float64", "probability that a uniformly random order of scores one by one loses nothing"),
    Column("expected_missing", "float64", "mean number of values lost over those orders"),
    Column("threshold_bin", "int64", "the bin that holds the k-th largest score"),
    Column("above", "int64", "scores in higher bins"),
    Column("population", "int64", "scores in the threshold bin"),
    Column("need", "int64", "how many of the bin must be taken"),
    Column("capacity", "int64", "how many the buffer holds"),
    Column("finding", "string", "what the selector does beside selecting wrongly, as hanging"),
    Column("error", "string", "why the row could not be read or judged; the line then says nothing else of it"),
)


def arrow_schema() -> pa.Schema:
    """The columns as an Arrow schema, what each says as its metadata."""
    import pyarrow as pa

    types = {"string": pa.string(), "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
    return pa.schema([pa.field(one.name, types[one.type], metadata={"about": one.about}) for one in COLUMNS])


def is_of_disk(error: Exception) -> bool:
    """Whether a file was not read for what the system refused, and not for what it holds: pyarrow raises ``OSError``
    without a number for the latter."""
    return isinstance(error, OSError) and error.errno is not None


def named_file(path: Path, mode: str = "rb") -> pa.OSFile:
    """A file for pyarrow, which takes paths by name only where they are UTF-8.

    Raises:
        OSError: as opening it does.
    """
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path), mode)
