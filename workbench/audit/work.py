"""What a worker does with a unit: it reads each row once and says of it all that the records hold."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from workbench.analysis.risk import Risk
from workbench.audit.asked import Asked
from workbench.audit.facts import facts
from workbench.audit.lines import Lines
from workbench.audit.plan import Job
from workbench.capture import Capture, Row, open_capture
from workbench.capture.row import digest_of, raw_bytes
from workbench.capture.values import shown
from workbench.engines.cuda.census import count_rows
from workbench.engines.cuda.screen import lacks
from workbench.errors import CaptureError, WorkbenchError
from workbench.numeric.histogram import RowCounts
from workbench.paths.catalog import PATHS, find_paths
from workbench.paths.transforms.recorded import recorded_positions
from workbench.runs.case import Case
from workbench.runs.inspect import census_of
from workbench.runs.run import run_case

CENSUS, RECORDED = "census", "recorded"
CHANGED = "the file was changed since the audit was planned; audit it anew, into another folder"
TOGETHER = 128 * 2**20  # bytes of scores that are moved to another device at once
OPEN = 4  # captures that a worker keeps open
_STRINGS = ("op", "release", "device")
_OF_CALL = ("model", "request", "layer", "step", "rank")
_NOWHERE = dict.fromkeys((path.name for path in PATHS), False)
_OF_RISK = ("threshold_bin", "above", "population", "need", "capacity", "p_clean", "expected_missing")


@dataclass(frozen=True)
class Done:
    """What became of a unit.

    Attributes:
        number: of the unit. payload: its lines, as ``Lines.dumped`` made them. rows, bytes: of the unit.
        failed: of how many rows there is an error.
    """

    number: int
    payload: bytes
    rows: int
    bytes: int
    failed: int


@dataclass(frozen=True)
class AuditTask:
    """What every worker of an audit does.

    Attributes:
        device: where rows are judged, as torch names it; the lines are the same on any.
        changed: what is said of rows whose file is another than the planned one.
    """

    asked: Asked
    device: str = "cpu"
    changed: str = CHANGED

    def open(self, worker: int) -> Callable[[Job], Done]:
        """A worker, which keeps a few captures open."""
        return Worker(self.asked, self.device, self.changed)


class Worker:
    """Works off units, one after the other.

    Args:
        asked, device, changed: as of ``AuditTask``.
    """

    def __init__(self, asked: Asked, device: str = "cpu", changed: str = CHANGED) -> None:
        self._asked, self._paths, self._changed = asked, find_paths(asked.paths), changed
        self._device = torch.device(device)
        self._together = 1 if self._device.type == "cpu" else TOGETHER
        self._open: OrderedDict[tuple[str, str], Capture] = OrderedDict()
        self._counts: dict[int | None, RowCounts] = {}

    def __call__(self, job: Job) -> Done:
        """All lines of a unit; whatever goes wrong with a row is a line."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # on single rows threads spend more time meeting than working
        try:
            lines = self._lines(job)
        finally:
            torch.set_num_threads(threads)
        return Done(job.number, lines.dumped(), job.unit.count, job.unit.bytes, lines.failed)

    def _lines(self, job: Job) -> Lines:
        unit, lines, file = job.unit, Lines(), shown(job.unit.file)
        for together in self._batches(job):
            for number, row in together:
                if isinstance(row, Row):
                    try:
                        lines.add(*self._judged(row, file))
                        continue
                    except Exception as error:
                        row = error
                lines.fail(file, number, in_words(row))
        read = self._open.get((unit.file, job.stamp))
        if read is None or read.is_unchanged():
            return lines
        # Its bytes may be of two files: none of the unit's lines is kept.
        lines = Lines()
        for number in range(unit.first, unit.first + unit.count):
            lines.fail(file, number, self._changed)
        return lines

    def _batches(self, job: Job) -> Iterator[list[tuple[int, Row | Exception]]]:
        """The rows of a unit, or why one cannot be read: on the CPU one by one, else as many as go there together."""
        held: list[tuple[int, Row | Exception]] = []
        size = 0
        for number in range(job.unit.first, job.unit.first + job.unit.count):
            row = self._read(job, number)
            held.append((number, row))
            size += row.scores.nbytes if isinstance(row, Row) else 0
            if size >= self._together or self._together == 1:
                yield self._moved(held)
                held, size = [], 0
        if held:
            yield self._moved(held)

    def _read(self, job: Job, number: int) -> Row | Exception:
        try:
            return self._capture(job).read(number, padding=False)
        except Exception as error:
            return error

    def _moved(self, held: list[tuple[int, Row | Exception]]) -> list[tuple[int, Row | Exception]]:
        """Rows on the device, those of one width and dtype in one go."""
        if self._together == 1:
            return held
        alike: dict[tuple[int, torch.dtype, int | None], list[Row]] = defaultdict(list)
        for _, row in held:
            if isinstance(row, Row):
                alike[row.scores.numel(), row.scores.dtype, row.k].append(row)
        there = {}
        self._counts = {}
        for kind, rows in alike.items():
            stacked = torch.stack([row.scores for row in rows]).to(self._device)
            there[kind] = iter(stacked)
            self._counts |= _counted(stacked, rows)
        return [
            (number, replace(row, scores=next(there[row.scores.numel(), row.scores.dtype, row.k])))
            if isinstance(row, Row)
            else (number, row)
            for number, row in held
        ]

    def _capture(self, job: Job) -> Capture:
        """The open capture of a unit.

        Raises:
            CaptureError: it cannot be opened, or is another than the planned one.
        """
        key = (job.unit.file, job.stamp)
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        capture = open_capture(self._asked.path_of(job.unit.file), **self._asked.opening)
        if capture.stamp != job.stamp:
            capture.close()
            raise CaptureError(self._changed)
        self._open[key] = capture
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()
        return capture

    def _judged(self, row: Row, file: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """A row's own columns, and those of its lines."""
        case = Case(row, counts=self._counts.get(row.index))
        reached = _reached(case)
        found = [_census_line(risk, reached.get(risk.path)) for risk in census_of(case, self._paths)]
        if row.indices is not None:
            found.append(_recorded_line(row, case))
        return {"file": file, **_about(row, case)}, found


def _counted(scores: torch.Tensor, rows: list[Row]) -> dict[int | None, RowCounts]:
    """What one pass over rows of one k counts, by their numbers; without kernels for it each is counted by itself.

    Args:
        scores: [rows, width], those of the rows on the device.
    """
    k = rows[0].k
    if not _has_kernels(scores) or k is None or k < 1:
        return {}
    windows = torch.tensor([(row.length, row.start) for row in rows], dtype=torch.int32).T.contiguous()
    lengths, starts = windows.to(scores.device)
    counts = count_rows(scores, lengths, k, starts=starts).rows()
    return {row.index: one for row, one in zip(rows, counts, strict=True) if one.length == row.valid.numel()}


def _has_kernels(scores: torch.Tensor) -> bool:
    return scores.is_cuda and scores.dtype == torch.float32 and not lacks(scores.device.index)


def in_words(error: Exception) -> str:
    """An error as a line has it; its file and row stand in columns of their own."""
    return _said(error).encode("utf-8", "backslashreplace").decode("utf-8")


def _said(error: Exception) -> str:
    if isinstance(error, CaptureError):
        return error.within
    if isinstance(error, WorkbenchError):
        return str(error)
    if isinstance(error, MemoryError):
        return "not enough memory"
    return f"internal error: {type(error).__name__}: {' '.join(str(error).split())}"


def _about(row: Row, case: Case) -> dict[str, Any]:
    call, counted = row.call, facts(case.profile)
    return {
        "row": row.index,
        "call": call.index,
        **{name: getattr(case, name) for name in _STRINGS},
        **{name: getattr(call, name) for name in _OF_CALL},
        "k": case.k,
        "length": row.length,
        "width": max(row.scores.numel(), call.width or 0),
        "dtype": row.dtype,
        "scores": digest_of(row.valid, row.start, row.length),
        **vars(counted),
    }


def _reached(case: Case) -> dict[str, bool]:
    """Whether the op sends the row to a path, by the path's name, where that is known."""
    if case.route is not None and (case.route.path is not None or case.route.refused):
        return {**_NOWHERE, case.route.path: True} if case.route.path is not None else _NOWHERE
    if case.reaches is None:
        return {}
    return {name: False for name in _NOWHERE if name not in case.reaches}


def _census_line(risk: Risk, reached: bool | None) -> dict[str, Any]:
    return {
        "engine": CENSUS,
        "path": risk.path,
        "variant": risk.variant,
        "reached": reached,
        "refused": "; ".join(risk.refused) or None,
        "risk": risk.level,
        **{name: getattr(risk, name) for name in _OF_RISK},
        "finding": risk.finding or None,
    }


def _recorded_line(row: Row, case: Case) -> dict[str, Any]:
    line = run_case(case, engine=RECORDED)[0].line
    return {
        "engine": RECORDED,
        "path": line.path,
        "variant": line.variant,
        "reached": line.reached,
        "refused": line.refused,
        "verdict": line.verdict,
        "missing": line.missing,
        "selection": None if line.refused is not None else selection_digest(recorded_positions(row)),
    }


def selection_digest(positions: torch.Tensor) -> str:
    """``sha256:<hex>`` that names a selection as a set: over its positions, ascending, as little-endian int32.

    Args:
        positions: int32 [k]; padding counts, and so does a position that stands twice.
    """
    return f"sha256:{hashlib.sha256(raw_bytes(positions.sort().values)).hexdigest()}"
