"""Matrices as files: what was written comes back, and nothing else is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.fakes import Releases, clean, faults, loses, refuses
from tests.runs.test_matrix import crowded, small
from tests.warps import routed_warp
from workbench.errors import CaptureError, UsageError
from workbench.runs import matrix_saved
from workbench.runs.matrix_saved import parse_matrix


def measured() -> wb.Matrix:
    fake = Releases(
        {"0.1": loses(3, every=2), "0.2": faults("illegal\naccess \x1b[0m"), "0.3": refuses("no"), "0.4": clean}
    )
    return wb.matrix([small(), small(1, index=1)], fake.names, engine=fake)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    warps = wb.matrix([routed_warp()] * 3, "vllm==0.31.0..0.33.0", repeats=2)
    assert warps.cells[0][0].clean_at_most is not None
    for found in (measured(), wb.matrix(crowded(rows=33), "vllm==0.23.0..0.33.0", repeats=2), warps):
        file = tmp_path / f"{len(found.rows)}.json"
        wb.write_matrix(file, found)
        back = wb.read_matrix(file)
        assert (back.rows, back.releases, back.calls, back.notes) == (
            found.rows,
            found.releases,
            found.calls,
            found.notes,
        )
        assert back.about == found.about
        for one, other in zip(back.cells, found.cells, strict=True):
            assert [replace(cell, fault="") for cell in one] == [replace(cell, fault="") for cell in other]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.json", "2.json", "3.json"]


def test_control_characters_are_spelled_out(tmp_path: Path) -> None:
    wb.write_matrix(tmp_path / "m.json", measured())
    assert wb.read_matrix(tmp_path / "m.json").cells[0][1].fault == "illegal\naccess \\x1b[0m"


def test_a_file_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    wb.write_matrix(file, measured())
    with pytest.raises(UsageError, match="the file is there already"):
        wb.write_matrix(file, measured())
    wb.write_matrix(file, measured(), overwrite=True)
    with pytest.raises(UsageError, match="its folder does not exist"):
        wb.write_matrix(tmp_path / "no" / "m.json", measured())


Change = Callable[[dict[str, Any]], None]


def put(where: str, value: object) -> Change:
    """Set a member by its place, as in ``cells.0.1.calls``."""

    def change(document: dict[str, Any]) -> None:
        *path, last = where.split(".")
        at: Any = document
        for step in path:
            at = at[int(step)] if isinstance(at, list) else at[step]
        if isinstance(at, list):
            at[int(last)] = value
        elif value is ...:
            del at[last]
        else:
            at[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("format", "workbench matrix 2"), "this is no matrix"),
        (put("rows", ...), "lacks 'rows'"),
        (put("more", 1), "has 'more', which no matrix of this format has"),
        (put("releases", "vllm==0.1"), "a list is needed"),
        (put("releases.1", "vllm==0.1"), "names one twice"),
        (put("releases.0", "../etc"), "which it cannot be"),
        (put("calls", 1.5), "an integer"),
        (put("calls", True), "an integer"),
        (put("rows.0.k", 0), "an integer of 1 or more"),
        (put("rows.0.dtype", "int8"), "one of float32"),
        (put("rows.0.digest", "sha256:1"), "which it cannot be"),
        (put("rows.0.capture", "a\x1b[2J"), "printable text"),
        (put("rows.0.capture", "a" * 10_001), "printable text"),
        (put("cells", []), "cells has 0 rows"),
        (put("cells.0", []), "has 0 cells for 4 releases"),
        (put("cells.0.0", 3), "an object is needed"),
        (put("cells.0.0.release", "vllm==0.2"), "has 'release', which no matrix of this format has"),
        (put("cells.0.0.engine", ...), "lacks 'engine'"),
        (put("cells.0.0.verdict", "fine"), "one of exact"),
        (put("cells.0.0.verdict", None), "must have a verdict"),
        (put("cells.0.0.verdict", "exact"), "calls that lost and the verdict exact"),
        (put("cells.0.0.calls", 0), "must have a verdict"),
        (put("cells.0.0.calls", ...), "must have a verdict"),
        (put("cells.0.0.lost_calls", 11), "11 calls that lost of 10"),
        (put("cells.0.0.missing_mean", 99.0), "values missing from"),
        (put("cells.0.0.missing_mean", -1), "a number of 0 or more"),
        (put("cells.0.0.missing_mean", 10**400), "a number of 0 or more"),
        (put("cells.0.0.p_clean", 1.5), "the probability 1.5"),
        (put("cells.0.0.clean_at_most", 1.25), "the probability 1.25"),
        (put("cells.0.0.risk", []), "one of safe"),
        (put("cells.0.0.order_correlation", 1.5), "the correlation 1.5"),
        (put("cells.0.3.missing_most", 2), "2 values missing and the verdict exact"),
        (put("cells.0.0.notes", "a"), "a list is needed"),
        (put("cells.0.0.op", 3), "printable text"),
        (put("about", []), "an object is needed"),
        (put("about", {"gpu": 1}), "printable text"),
    ],
)
def test_what_no_matrix_holds_is_refused_with_its_place(change: Change, said: str, tmp_path: Path) -> None:
    wb.write_matrix(tmp_path / "m.json", measured())
    document = json.loads((tmp_path / "m.json").read_text())
    change(document)
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(CaptureError, match=said) as caught:
        wb.read_matrix(tmp_path / "bad.json")
    assert str(caught.value).startswith(f"{tmp_path / 'bad.json'}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"format": NaN}',
        b'{"format": "workbench matrix 1", "format": 1}',
        b"[" * 100_000,
        b'{"format": "workbench matrix 1", "calls": 1e999}',
    ],
)
def test_what_is_no_such_document_is_refused(content: bytes) -> None:
    with pytest.raises(CaptureError):
        parse_matrix(content, "m.json")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", "a\0b"):
        with pytest.raises(CaptureError, match="cannot be read"):
            wb.read_matrix(path)
    os.mkfifo(tmp_path / "pipe.json")  # nobody writes to it: who opens it waits for ever
    for path in (tmp_path, tmp_path / "pipe.json"):
        with pytest.raises(CaptureError, match="no regular file"):
            wb.read_matrix(path)


def test_the_largest_matrix_that_is_written_is_read_back(tmp_path: Path) -> None:
    one = measured()
    names = ("vllm==0.1", "vendor", "vllm.persistent_topk", "vllm.filtered", "stock")
    told = (10, "lossy", 3, 1, 2, 1.5, "values vary", "at risk", 0.25, 1.25, 0.5, 0.75)
    note = "laid alone, in 33 equal copies of which the first is judged: width 1, stride 1, max_seq_len 1 and next_n 1"
    full = wb.Cell(*names, *told, "refused", "fault", "unknown", (note,))  # type: ignore[arg-type]
    assert all(getattr(full, name) != value for name, value in vars(wb.Cell("", "")).items())
    cells = matrix_saved.MOST_CELLS
    matrix = wb.Matrix(one.rows[:1] * cells, one.releases[:1], ((full,),) * cells, 10)
    wb.write_matrix(tmp_path / "m.json", matrix)  # which reads it back
    more = replace(matrix, rows=one.rows[:1] * (cells + 1), cells=((full,),) * (cells + 1))
    with pytest.raises(UsageError, match="a matrix of 30001 cells is more than the 30000 that a file holds"):
        wb.write_matrix(tmp_path / "more.json", more)
    assert not (tmp_path / "more.json").exists()
