"""Matrices as files: one JSON document, strictly read, since it may come from another machine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from workbench.analysis.repeatability import KINDS
from workbench.analysis.risk import Level
from workbench.analysis.verdict import LOST
from workbench.arguments import checked
from workbench.capture.values import path_text, shown
from workbench.errors import UsageError
from workbench.runs.matrix import VERDICTS, Cell, Matrix, MatrixRow
from workbench.runs.members import Members, content_of, kept_text
from workbench.targets import put_in_place
from workbench.words import because

FORMAT = "workbench matrix 1"
SUFFIX = ".json"
MOST_CELLS = 30_000  # so many are read back, each with all that a cell can hold
CURE = "allow it to be replaced"
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def check_size(cells: int, file: str) -> None:
    """Refuse to write a matrix that would not be read back.

    Raises:
        UsageError: it has too many cells.
    """
    if cells > MOST_CELLS:
        raise UsageError(
            f"{file}: a matrix of {cells} cells is more than the {MOST_CELLS} that a file holds; choose rows or "
            "releases, or write lines (.csv, .parquet)"
        )


def to_document(matrix: Matrix) -> dict[str, object]:
    """A matrix as one JSON document, without NaN and without text that is no UTF-8.

    A cell stands where its release does, and leaves out what is not known of it.
    """
    return {
        "format": FORMAT,
        "calls": matrix.calls,
        "releases": list(matrix.releases),
        "rows": [_plain(vars(row)) for row in matrix.rows],
        "cells": [[_plain(_said(cell)) for cell in cells] for cells in matrix.cells],
        "about": _plain(matrix.about),
        "notes": [kept_text(note) for note in matrix.notes],
    }


@checked
def write_matrix(
    path: str | os.PathLike[str], matrix: Matrix, *, overwrite: bool = False, cure: str = f"{CURE} (overwrite=True)"
) -> None:
    """Write a matrix as JSON: beside its place, read back, then put in it whole.

    Raises:
        UsageError: the path cannot be written, or a file is there and must not be replaced.
    """
    target = Path(path_text(path))
    check_size(len(matrix.rows) * len(matrix.releases), shown(path))
    text = json.dumps(to_document(matrix), indent=1, allow_nan=False) + "\n"
    try:
        with put_in_place(target, shown(path), overwrite=overwrite, cure=cure) as temporary:
            temporary.write_text(text, encoding="utf-8")
            parse_matrix(temporary.read_bytes(), shown(path))
    except OSError as error:
        raise UsageError(f"{shown(path)}: cannot be written: {because(error)}") from None


@checked
def read_matrix(path: str | os.PathLike[str]) -> Matrix:
    """Read a matrix that ``write_matrix`` or ``workbench run --output`` wrote.

    Raises:
        CaptureError: it cannot be read, or is no such file; the message names the place.
    """
    file = shown(path)
    return parse_matrix(content_of(Path(path_text(path)), file), file)


def parse_matrix(content: bytes, file: str) -> Matrix:
    """A matrix from the bytes of its file.

    Raises:
        CaptureError: as for ``read_matrix``.
    """
    reader = Members(file, "matrix")
    document = reader.document(content, FORMAT)
    names = ("format", "calls", "releases", "rows", "cells", "about", "notes")
    reader.names(document, names, "the matrix")
    releases = tuple(
        reader.text(one, f"releases[{at}]", _RELEASE)
        for at, one in enumerate(reader.items(document["releases"], "releases"))
    )
    if len(set(releases)) < len(releases):
        raise reader.bad("releases names one twice")
    rows = tuple(_row(reader, one, f"rows[{at}]") for at, one in enumerate(reader.items(document["rows"], "rows")))
    lists = reader.items(document["cells"], "cells")
    if len(lists) != len(rows):
        raise reader.bad(f"cells has {len(lists)} rows, and rows {len(rows)}")
    cells = []
    for at, one in enumerate(lists):
        line = reader.items(one, f"cells[{at}]")
        if len(line) != len(releases):
            raise reader.bad(f"cells[{at}] has {len(line)} cells for {len(releases)} releases")
        cells.append(tuple(_cell(reader, cell, f"cells[{at}][{n}]", releases[n]) for n, cell in enumerate(line)))
    about = reader.members(document["about"], "about")
    return Matrix(
        rows,
        releases,
        tuple(cells),
        reader.whole(document["calls"], "calls"),
        {reader.text(name, "about"): reader.text(value, f"about.{name}") for name, value in about.items()},
        reader.texts(document["notes"], "notes"),
    )


def _row(reader: Members, given: object, where: str) -> MatrixRow:
    said = reader.members(given, where)
    reader.names(said, [one.name for one in fields(MatrixRow)], where)
    return MatrixRow(
        reader.text(said["capture"], f"{where}.capture"),
        reader.whole(said["row"], f"{where}.row"),
        reader.whole(said["k"], f"{where}.k", least=1),
        reader.whole(said["length"], f"{where}.length", least=-(2**31)),
        reader.one_of(said["dtype"], f"{where}.dtype", ("float32", "bfloat16", "float16")),
        reader.text(said["digest"], f"{where}.digest", _DIGEST),
    )


def _cell(reader: Members, given: object, where: str, release: str) -> Cell:
    said = reader.members(given, where)
    reader.names(said, ["engine"], where, more=[one.name for one in fields(Cell) if one.name != "release"])
    read: dict[str, Callable[[object, str], object]] = {
        "engine": reader.text,
        "calls": reader.whole,
        "lost_calls": reader.whole,
        "refused": reader.text,
        "fault": reader.text,
        "unknown": reader.text,
        "notes": reader.texts,
        "op": _maybe(reader.text),
        "path": _maybe(reader.text),
        "variant": _maybe(reader.text),
        "verdict": _maybe(lambda value, at: reader.one_of(value, at, VERDICTS)),
        "missing_least": _maybe(reader.whole),
        "missing_most": _maybe(reader.whole),
        "missing_mean": _maybe(reader.number),
        "repeatability": _maybe(lambda value, at: reader.one_of(value, at, KINDS)),
        "risk": _maybe(lambda value, at: reader.one_of(value, at, get_args(Level))),
        "p_clean": _maybe(reader.number),
        "expected_missing": _maybe(reader.number),
        "order_correlation": _maybe(lambda value, at: reader.number(value, at, least=-1)),
        "clean_at_most": _maybe(reader.number),
    }
    known = {name: take(said[name], f"{where}.{name}") for name, take in read.items() if name in said}
    cell = Cell(release, **known)  # type: ignore[arg-type]
    problem = _contradiction(cell)
    if problem:
        raise reader.bad(f"{where} {problem}")
    return cell


def _said(cell: Cell) -> dict[str, Any]:
    """What a cell holds beside its defaults, and its release, which its place tells."""
    held = {one.name: getattr(cell, one.name) for one in fields(Cell) if getattr(cell, one.name) != one.default}
    del held["release"]
    return held


def _contradiction(cell: Cell) -> str:
    """What in a cell cannot be together, in words; empty if nothing."""
    numbers = (cell.missing_least, cell.missing_most, cell.missing_mean)
    if (cell.verdict is None) != (cell.calls == 0) or any((one is None) != (cell.calls == 0) for one in numbers):
        return "must have a verdict and values missing where it has calls, and nowhere else"
    if cell.lost_calls > cell.calls:
        return f"has {cell.lost_calls} calls that lost of {cell.calls}"
    if (cell.lost_calls > 0) != (cell.verdict in LOST):
        return f"has {cell.lost_calls} calls that lost and the verdict {cell.verdict}"
    least, most, mean = numbers
    if least is not None and most is not None and mean is not None and not least <= mean <= most:
        return f"has values missing from {least} to {most}, and {mean} on average"
    if most and cell.verdict in ("exact", "ties"):
        return f"has {most} values missing and the verdict {cell.verdict}"
    if cell.order_correlation is not None and cell.order_correlation > 1:
        return f"has the correlation {cell.order_correlation}"
    for chance in (cell.p_clean, cell.clean_at_most):
        if chance is not None and chance > 1:
            return f"has the probability {chance}"
    return ""


def _maybe(take: Callable[[object, str], object]) -> Callable[[object, str], object]:
    return lambda value, where: None if value is None else take(value, where)


def _plain(given: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in given.items():
        if isinstance(value, tuple):
            found[name] = [kept_text(one) for one in value]
        else:
            found[name] = kept_text(value) if isinstance(value, str) else value
    return found
