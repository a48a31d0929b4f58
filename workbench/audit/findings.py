"""The lines of an audit that say something bad, as a table that goes by in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from workbench.audit.dataset import Dataset
from workbench.audit.schema import COLUMNS, arrow_schema
from workbench.audit.summing import Vocabulary, judged

if TYPE_CHECKING:
    import pyarrow as pa


def findings(dataset: Dataset) -> Iterator[pa.Table]:
    """Every line that counts and is at risk, certain or harmful, that is lossy or invalid, or has an error.

    Lines come in the order of the records, with all columns, batch by batch.

    Raises:
        CaptureError: what is read is not what an audit writes.
    """
    vocabulary = Vocabulary(dataset.served)
    names = [column.name for column in COLUMNS]
    for lines in dataset.lines(names):
        try:
            seen = judged(lines, vocabulary)
        except ValueError as error:
            raise dataset.bad(lines.record, str(error)) from None
        kept = np.flatnonzero(seen.telling.bad | seen.error)
        if len(kept):
            yield lines.table.select(names).take(kept).cast(arrow_schema())
