"""What a worker does with a unit: it reads each row once and says of it all that the records hold."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
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
from workbench.errors import CaptureError, WorkbenchError
from workbench.paths.catalog import PATHS, find_paths
from workbench.paths.transforms.recorded import recorded_positions
from workbench.runs.case import Case
from workbench.runs.inspect import census_of
from workbench.runs.run import run_case

CENSUS, RECORDED = "census", "recorded"
CHANGED = "the file was changed since the audit was planned; audit it anew, into another folder"
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
    """What every worker of an audit does."""

    asked: Asked

    def open(self, worker: int) -> Callable[[Job], Done]:
        """A worker, which keeps a few captures open."""
        return Worker(self.asked)


class Worker:
    """Works off units, one after the other.

    Args:
        asked: of the audit.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked, self._paths = asked, find_paths(asked.paths)
        self._open: OrderedDict[tuple[str, str], Capture] = OrderedDict()

    def __call__(self, job: Job) -> Done:
        """All lines of a unit; whatever goes wrong with a row is a line."""
        unit, lines = job.unit, Lines()
        file = shown(unit.file)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # on single rows threads spend more time meeting than working
        try:
            for row in range(unit.first, unit.first + unit.count):
                try:
                    self._row(self._capture(job), row, file, lines)
                except Exception as error:
                    lines.fail(file, row, in_words(error))
        finally:
            torch.set_num_threads(threads)
        return Done(job.number, lines.dumped(), unit.count, unit.bytes, lines.failed)

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
            raise CaptureError(CHANGED)
        self._open[key] = capture
        if len(self._open) > OPEN:
            self._open.popitem(last=False)[1].close()
        return capture

    def _row(self, capture: Capture, number: int, file: str, lines: Lines) -> None:
        row = capture.read(number, padding=False)
        case = Case(row)
        about = {"file": file, **_about(row, case)}
        reached = _reached(case)
        found = [_census_line(risk, reached.get(risk.path)) for risk in census_of(case, self._paths)]
        if row.indices is not None:
            found.append(_recorded_line(row, case))
        lines.add(about, found)


def in_words(error: Exception) -> str:
    """An error as a line has it; its file and row stand in columns of their own."""
    if isinstance(error, CaptureError):
        return error.reason if error.tensor is None else f"tensor {error.tensor!r}: {error.reason}"
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
