"""An audit's folder: its records, what they were asked from, and what makes it go on after it was stopped anywhere.

::

    OUT/audit.json               what was asked, and once it is finished what was found
    OUT/records/part-000000.parquet …
    OUT/manifest.jsonl           a line a file, once it is finished
    OUT/unfinished/plan.jsonl    files and units; the folder goes when the audit is finished
    OUT/unfinished/part-000003.frames
    OUT/.lock                    held while an audit writes

Nothing of it depends on who worked off a unit, or when: parts follow from the plan, and lines from the rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import filelock
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.audit.about import AUDIT, ELSEWHERE, FORMAT, read_audit
from workbench.audit.asked import Asked
from workbench.audit.counting import NEEDED, Tally, count
from workbench.audit.journal import Journal
from workbench.audit.lines import check_piece, joined
from workbench.audit.plan import AuditPlan, Job, dumped, loaded
from workbench.audit.regular import irregular
from workbench.audit.schema import arrow_schema, is_of_disk, named_file
from workbench.audit.versions import versions
from workbench.audit.work import Done
from workbench.capture.values import path_text, shown
from workbench.errors import UsageError
from workbench.words import because, few

RECORDS, MANIFEST, UNFINISHED, PLAN, LOCK = (
    "records",
    "manifest.jsonl",
    "unfinished",
    "plan.jsonl",
    ".lock",
)
DONE, PARTLY, FAILED = "done", "partly", "failed"
_TEMPORARY = ".workbench-"


class Store:
    """The folder of one audit, locked while it is open; a context manager.

    Args:
        out: the folder; made if it is not there. asked: of the audit.

    Attributes:
        finished: whether nothing is left to do. resumed: whether it was begun before.
        plan: of the audit, once it is known.

    Raises:
        UsageError: another audit is at work there, was begun with other parameters, or the folder holds other things.
    """

    def __init__(self, out: str | bytes | os.PathLike[str], asked: Asked) -> None:
        self.name, self.folder = shown(out), Path(path_text(out))
        self._asked = asked
        self._versions = versions()
        self._make()
        self._lock = filelock.FileLock(self.folder / LOCK, blocking=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise UsageError(f"{self.name}: another audit is writing there; wait for it, or {ELSEWHERE}") from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._begin()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _make(self) -> None:
        try:
            if not path_text(self.name):
                raise UsageError("the output is named by an empty string; name a folder")
            self._made = not self.folder.exists()
            self.folder.mkdir(exist_ok=True)
            names = set(os.listdir(self.folder))  # noqa: PTH208  names, not paths
        except FileExistsError:
            raise UsageError(f"{self.name}: this is no folder; {ELSEWHERE}") from None
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from None
        self._locked = LOCK in names  # there before
        others = sorted(name for name in names if name != LOCK and not name.startswith(_TEMPORARY))
        if AUDIT not in names and others:
            raise UsageError(f"{self.name}: the folder holds {few(map(shown, others))}, and no audit; {ELSEWHERE}")
        if (other := irregular(self.folder)) is not None:
            raise UsageError(f"{shown(other)}: it is no regular file; {ELSEWHERE}")

    def _unwritable(self, error: Exception) -> UsageError:
        return UsageError(f"{self.name}: cannot be written: {because(error)}")

    def _begin(self) -> None:
        """Take up what is there, or begin."""
        self._sweep(self.folder)
        path = self.folder / AUDIT
        self.resumed = path.exists()
        self.plan: AuditPlan | None = None
        if self.resumed:
            content = read_audit(self.folder)
            self._check_same(content)
            self.finished = bool(content["finished"])
        else:
            self.finished = False
            self._write_audit(finished=False)
        self._work, self._records = self.folder / UNFINISHED, self.folder / RECORDS
        if self.finished:
            shutil.rmtree(self._work, ignore_errors=True)
            return
        for folder in (self._work, self._records):
            folder.mkdir(exist_ok=True)
            self._sweep(folder)
        with contextlib.suppress(FileNotFoundError):
            self._take_up(self._loaded())

    def _sweep(self, folder: Path) -> None:
        """Remove files that were being written when an audit was killed."""
        for name in os.listdir(folder):  # noqa: PTH208
            if name.startswith(_TEMPORARY):
                (folder / name).unlink()

    def _check_same(self, content: Mapping[str, Any]) -> None:
        versions = content["versions"]
        if versions != self._versions:
            theirs, ours = (
                ", ".join(f"{name} {version}" for name, version in each.items()) for each in (versions, self._versions)
            )
            raise UsageError(f"{self.name}: the audit there was begun with {theirs}; this is {ours}: {ELSEWHERE}")
        if differences := self._asked.differences(content["asked"]):
            raise UsageError(f"{self.name}: the audit there is another: {'; '.join(differences)}; {ELSEWHERE}")

    def _loaded(self) -> AuditPlan:
        path = self._work / PLAN
        try:
            return loaded(path.read_text(encoding="ascii"))
        except ValueError:
            raise self._damaged(f"{UNFINISHED}/{PLAN} is damaged") from None

    def _damaged(self, what: str) -> UsageError:
        return UsageError(f"{self.name}: {what}; delete the folder, and audit anew")

    def set_plan(self, plan: AuditPlan) -> None:
        """Keep a plan, which holds from now on; what was done of another one, which was lost, is not of it."""
        for folder in (self._work, self._records):
            shutil.rmtree(folder)
            folder.mkdir()
        self._put(self._work / PLAN, dumped(plan).encode("ascii"))
        self._take_up(plan)

    def _take_up(self, plan: AuditPlan) -> None:
        """Find what is done of a plan."""
        self.plan = plan
        self._parts = plan.parts()
        self._part_of = {number: at for at, part in enumerate(self._parts) for number in part}
        self._journals: dict[int, Journal] = {}
        self._written: set[int] = set()
        for at in range(len(self._parts)):
            if self._is_whole(self._part(at)):
                self._written.add(at)
                self._frames(at).unlink(missing_ok=True)
            elif self._frames(at).exists():
                self._journals[at] = self._journal(at)
        for at in list(self._journals):
            self._write_if_done(at)

    def _journal(self, at: int) -> Journal:
        """The units of a part that are done; a file that holds anything else is removed, which is told."""
        assert self.plan is not None
        path = self._frames(at)
        journal = Journal(path)
        jobs = {job.number: job.unit for job in self.plan.jobs() if job.number in self._parts[at]}
        try:
            for number, payload in journal.payloads():
                unit = jobs.get(number)
                if unit is None:
                    raise ValueError("a unit of another part")
                check_piece(payload, shown(unit.file), range(unit.first, unit.first + unit.count))
        except ValueError:
            journal.remove()
            raise self._removed(path) from None
        return journal

    def _removed(self, path: Path) -> UsageError:
        return UsageError(f"{shown(path)}: damaged since it was written, and removed; the same command makes it anew")

    def discard(self) -> None:
        """Take back what was begun and came to nothing; the folder too, if it was made for it."""
        for folder in (self._work, self._records):
            shutil.rmtree(folder)
        (self.folder / AUDIT).unlink()
        if not self._locked:
            (self.folder / LOCK).unlink(missing_ok=True)
        if self._made:
            self.folder.rmdir()

    def _part(self, at: int) -> Path:
        return self._records / f"part-{at:06}.parquet"

    def _frames(self, at: int) -> Path:
        return self._work / f"part-{at:06}.frames"

    def _is_whole(self, part: Path) -> bool:
        """Whether a part was written; what is no part is removed, to be done again."""
        try:
            with named_file(part) as file:
                if pq.read_schema(file).equals(arrow_schema()):
                    return True
        except FileNotFoundError:
            return False
        except (OSError, pa.ArrowException) as error:
            self._check_content(part, error)
        part.unlink()
        return False

    def _check_content(self, part: Path, error: Exception) -> None:
        """Whether it is the content of a part that is at fault.

        Raises:
            UsageError: it is the disk, or what it permits; the part may be whole.
        """
        if is_of_disk(error):
            raise UsageError(f"{shown(part)}: cannot be read: {because(error)}") from None

    def is_done(self, number: int) -> bool:
        """Whether a unit is."""
        part = self._part_of[number]
        return part in self._written or (part in self._journals and number in self._journals[part].numbers)

    @property
    def begun(self) -> bool:
        """Whether any unit is done."""
        return self.plan is not None and bool(self._written or self._journals)

    def todo(self) -> Iterator[Job]:
        """The units that are not done, in the order of the plan."""
        assert self.plan is not None
        yield from (job for job in self.plan.jobs() if not self.is_done(job.number))

    def add(self, done: Done) -> None:
        """Keep what became of a unit, and write its part if it was the last of it.

        Raises:
            OSError: of the disk; all units that were kept before are still.
        """
        at = self._part_of[done.number]
        if at not in self._journals:
            self._journals[at] = Journal(self._frames(at))
        self._journals[at].add(done.number, done.payload)
        self._write_if_done(at)

    def _write_if_done(self, at: int) -> None:
        journal = self._journals[at]
        if len(journal.numbers) < len(self._parts[at]):
            return
        self._write_part(at, pa.concat_tables([joined(payload) for _, payload in journal.payloads()]))
        self._written.add(at)
        del self._journals[at]
        journal.remove()

    def _write_part(self, at: int, table: pa.Table) -> None:
        """Put a part in its place once it reads back as it was."""
        table = table.combine_chunks()
        with self._in_place(self._part(at)) as temporary:
            with named_file(temporary, "wb") as file:
                pq.write_table(table, file, compression="zstd", row_group_size=2**20)
            with named_file(temporary) as file:
                if not pq.read_table(file).equals(table):
                    raise OSError(f"{self._part(at).name} reads back different from what was written")

    @contextlib.contextmanager
    def _in_place(self, target: Path) -> Iterator[Path]:
        """A file beside the target that takes its place, and is on the disk by then."""
        temporary = target.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}.tmp")
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def _put(self, target: Path, content: bytes) -> None:
        with self._in_place(target) as temporary:
            temporary.write_bytes(content)

    def finish(self) -> None:
        """Write the manifest from the records, and end the audit."""
        assert self.plan is not None
        if not self._parts and not self._part(0).exists():
            self._write_part(0, joined_nothing())  # so that readers find columns
        total = Tally()
        failed_files = 0
        with self._in_place(self.folder / MANIFEST) as temporary, temporary.open("w", encoding="ascii") as out:
            for line, tally in self._manifest():
                out.write(json.dumps(line) + "\n")
                total.add(tally)
                failed_files += line["state"] != DONE
        self._write_audit(
            finished=True,
            files=len(self.plan.files),
            failed_files=failed_files,
            rows=total.rows,
            failed_rows=total.failed,
            judged_rows=total.judged,
            found_rows=total.found,
            lines=total.lines,
        )
        shutil.rmtree(self._work)
        self.finished = True

    def _manifest(self) -> Iterator[tuple[dict[str, Any], Tally]]:
        assert self.plan is not None
        counted = count(self._tables(), self._asked.paths)
        ahead = next(counted, None)
        for file in self.plan.files:
            tally, digest = Tally(error=file.error or None), hashlib.sha256()
            while ahead is not None and ahead.file == shown(file.file):
                tally.add(ahead.tally)
                digest.update(ahead.digests.encode())
                ahead = next(counted, None)
            if tally.rows != file.rows:
                raise self._damaged(
                    f"its records tell of {tally.rows} rows of {shown(file.file)}, its plan of {file.rows}"
                )
            state = FAILED if file.error or tally.failed == tally.rows else PARTLY if tally.failed else DONE
            line = {
                "file": shown(file.file),
                "size": file.size,
                "digest": f"rows:{digest.hexdigest()}" if tally.rows else None,
                "rows": tally.rows,
                "failed": tally.failed,
                "found": tally.found,
                "state": state,
                "error": tally.error,
            }
            yield line, tally
        if ahead is not None:
            raise self._damaged(f"its records tell of {shown(ahead.file)}, its plan not in that place")

    def _tables(self) -> Iterator[pa.Table]:
        for at in range(len(self._parts)):
            part = self._part(at)
            try:
                with named_file(part) as file:
                    table = pq.read_table(file, columns=list(NEEDED))
            except (OSError, pa.ArrowException) as error:
                self._check_content(part, error)
                part.unlink()
                raise self._removed(part) from None
            yield table

    def _write_audit(self, *, finished: bool, **found: int) -> None:
        content = {
            "format": FORMAT,
            "finished": finished,
            "asked": self._asked.document(),
            "versions": self._versions,
            **({"found": found} if finished else {}),
        }
        self._put(self.folder / AUDIT, (json.dumps(content, indent=2) + "\n").encode("ascii"))


def joined_nothing() -> pa.Table:
    """Records without a line."""
    return arrow_schema().empty_table()
