"""Many captures judged while somebody looks: what an audit works out, summed up as it comes, and written nowhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from workbench.audit.asked import Asked, located
from workbench.audit.dataset import EVERY, TEXTS, FileLine, Lines, row_starts
from workbench.audit.executors.base import Executor, Lost
from workbench.audit.executors.front import make_executor, usable_cores
from workbench.audit.kept import Kept
from workbench.audit.lines import joined
from workbench.audit.plan import NOTHING_THERE, AuditPlan, Job, Planned, appeared, make_plan
from workbench.audit.running import SERIAL, checked, given_up
from workbench.audit.store import DONE, FAILED, PARTLY
from workbench.audit.summary import Files, Summary, summary_of
from workbench.audit.summing import Summing
from workbench.audit.unfinished import Unfinished
from workbench.audit.versions import versions
from workbench.audit.work import AuditTask
from workbench.capture.values import shown
from workbench.errors import UsageError, WorkbenchError
from workbench.words import because

State = Literal["new", "looking", "waiting", "working", "stopped", "done", "failed"]
CHANGED = "the file was changed while it was scanned; look again"
OPEN = "open"  # the state of a file whose rows are not all judged yet
UNIT = 1 << 20  # bytes of scores: a stop waits for no more
ALONE = 256 << 20  # bytes of scores that this process judges by itself; for more there are others
WORST, GROUPS = 200, 1000  # rows that are listed, and groups of a column
_TOGETHER = 64  # units that are summed up at once


@dataclass(frozen=True)
class ScanProgress:
    """How far a scan is.

    Attributes:
        files: of the plan, or looked at so far. units, rows, bytes: how many are done, and of all. known: units that
            were known from an earlier scan.
    """

    files: int = 0
    units: tuple[int, int] = (0, 0)
    rows: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)
    known: int = 0

    @property
    def share(self) -> float:
        """From 0 to 1, by bytes where rows have any."""
        done, of = self.bytes if self.bytes[1] else self.units
        return done / of if of else 0.0


class Scan:
    """What lies below some files and folders, judged a unit at a time as ``audit`` does; nothing is read that links
    lead to outside of them.

    ``run`` works until it is done or stopped, and may be called again: it looks at the folders anew, and works out what
    it does not know yet. Everything else may be called from other threads meanwhile.

    Args:
        what: files and folders. name: of the scan, for its summary. asked: fields of ``Asked``, as op or release.
        at_once: bytes of scores that are judged without being asked for.

    Attributes:
        state: ``new``, ``looking`` at the files, ``waiting`` to be allowed to judge so much, ``working``, ``stopped``,
            ``done``, or ``failed`` with ``error``. looked: files looked at while it is ``looking``.
        plan: of the files. progress: how far they are judged. why: why nothing is kept for another time; else empty.

    Raises:
        UsageError: something is not there, or unknown.
    """

    def __init__(
        self,
        what: Sequence[str | Path],
        name: str,
        asked: Mapping[str, Any] | None = None,
        *,
        at_once: int = 1 << 62,
    ) -> None:
        folder, inputs = located([str(one) for one in what])
        self.asked = checked(Asked(folder, inputs, **(asked or {}), unit_bytes=UNIT))
        self.name, self.error, self.why, self.looked = name, "", "", 0
        self.state: State = "new"
        self._at_once = at_once
        self._kept = Kept(self.asked)
        self._planned: Planned = {}
        self._stop = threading.Event()
        self._running, self._lock = threading.Lock(), threading.Lock()
        self._begin(AuditPlan(()))

    def _begin(self, plan: AuditPlan) -> None:
        with self._lock:
            self.plan = plan
            self.progress = ScanProgress(len(plan.files), (0, plan.units), (0, plan.rows), (0, plan.bytes))
            self._summing = Summing(WORST, served=self.asked.paths == EVERY)
            self._pending: list[bytes] = []
            self._batches = 0
            self._told: dict[tuple[int, int], dict[str, Any]] = {}
            self._first_errors: dict[str, str] = {}
            self._made: tuple[object, Summary] | None = None
            self._seen = {file.file: _look(self.asked.path_of(file.file)) for file in plan.files}

    def stop(self) -> None:
        """Have ``run`` end after the unit that it is at."""
        self._stop.set()

    def run(self, *, allowed: bool = False, executor: Executor | None = None) -> None:
        """Look at the folders, and judge what is not known yet, until it is done or stopped.

        What goes wrong is told by ``state`` and ``error``. A second run waits until the first has ended.

        Args:
            allowed: whether more than ``at_once`` is judged. executor: by default one that fits what is to be done.
        """
        with self._running:
            self._stop.clear()
            self.state, self.error = "looking", ""
            try:
                with self._kept as kept:
                    self._run(kept, allowed, executor)
                    self.why = kept.why
            except _StopError:
                self.state = "stopped"
            except WorkbenchError as error:
                self.state, self.error = "failed", str(error)
            except OSError as error:
                self.state, self.error = "failed", because(error)
            except BaseException as error:
                self.state, self.error = "failed", f"internal error: {type(error).__name__}: {error}"
                raise

    def _run(self, kept: Kept, allowed: bool, executor: Executor | None) -> None:
        self._begin(self._look())
        self.state = "working"
        todo = []
        for job in self.plan.jobs():
            self._check()
            payload = kept.get(job)
            if payload is None:
                todo.append(job)
            else:
                self._take(job, payload, known=True)
        if not allowed and sum(job.unit.bytes for job in todo) > self._at_once:
            self.state = "waiting"
            return
        if todo:
            with executor or _fitting(todo) as how:
                self._work(kept, how, todo)
        kept.keep_only(self.plan.jobs())
        self.state = "done"

    def _look(self) -> AuditPlan:
        def seen(files: int) -> None:
            self._check()
            self.looked = files

        try:
            return make_plan(self.asked, seen, leave=False, known=self._planned)
        except UsageError as error:
            if not error.args or not str(error).endswith(NOTHING_THERE):
                raise
            return AuditPlan(())

    def _work(self, kept: Kept, how: Executor, todo: Sequence[Job]) -> None:
        for outcome in how.run(AuditTask(self.asked, changed=CHANGED), iter(todo)):
            if isinstance(outcome, Lost):
                self._take(outcome.unit, given_up(outcome.unit, outcome.reason).payload)
            else:
                job, found = outcome
                if not found.failed:  # what failed is tried again
                    kept.put(job, found.payload)
                self._take(job, found.payload)
            self._check()

    def _check(self) -> None:
        if self._stop.is_set():
            raise _StopError

    def _take(self, job: Job, payload: bytes, known: bool = False) -> None:
        at = self.progress
        with self._lock:
            self._pending.append(payload)
            self.progress = ScanProgress(
                at.files,
                (at.units[0] + 1, at.units[1]),
                (at.rows[0] + job.unit.count, at.rows[1]),
                (at.bytes[0] + job.unit.bytes, at.bytes[1]),
                at.known + known,
            )
            if len(self._pending) >= _TOGETHER:
                self._sum_up()

    def _sum_up(self) -> None:
        """Count the lines that came since the last time; of these, only the worst are kept."""
        if not self._pending:
            return
        table = pa.concat_tables([joined(payload) for payload in self._pending])
        self._pending = []
        columns = [column.dictionary_encode() if name in TEXTS else column for name, column in _columns(table)]
        lines = Lines(pa.table(columns, names=table.column_names).unify_dictionaries(), self._batches, 0, _NOWHERE)
        lines.starts = row_starts(lines.table)
        self._batches += 1
        self._summing.add(lines)
        wanted = {*self._summing.worst.places(), *self._summing.errors.places()}
        self._told = {place: line for place, line in self._told.items() if place in wanted}
        for batch, at in wanted:
            if batch == lines.record:
                self._told[batch, at] = table.slice(at, 1).to_pylist()[0]
        failed = table.filter(table.column("error").is_valid())
        for file, error in zip(failed.column("file").to_pylist(), failed.column("error").to_pylist(), strict=True):
            self._first_errors.setdefault(file, error)

    def summary(self) -> Summary:
        """What was found so far. Everything is as ``summarize`` has it of an audit of the same files."""
        with self._lock:
            self._sum_up()
            key = (self.state, self.progress)
            if self._made is None or self._made[0] != key:
                self._made = key, self._summary()
            return self._made[1]

    def _summary(self) -> Summary:
        done, of = self.progress.units
        open_ = None if self.state == "done" else Unfinished(self.progress.files, of, of - done)
        return summary_of(
            self._summing,
            lambda places: [self._told[place] for place in places],
            GROUPS,
            name=self.name,
            folder=shown(self.asked.folder),
            about={"asked": self.asked.document(), "versions": versions()},
            unfinished=open_,
            files=self._files(),
            kind="scan",
        )

    def _files(self) -> Files:
        tallies = self._summing.by["file"].tallies()
        states: dict[str, int] = {}
        faulty: list[FileLine] = []
        of = size = 0
        for file in self.plan.files:
            name = shown(file.file)
            rows, errors = tallies[name].rows if name in tallies else 0, tallies[name].errors if name in tallies else 0
            error = file.error or self._first_errors.get(name)
            state = OPEN if rows < file.rows else FAILED if file.error or (rows and errors == rows) else PARTLY
            state = DONE if error is None and state == PARTLY else state
            states[state], size = states.get(state, 0) + 1, size + (file.size or 0)
            if error is not None:
                of += 1
                faulty += [FileLine(name, file.size, None, rows, state, error)] if len(faulty) < GROUPS else []
        return Files(len(self.plan.files), size, dict(sorted(states.items())), tuple(faulty), of)

    def news(self) -> tuple[int, int, int]:
        """How many files appeared since the folders were looked at, vanished, and were changed."""
        now = {name: _look(self.asked.path_of(name)) for name in self._seen}
        gone = sum(now[name] is None and seen is not None for name, seen in self._seen.items())
        changed = sum(now[name] not in (None, seen) for name, seen in self._seen.items())
        return len(appeared({*map(shown, self._seen)}, self.asked, leave=False)), gone, changed


class _StopError(Exception):
    """Somebody asked the scan to stop."""


_NOWHERE = np.empty(0, dtype=np.int64)


def _columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def _look(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _fitting(todo: Sequence[Job]) -> Executor:
    """This process for a little, and processes, one a core, for what takes a while."""
    size, cores = sum(job.unit.bytes for job in todo), usable_cores()
    return make_executor(SERIAL) if size <= ALONE or cores < 2 else make_executor("processes", cores)
