"""Tables as files lose nothing."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.figures.files import csv_bytes, parquet_bytes

SCORES = [1 / 3, math.nan, math.inf, -math.inf, -0.0, 5e-324, 16777217.0]
WHOLE = [2**63 - 1, -(2**63), 2**53 + 1, 0, 1, 2, 3]


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "score": np.array(SCORES),
            "narrow": np.array(SCORES, dtype=np.float32),
            "whole": np.array(WHOLE, dtype=np.int64),
            "maybe": pd.array([2**53 + 1, None, 3, 4, 5, 6, 7], dtype="Int64"),
            "chance": pd.array([0.1, None, 1.0, 0.0, 0.5, 1e-300, 0.25], dtype="Float64"),
            "held": pd.array([True, None, False, True, True, True, True], dtype="boolean"),
            "name": ["a,b", None, 'say "x"', "NaN", "line\nbreak", "é", "=1+1"],
        }
    )


def test_parquet_holds_every_bit_and_tells_nan_from_unknown() -> None:
    found = pq.read_table(io.BytesIO(parquet_bytes(frame())))
    assert [str(field.type) for field in found.schema][:6] == ["double", "float", "int64", "int64", "double", "bool"]
    for name in ("score", "narrow"):
        column = found[name].combine_chunks()
        assert column.null_count == 0
        held = column.to_numpy(zero_copy_only=False)
        assert held.tobytes() == frame()[name].to_numpy().tobytes()
    assert found["whole"].to_pylist() == WHOLE
    assert found["maybe"].to_pylist()[:3] == [2**53 + 1, None, 3]
    assert found["chance"].to_pylist()[1:3] == [None, 1.0]
    assert found["name"].to_pylist() == ["a,b", None, 'say "x"', "NaN", "line\nbreak", "é", "=1+1"]
    assert isinstance(found, pa.Table)


def test_csv_reads_back_to_the_same_numbers() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_bytes(frame()).decode())))
    assert [line["score"] for line in lines[1:4]] == ["NaN", "inf", "-inf"]
    for name, dtype in (("score", np.float64), ("narrow", np.float32)):
        back = np.array([float(line[name]) for line in lines]).astype(dtype)
        assert back.tobytes() == np.array(SCORES, dtype=dtype).tobytes()
    assert [int(line["whole"]) for line in lines] == WHOLE
    assert [line["maybe"] for line in lines[:3]] == [str(2**53 + 1), "", "3"]
    assert [line["name"] for line in lines] == ["a,b", "", 'say "x"', "NaN", "line\nbreak", "é", "=1+1"]


@pytest.mark.parametrize("write", [csv_bytes, parquet_bytes])
def test_names_of_files_that_are_no_text_are_spelled_out(write: object) -> None:
    odd = pd.DataFrame({"file": pd.Series(["a\udcff.bin"], dtype=object), "row": [1]})
    content = write(odd)  # type: ignore[operator]
    assert b"a\\udcff.bin" in content


def test_a_table_of_no_lines_has_its_head() -> None:
    assert csv_bytes(frame().iloc[:0]) == b"score,narrow,whole,maybe,chance,held,name\n"
    assert pq.read_table(io.BytesIO(parquet_bytes(frame().iloc[:0]))).num_rows == 0
