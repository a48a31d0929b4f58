"""An audit that is stopped anywhere goes on, and its folder is then the same, byte for byte, as if it had not been."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.audit.making import Shuffled, StopError, Stopped, audited, content, dump, records, rows
from workbench.audit import plan
from workbench.audit.dataset import Dataset
from workbench.audit.front import Progress
from workbench.audit.journal import Journal
from workbench.audit.lines import LINE_COLUMNS, ROW_COLUMNS, Lines
from workbench.audit.schema import arrow_schema
from workbench.audit.store import Store
from workbench.audit.summary import summarize
from workbench.audit.work import CHANGED
from workbench.capture import Capture, Row, write_capture
from workbench.errors import CaptureError, UsageError

UNIT = 6000  # bytes: one row of a dump and a half, so that files have several units
LINES = 130  # of a part: those of four rows


@pytest.fixture(scope="module", autouse=True)
def several_parts() -> Iterator[None]:
    """So few lines to a part that there are several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "PART_LINES", LINES)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of five files and a broken one, in fifteen units."""
    folder = dump(tmp_path_factory.mktemp("dump") / "dump")
    (folder / "broken.safetensors").write_text("no capture at all")
    return folder


@pytest.fixture(scope="module")
def clean(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one clean run gives."""
    out = tmp_path_factory.mktemp("clean") / "out"
    audited(folder, out, unit_bytes=UNIT)
    return content(out)


def test_the_dataset_has_parts_a_manifest_and_what_was_asked(clean: dict[str, bytes]) -> None:
    assert sorted(clean) == [
        "audit.json",
        "manifest.jsonl",
        *(f"records/part-{at:06}.parquet" for at in range(4)),
    ]
    asked = json.loads(clean["audit.json"])
    assert asked["found"] == {
        "files": 6,
        "failed_files": 1,
        "rows": 15,
        "failed_rows": 0,
        "judged_rows": 15,
        "found_rows": asked["found"]["found_rows"],
        "lines": 15 * 32,
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_results_does_not_show(folder: Path, clean: dict[str, bytes], tmp_path: Path, seed: int) -> None:
    audited(folder, tmp_path / "out", unit_bytes=UNIT, executor=Shuffled(seed, ahead=8))
    assert content(tmp_path / "out") == clean


@pytest.mark.parametrize("after", [0, 1, 2, 7, 14])
def test_stopped_after_any_number_of_units(folder: Path, clean: dict[str, bytes], tmp_path: Path, after: int) -> None:
    told: list[Progress] = []
    with pytest.raises(StopError):
        audited(folder, tmp_path / "out", unit_bytes=UNIT, executor=Stopped(after, seed=after))
    again = audited(folder, tmp_path / "out", unit_bytes=UNIT, progress=told.append)
    assert content(tmp_path / "out") == clean
    assert again.resumed
    assert told[0].units == (after, 15)  # all that was finished counts


def test_stopped_many_times_over(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    for seed in range(14):
        with pytest.raises(StopError):
            audited(folder, tmp_path / "out", unit_bytes=UNIT, executor=Stopped(1, seed=seed))
    audited(folder, tmp_path / "out", unit_bytes=UNIT)
    assert content(tmp_path / "out") == clean


def test_a_finished_audit_is_not_touched(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    first = audited(folder, tmp_path / "out", unit_bytes=UNIT)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}

    class Never(Shuffled):
        def run(self, task: Any, units: Any) -> Any:
            raise AssertionError("nothing is left to do")

    again = audited(folder, tmp_path / "out", unit_bytes=UNIT, executor=Never())
    assert vars(again) == {**vars(first), "resumed": True}
    assert {path: path.stat().st_mtime_ns for path in times if path.name != ".lock"} == {
        path: at for path, at in times.items() if path.name != ".lock"
    }


def test_frames_cut_at_any_byte_or_spoilt_are_done_again(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    chance = random.Random(3)
    for trial in range(12):
        out = tmp_path / f"out{trial}"
        with pytest.raises(StopError):
            audited(folder, out, unit_bytes=UNIT, executor=Stopped(2, seed=trial))
        (frames,) = list((out / "unfinished").glob("*.frames"))[:1]
        data = bytearray(frames.read_bytes())
        at = chance.randrange(len(data))
        if trial % 2:
            data[at] ^= 0x40
        else:
            del data[at:]
        frames.write_bytes(data)
        (out / "records" / ".workbench-0000.tmp").write_bytes(b"half a part")
        (out / ".workbench-0000.tmp").write_bytes(b"half a manifest")
        audited(folder, out, unit_bytes=UNIT)
        assert content(out) == clean
        assert not list(out.rglob(".workbench-*"))


def forged(out: Path, number: int, payload: bytes, part: int = 0) -> Path:
    """A whole frame, its digest among it, in the file of a part."""
    path = out / "unfinished" / f"part-{part:06}.frames"
    Journal(path).add(number, payload)
    return path


def lines_of(file: object, numbers: list[int], **more: object) -> bytes:
    found = Lines()
    for row in numbers:
        found.add({"file": file, "row": row, **more}, [{"engine": "census", "path": "vllm.radix"}])
    return found.dumped()


def streams(rows: dict[str, object], lines: dict[str, object]) -> bytes:
    """Two Arrow streams of such columns."""
    sink = pa.BufferOutputStream()
    for columns in (rows, lines):
        table = pa.table(columns)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


FIRST = "rank0/step0.safetensors"
FORGED = {
    "no bytes": (1, b""),
    "no Arrow": (1, b"x" * 1000),
    "other columns": (1, streams({"a": [1]}, {"b": [1]})),
    "one column": (1, streams({"a": [1]}, {"at": [0]})),
    "a half": (1, lines_of(FIRST, [1])[:-200]),
    "another file": (1, lines_of("rank1/step1.safetensors", [1])),
    "another row": (1, lines_of(FIRST, [0])),
    "no rows": (1, lines_of(FIRST, [])),
    "more rows": (1, lines_of(FIRST, [1, 2])),
    "no file": (1, lines_of(None, [1])),
    "no row": (1, lines_of(FIRST, [None])),  # type: ignore[list-item]
    "a unit of another part": (9, lines_of("rank0/step4.safetensors", [0])),
    "a unit of none": (10**6, lines_of(FIRST, [1])),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_frames_are_told_and_done_again(
    folder: Path, clean: dict[str, bytes], tmp_path: Path, what: str
) -> None:
    """Their digests are right, and what they hold is not what the unit makes."""
    out = tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(0))
    path = forged(out, *FORGED[what])
    with pytest.raises(UsageError, match=r"part-000000\.frames: damaged since it was written, and removed; the same"):
        audited(folder, out, unit_bytes=UNIT)
    assert not path.exists()
    audited(folder, out, unit_bytes=UNIT)
    assert content(out) == clean


def test_lines_that_lie_elsewhere_than_they_say(folder: Path, tmp_path: Path) -> None:
    """Of a row that is not there; and text that is no UTF-8."""
    out = tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(0))
    schema = arrow_schema()
    rows = {name: pa.array([None], schema.field(name).type) for name in ROW_COLUMNS}
    rows |= {"file": pa.array([FIRST]), "row": pa.array([1])}
    lines = {name: pa.array([None], schema.field(name).type) for name in LINE_COLUMNS}
    short = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    for forged_lines in (
        {"at": pa.array([7], pa.int32()), **lines},
        {"at": pa.array([0], pa.int32()), **lines, "path": short},
    ):
        forged(out, 1, streams(rows, forged_lines))
        with pytest.raises(UsageError, match="damaged since it was written"):
            audited(folder, out, unit_bytes=UNIT)


@pytest.mark.parametrize(
    "change",
    [
        {"file": 5}, {"file": "../elsewhere"}, {"file": "/etc/passwd"}, {"file": ""}, {"size": -1}, {"stamp": None},
        {"rows": 2}, {"rows": True}, {"longest": "x"}, {"lines": 1.5}, {"lines": -1}, {"spans": []},
        {"spans": [[1, 3, 9]]}, {"spans": [[0, 0, 9], [0, 3, 9]]}, {"spans": [[0, 3, -9]]}, {"spans": [[0, 3.0, 9]]},
        {"spans": 3}, {"error": None}, {"error": "x"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_forged_plan_is_told(tmp_path: Path, change: dict[str, object]) -> None:
    folder, out = dump(tmp_path / "dump", 1), tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, executor=Stopped(0))
    path = out / "unfinished" / "plan.jsonl"
    text = json.dumps({**json.loads(path.read_text().splitlines()[0]), **change}) + "\n"
    path.write_text(f"{text}{hashlib.sha256(text.encode()).hexdigest()}\n")
    with pytest.raises(UsageError, match=r"plan\.jsonl is damaged; delete the folder, and audit anew"):
        audited(folder, out)


@pytest.mark.parametrize("lost", ["records", "a part", "the manifest", "a part is empty"])
def test_what_a_finished_audit_lost_is_told(folder: Path, tmp_path: Path, lost: str) -> None:
    out = tmp_path / "out"
    audited(folder, out, unit_bytes=UNIT)
    part = out / "records" / "part-000002.parquet"
    if lost == "records":
        shutil.rmtree(out / "records")
    elif lost == "a part":
        part.unlink()
    elif lost == "a part is empty":
        pq.write_table(arrow_schema().empty_table(), part)
    else:
        (out / "manifest.jsonl").unlink()
    with pytest.raises(CaptureError, match="audit the folder again, into another one") as told:
        audited(folder, out, unit_bytes=UNIT)
    assert str(out) in str(told.value)


def test_a_part_that_was_cut_is_done_again(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(14))
    part = next((out / "records").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    audited(folder, out, unit_bytes=UNIT)
    assert content(out) == clean


@pytest.mark.usefixtures("permissions_hold")
def test_a_part_that_may_not_be_read_is_told_and_kept(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(14))
    part = next((out / "records").glob("*.parquet"))
    part.chmod(0)
    with pytest.raises(UsageError) as told:
        audited(folder, out, unit_bytes=UNIT)
    assert str(told.value).startswith(f"{part}: cannot be read: Permission denied; have it permitted")
    part.chmod(0o644)
    audited(folder, out, unit_bytes=UNIT)
    assert content(out) == clean
    part.chmod(0)
    with pytest.raises(CaptureError) as told_of_finished:
        summarize(Dataset(out))
    assert str(told_of_finished.value).startswith(f"{part}: cannot be read: Permission denied; have it permitted")


def test_killed_before_the_plan_was_kept(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    def stop(at: Progress) -> None:
        raise StopError

    with pytest.raises(StopError):
        audited(folder, tmp_path / "out", unit_bytes=UNIT, progress=stop)
    assert not (tmp_path / "out" / "unfinished" / "plan.jsonl").exists()
    audited(folder, tmp_path / "out", unit_bytes=UNIT)
    assert content(tmp_path / "out") == clean


def test_killed_between_the_last_files(
    folder: Path, clean: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every file that is put in place, and at the end."""
    put = Path.replace
    left = [0]

    def failing(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise StopError
        return put(self, target)

    for count in range(1, 10):
        out = tmp_path / f"out{count}"
        left[0] = count
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", failing)
            try:
                audited(folder, out, unit_bytes=UNIT)
            except StopError:
                pass
            else:
                break
        audited(folder, out, unit_bytes=UNIT)
        assert content(out) == clean
    assert count > 7


def test_other_arguments_are_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(3))
    before = content(out)
    for other in ({"paths": "vllm.*"}, {"k": 32}, {"device": "h200"}, {"unit_bytes": 7000}):
        with pytest.raises(UsageError, match=f"{next(iter(other))} is .* there and .* here"):
            audited(folder, out, **{"unit_bytes": UNIT, **other})
    with pytest.raises(UsageError, match=r"folder is .* there and .* here"):
        audited(folder / "rank0", out, unit_bytes=UNIT)
    assert content(out) == before


def test_another_version_is_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, executor=Stopped(0))
    asked = json.loads((out / "audit.json").read_text())
    asked["versions"]["torch"] = "2.0"
    (out / "audit.json").write_text(json.dumps(asked))
    with pytest.raises(UsageError, match=r"begun with .*torch 2\.0"):
        audited(folder, out)


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"format": "workbench audit 1"}', '{"format": 3}', "\xff"])
def test_a_damaged_audit_json_is_told(folder: Path, tmp_path: Path, said: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "audit.json").write_text(said, encoding="latin-1")
    with pytest.raises(UsageError, match=r"audit\.json"):
        audited(folder, tmp_path / "out")


@pytest.mark.parametrize("found", [None, {}, {"files": 1}, "x", "negative", "nested"])
def test_damaged_counts_of_a_finished_audit_are_told(folder: Path, tmp_path: Path, found: object) -> None:
    out = tmp_path / "out"
    audited(folder, out)
    about = json.loads((out / "audit.json").read_text())
    about["found"] = {**about["found"], "rows": -1} if found == "negative" else found
    text = "[" * 100_000 if found == "nested" else json.dumps(about)
    (out / "audit.json").write_text(text)
    with pytest.raises(UsageError, match=r"audit\.json"):
        audited(folder, out)


@pytest.mark.parametrize("said", ["{}\n", "[1]\n", '{"file": 5}\n', "[" * 100_000, "\xff"])
def test_a_damaged_manifest_of_a_finished_audit_is_told(folder: Path, tmp_path: Path, said: str) -> None:
    out = tmp_path / "out"
    audited(folder, out)
    (out / "manifest.jsonl").write_text(said, encoding="latin-1")
    with pytest.raises(CaptureError, match=r"manifest\.jsonl"):
        audited(folder, out)


def test_what_was_done_of_a_lost_plan_is_done_again(tmp_path: Path) -> None:
    folder, out = dump(tmp_path / "dump"), tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, executor=Stopped(4))
    (out / "unfinished" / "plan.jsonl").unlink()
    (folder / "rank0" / "step0.safetensors").unlink()
    audited(folder, out)
    audited(folder, tmp_path / "anew")
    assert content(out) == content(tmp_path / "anew")


@pytest.mark.parametrize("how", ["spoilt", "foreign"])
def test_a_part_that_is_none_is_made_anew(
    folder: Path, clean: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Store, "finish", lambda store: (_ for _ in ()).throw(StopError))
        with pytest.raises(StopError):
            audited(folder, out, unit_bytes=UNIT)
    part = out / "records" / "part-000001.parquet"
    if how == "foreign":
        pq.write_table(pa.table({"x": [1]}), part)
    else:
        held = bytearray(part.read_bytes())
        held[100:2000] = b"\xff" * 1900
        part.write_bytes(held)
        with pytest.raises(UsageError, match=r"part-000001\.parquet: damaged since it was written, and removed"):
            audited(folder, out, unit_bytes=UNIT)
    audited(folder, out, unit_bytes=UNIT)
    assert content(out) == clean


@pytest.mark.parametrize("there", [True, False])
def test_what_cannot_be_leaves_nothing_behind(folder: Path, tmp_path: Path, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()
    with pytest.raises(UsageError, match="one worker"):
        audited(folder, out, max_memory=1)
    with pytest.raises(UsageError, match="holds no capture"):
        audited(out if there else tmp_path, out)
    assert list(tmp_path.rglob("*")) == ([out] if there else [])


def test_folders_of_others_and_what_is_no_folder_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.txt").write_text("a")
    (tmp_path / "file").write_text("a")
    for out, said in (("theirs", "thesis"), ("file", "no folder"), ("none/out", "No such file")):
        with pytest.raises(UsageError, match=said):
            audited(folder, tmp_path / out)
    with pytest.raises(UsageError, match="name a folder"):
        audited(folder, "")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "theirs", "thesis.txt"]


def test_an_executor_is_asked_for_nothing_before_it_is_entered(folder: Path, tmp_path: Path) -> None:
    """One of a cluster would join it, and never leave."""

    class Entered(Shuffled):
        inside = False

        def __enter__(self) -> Any:
            self.inside = True
            return self

        @property
        def workers(self) -> int:
            assert self.inside
            return 1

    audited(folder, tmp_path / "out", unit_bytes=UNIT, executor=Entered(), max_memory="8GiB")


def test_two_at_once_are_refused(folder: Path, clean: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"

    class Twice(Shuffled):
        def run(self, task: Any, units: Any) -> Any:
            with pytest.raises(UsageError, match="another audit is writing there"):
                audited(folder, out, unit_bytes=UNIT)
            return super().run(task, units)

    audited(folder, out, unit_bytes=UNIT, executor=Twice())
    assert content(out) == clean


def test_a_full_disk_keeps_what_is_finished(
    folder: Path, clean: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, add, added = tmp_path / "out", Journal.add, [0]

    def full(self: Journal, number: int, payload: bytes) -> None:
        added[0] += 1
        if added[0] > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        add(self, number, payload)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", full)
        with pytest.raises(OSError, match="No space left"):
            audited(folder, out, unit_bytes=UNIT)
    told: list[Progress] = []
    audited(folder, out, unit_bytes=UNIT, progress=told.append)
    assert told[0].units[0] == 4
    assert content(out) == clean


def test_a_frame_that_does_not_fit_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    """A file size limit stands for the disk: the write ends in the middle of the frame."""
    code = """
import resource, signal, sys
from pathlib import Path
from workbench.audit.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
journal.add(3, b"a" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
try:
    journal.add(4, b"b" * 1000)
except OSError:
    journal.add(5, b"c" * 100)
    print("told")
"""
    path = tmp_path / "frames"
    found = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout == "told\n"
    journal = Journal(path)
    assert journal.numbers == {3, 5}
    assert list(journal.payloads()) == [(3, b"a" * 1000), (5, b"c" * 100)]


def test_files_that_changed_vanished_or_grew_are_told(tmp_path: Path) -> None:
    folder, out = dump(tmp_path / "dump"), tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(2, ahead=1))  # two of the three units of rank0/step0
    other, gone, cut, grown = (
        folder / "rank0" / "step0.safetensors",
        *(sorted((folder / "rank1").iterdir())),
        folder / "rank0" / "step2.safetensors",
    )
    other.unlink()
    write_capture(other, rows(seed=99))
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-100])
    with grown.open("ab") as file:
        file.write(b"more")
    write_capture(folder / "rank0" / "step1.safetensors", rows())  # appeared since: of no part of this audit
    found = audited(folder, out, unit_bytes=UNIT)
    manifest = {line["file"]: line for line in map(json.loads, content(out)["manifest.jsonl"].splitlines())}
    assert {file: (line["state"], line["rows"], line["failed"]) for file, line in manifest.items()} == {
        "rank0/step0.safetensors": ("partly", 3, 1),
        "rank0/step2.safetensors": ("failed", 3, 3),
        "rank0/step4.safetensors": ("done", 3, 0),
        "rank1/step1.safetensors": ("failed", 3, 3),
        "rank1/step3.safetensors": ("failed", 3, 3),
    }
    assert "changed since the audit was planned" in manifest["rank0/step0.safetensors"]["error"]
    assert "no such file" in manifest["rank1/step1.safetensors"]["error"]
    assert (found.failed_files, found.failed_rows, found.rows) == (4, 10, 15)
    assert found.appeared == ("rank0/step1.safetensors",)
    assert sum(line["error"] is not None for line in records(out).to_pylist()) == 10


def test_killed_with_signal_nine_at_any_moment(folder: Path, tmp_path: Path) -> None:
    """Real processes, killed while they work; then one that ends. They are copies of one that has imported all."""
    code = """
import os, random, signal, sys, time
from tests.audit.making import Shuffled, audited
from workbench.audit import plan, running  # torch and all, before the clock starts
plan.PART_LINES = 130
chance, killed = random.Random(5), 0
for _ in range(6):
    if (child := os.fork()) == 0:
        audited(sys.argv[1], sys.argv[2], unit_bytes=4000)
        os._exit(0)
    time.sleep(chance.uniform(0.0, 0.12))
    os.kill(child, signal.SIGKILL)
    killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
print(killed, flush=True)
audited(sys.argv[1], sys.argv[2], unit_bytes=4000)
"""
    out = tmp_path / "out"
    command = [sys.executable, "-c", code, str(folder), str(out)]
    assert int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout) > 0
    audited(folder, tmp_path / "clean", unit_bytes=4000)
    assert content(out) == content(tmp_path / "clean")


def test_an_empty_dump_still_has_columns(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "a.safetensors").write_text("broken")
    found = audited(tmp_path / "dump", tmp_path / "out")
    assert (found.files, found.failed_files, found.rows) == (1, 1, 0)
    assert records(tmp_path / "out").num_rows == 0
    assert "file" in records(tmp_path / "out").column_names


def test_the_lock_ends_with_its_audit(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StopError):
        audited(folder, tmp_path / "out", executor=Stopped(0))
    from workbench.audit.asked import Asked, located

    with Store(tmp_path / "out", Asked(*located(folder))) as store:
        assert store.resumed


def _put_back(path: Path, seed: int) -> None:
    """Other rows of the same size in place of a file, with its time of change."""
    before = path.stat()
    other = path.with_name("other.safetensors")
    write_capture(other, rows(seed=seed))
    assert other.stat().st_size == before.st_size
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_a_file_that_was_replaced_by_one_of_the_same_size_and_time_is_told(tmp_path: Path) -> None:
    folder, out = dump(tmp_path / "dump", files=2), tmp_path / "out"
    with pytest.raises(StopError):
        audited(folder, out, unit_bytes=UNIT, executor=Stopped(1, ahead=1))
    _put_back(folder / "rank0" / "step0.safetensors", 77)
    audited(folder, out, unit_bytes=UNIT)
    manifest = {line["file"]: line for line in map(json.loads, content(out)["manifest.jsonl"].splitlines())}
    assert manifest["rank0/step0.safetensors"]["failed"] == 2
    assert "changed since the audit was planned" in manifest["rank0/step0.safetensors"]["error"]
    assert manifest["rank1/step1.safetensors"]["state"] == "done"


@pytest.mark.parametrize("how", ["replaced", "rewritten"])
def test_a_file_that_changes_while_a_unit_is_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder, out = dump(tmp_path / "dump", files=1), tmp_path / "out"
    path = folder / "rank0" / "step0.safetensors"
    read = Capture.read
    changed = []

    def meanwhile(self: Capture, number: int, **more: Any) -> Row:
        found = read(self, number, **more)
        if not changed:
            changed.append(number)
            before = path.stat()
            if how == "replaced":
                _put_back(path, 77)
            else:
                path.write_bytes(path.read_bytes()[:-4] + bytes(4))
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return found

    monkeypatch.setattr(Capture, "read", meanwhile)
    found = audited(folder, out)
    assert changed
    assert (found.rows, found.failed_rows) == (3, 3)
    assert {line["error"] for line in records(out).to_pylist()} == {CHANGED}
