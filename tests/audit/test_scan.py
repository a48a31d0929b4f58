"""A scan finds what an audit of the same files finds, while somebody looks, and works nothing out twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch

from tests.audit.making import FAULTS, audited, befall, dump, rows
from workbench.audit import plan as planning
from workbench.audit import scan as scanning
from workbench.audit.dataset import Dataset
from workbench.audit.executors.base import Lost
from workbench.audit.scan import GROUPS, WORST, Scan
from workbench.audit.summary import summarize
from workbench.audit.walk import LEAVES
from workbench.capture import Row, write_capture
from workbench.errors import UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("TOPK_WORKBENCH_SCANS", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Counting:
    """In this process; notes the units that were worked out, and can do something after some of them."""

    name, workers = "counting", 1

    def __init__(self, after: int = -1, then: Any = None) -> None:
        self.units: list[str] = []
        self._after, self._then = after, then

    def run(self, task: Any, units: Iterable[Any]) -> Iterator[Any]:
        work = task.open(0)
        for unit in units:
            self.units.append(unit.unit.file)
            done = work(unit)
            if len(self.units) == self._after:
                self._then()
            yield unit, done

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None: ...


def bad(folder: Path, name: str = "bad.safetensors", seed: int = 3) -> Path:
    """A capture with a row that is not safe, and a recorded selection that lost winners."""
    generator = torch.Generator().manual_seed(seed)
    (call,) = {row.call for row in rows(1, 9000, k=512, rows=1, release="vllm==0.26.0", device="h200")}
    scores = torch.rand(9000, generator=generator) * 0.245 + 1.0
    indices = torch.topk(scores, 512).indices.to(torch.int32)
    indices[:3] = torch.topk(scores, 600).indices[-3:].to(torch.int32)
    folder.mkdir(parents=True, exist_ok=True)
    write_capture(folder / name, [Row(scores, 9000, call=replace(call, k=512), indices=indices)])
    return folder / name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five captures in two folders, one with a bad row, one broken."""
    where = dump(tmp_path / "dump", files=4)
    bad(where / "rank1")
    (where / "rank0" / "broken.safetensors").write_bytes(b"no tensors")
    return where


def test_it_finds_what_an_audit_finds(folder: Path, tmp_path: Path) -> None:
    scan = Scan([folder], "dump")
    assert (scan.state, scan.summary().total.rows) == ("new", 0)
    scan.run()
    assert (scan.state, scan.error, scan.why) == ("done", "", "")
    found = scan.summary()
    audited(folder, tmp_path / "out")
    told = summarize(Dataset(tmp_path / "out"), WORST, GROUPS)
    assert told.total.lossy == 1
    assert told.total.bad == 1
    own = ("name", "about", "kind", "files")
    for name in (name for name in vars(told) if name not in own):
        assert getattr(found, name) == getattr(told, name), name
    assert (found.files.files, found.files.bytes, found.files.states) == (
        told.files.files,
        told.files.bytes,
        told.files.states,
    )
    assert [replace(one, digest=None) for one in told.files.faulty] == list(found.files.faulty)
    assert found.kind == "scan"


def test_processes_find_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "ALONE", 0)
    scan = Scan([folder], "dump")
    scan.run()
    found = scan.summary()
    monkeypatch.setattr(scanning, "ALONE", 1 << 62)
    monkeypatch.setenv("TOPK_WORKBENCH_SCANS", str(folder.parent / "other"))
    alone = Scan([folder], "dump")
    alone.run()
    assert scan.state == alone.state == "done"
    assert found == alone.summary()


def test_batches_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Scan([folder], "dump")
    whole.run()
    monkeypatch.setattr(scanning, "_TOGETHER", 1)
    monkeypatch.setattr(scanning, "WORST", 1)
    apart = Scan([folder], "dump")
    apart.run()
    assert apart.summary().total == whole.summary().total
    assert apart.summary().worst == whole.summary().worst[:1]


def test_it_can_be_stopped_and_goes_on(folder: Path) -> None:
    scan = Scan([folder], "dump")
    first = Counting(2, scan.stop)
    scan.run(executor=first)
    assert (scan.state, len(first.units)) == ("stopped", 2)
    found = scan.summary()
    assert found.unfinished is not None
    assert (found.unfinished.units, found.unfinished.open, found.total.rows) == (5, 3, 6)
    assert found.files.states == {"done": 2, "failed": 1, "open": 3}
    second = Counting()
    scan.run(executor=second)
    assert scan.state == "done"
    assert sorted(first.units + second.units) == sorted({*first.units, *second.units})
    assert scan.summary().total.rows == 13


def test_nothing_is_worked_out_twice(folder: Path) -> None:
    Scan([folder], "dump").run()
    again = Counting()
    scan = Scan([folder], "dump")
    scan.run(executor=again)
    assert (scan.state, again.units, scan.progress.known) == ("done", [], 5)
    other = Counting()
    Scan([folder], "dump", {"op": "sglang.fast_topk_v2"}).run(executor=other)  # other circumstances
    assert len(other.units) == 5


def test_new_changed_and_half_written_files_are_found_when_it_looks_again(folder: Path) -> None:
    scan = Scan([folder], "dump")
    scan.run()
    assert scan.news() == (0, 0, 0)
    write_capture(folder / "rank0" / "new.safetensors", rows(seed=50))
    half = folder / "rank0" / "broken.safetensors"
    content = (folder / "rank0" / "new.safetensors").read_bytes()
    half.write_bytes(content[: len(content) // 2])
    (folder / "rank1" / "step1.safetensors").unlink()
    assert scan.news() == (1, 1, 1)
    again = Counting()
    scan.run(executor=again)
    assert again.units == ["rank0/new.safetensors"]
    (told,) = scan.summary().files.faulty
    assert (told.file, told.state) == ("rank0/broken.safetensors", "failed")
    assert told.error
    half.write_bytes(content)
    last = Counting()
    scan.run(executor=last)
    assert last.units == ["rank0/broken.safetensors"]
    assert not scan.summary().files.faulty


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_anew(folder: Path) -> None:
    scan = Scan([folder], "dump")
    scan.run()
    path = folder / "rank0" / "step0.safetensors"
    before = path.stat()
    path.unlink()
    write_capture(path, rows(seed=99))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert scan.news() == (0, 0, 1)
    again = Counting()
    scan.run(executor=again)
    assert again.units == ["rank0/step0.safetensors"]


def test_a_file_that_changes_while_it_scans_is_told_and_tried_again(folder: Path) -> None:
    path = folder / "rank1" / "step3.safetensors"

    def change() -> None:
        path.unlink()
        write_capture(path, rows(seed=98))

    scan = Scan([folder], "dump")
    scan.run(executor=Counting(1, change))
    assert scan.state == "done"
    told = {one.file: one for one in scan.summary().files.faulty}["rank1/step3.safetensors"]
    assert told.state == "failed"
    assert told.error == "the file was changed while it was scanned; look again"
    assert scan.summary().total.errors == 3
    path.unlink()
    write_capture(path, rows(seed=3))
    again = Counting()
    scan.run(executor=again)
    assert again.units == ["rank1/step3.safetensors"]
    assert scan.summary().total.errors == 0


@pytest.mark.usefixtures("permissions_hold")
@pytest.mark.parametrize("listed", [False, True])
def test_what_befalls_files_once_they_are_listed_or_planned_costs_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    for seed, name in enumerate(("first", *FAULTS, "replaced", "whole")):
        write_capture(folder / f"{name}.safetensors", rows(seed=seed))
    module, name = (planning, "walk") if listed else (scanning, "make_plan")
    before = getattr(module, name)

    def then(*args: Any, **more: Any) -> Any:
        found = before(*args, **more)
        found = list(found) if listed else found
        befall(folder)
        write_capture(folder / "replaced.safetensors", rows(seed=99), overwrite=True)
        monkeypatch.setattr(module, name, before)
        return found

    monkeypatch.setattr(module, name, then)
    scan = Scan([folder], "dump")
    scan.run()
    assert (scan.state, scan.error) == ("done", "")
    told = {one.file.removesuffix(".safetensors"): one.error for one in scan.summary().files.faulty}
    assert ("changed while it was scanned" in told.pop("replaced", "")) == (not listed)
    assert told.keys() == FAULTS.keys()
    assert all(said in told[name] for name, said in FAULTS.items())
    judged = {line.file for line in scan.summary().worst}
    assert judged <= {"first.safetensors", "replaced.safetensors", "whole.safetensors"}
    assert scan.summary().total.rows - scan.summary().total.errors == (9 if listed else 6)


def test_much_waits_until_it_is_allowed(folder: Path) -> None:
    scan = Scan([folder], "dump", at_once=1000)
    scan.run()
    assert (scan.state, scan.progress.rows) == ("waiting", (0, 13))
    scan.run(allowed=True)
    assert scan.state == "done"


def test_links_that_lead_away_are_told_and_not_followed(folder: Path, tmp_path: Path) -> None:
    away = dump(tmp_path / "away", files=1)
    secret = away / "rank0" / "step0.safetensors"
    (folder / "file.safetensors").symlink_to(secret)
    (folder / "deep").symlink_to(away)
    (folder / "inside.safetensors").symlink_to(folder / "rank0" / "step0.safetensors")
    (folder / "notes.txt").symlink_to(secret)  # nothing that would be read
    scan = Scan([folder], "dump")
    scan.run()
    told = {one.file: one.error for one in scan.summary().files.faulty}
    assert told.pop("rank0/broken.safetensors")
    assert told == {"file.safetensors": LEAVES, "deep": LEAVES}
    found = {group.value: group.tally.rows for group in scan.summary().groups["file"].groups}
    assert found["inside.safetensors"] == 3
    assert not any("away" in str(name) or "file.safe" in str(name) for name in found)
    assert scan.news() == (0, 0, 0)
    audited(folder, tmp_path / "out")  # an audit follows them
    assert Dataset(tmp_path / "out").about["found"]["rows"] == 13 + 3 + 3 + 3


def test_a_dump_with_a_link_that_leads_away_is_not_opened_as_one(tmp_path: Path) -> None:
    away = tmp_path / "away.pt"
    torch.save(torch.randn(2, 600), away)
    where = tmp_path / "dump"
    where.mkdir()
    torch.save(torch.tensor([600, 500], dtype=torch.int32), where / "lengths.pt")
    (where / "scores.pt").symlink_to(away)
    scan = Scan([where], "dump", {"k": 64})
    scan.run()
    told = {one.file: one.error for one in scan.summary().files.faulty}
    assert told["scores.pt"] == LEAVES
    assert scan.summary().total.rows == 0
    (where / "scores.pt").unlink()
    torch.save(torch.randn(2, 600), where / "scores.pt")
    scan.run()
    assert scan.summary().total.rows == 2


def test_two_at_once_do_not_share_a_cache(folder: Path, cache: Path) -> None:
    scan = Scan([folder], "dump")
    scan.run()
    (lock,) = cache.glob("*.lock")
    with filelock.FileLock(lock):
        other = Scan([folder], "dump")
        other.run()
    assert (other.state, other.why) == ("done", "another process scans the same")
    assert other.summary().total == scan.summary().total


def test_a_cache_that_cannot_be_written_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOPK_WORKBENCH_SCANS", str(tmp_path / "file"))
    scan = Scan([folder], "dump")
    scan.run()
    assert scan.state == "done"
    assert "cannot be written" in scan.why
    again = Counting()
    scan.run(executor=again)  # kept as long as the scan is
    assert again.units == []


def test_a_damaged_cache_is_worked_out_anew(folder: Path, cache: Path) -> None:
    Scan([folder], "dump").run()
    (frames,) = cache.glob("*.frames")
    content = bytearray(frames.read_bytes())
    content[len(content) // 2] ^= 1
    frames.write_bytes(content)
    again = Counting()
    scan = Scan([folder], "dump")
    scan.run(executor=again)
    assert 0 < len(again.units) < 5
    assert scan.summary().total.rows == 13


def test_what_is_of_no_use_any_more_goes(folder: Path, cache: Path) -> None:
    scan = Scan([folder], "dump")
    scan.run()
    (frames,) = cache.glob("*.frames")
    before = frames.stat().st_size
    for path in (folder / "rank0").iterdir():
        path.unlink()
    (folder / "rank1" / "bad.safetensors").unlink()
    scan.run()
    assert frames.stat().st_size < before
    assert scan.summary().total.rows == 6
    again = Counting()
    scan.run(executor=again)
    assert again.units == []


def test_a_folder_without_captures_holds_no_row(tmp_path: Path) -> None:
    scan = Scan([tmp_path], "empty")
    scan.run()
    assert (scan.state, scan.plan.files, scan.summary().total.rows) == ("done", (), 0)
    with pytest.raises(UsageError, match="no such file or folder"):
        Scan([tmp_path / "none"], "none")
    with pytest.raises(UsageError, match="op"):
        Scan([tmp_path], "empty", {"op": "none"})


def test_a_unit_that_is_lost_is_told(folder: Path) -> None:
    class Losing(Counting):
        def run(self, task: Any, units: Iterable[Any]) -> Iterator[Any]:
            yield from (Lost(unit, "killed by SIGKILL") for unit in units)

    scan = Scan([folder], "dump")
    scan.run(executor=Losing())
    assert scan.state == "done"
    assert scan.summary().total.errors == 13
    assert "killed by SIGKILL" in str(scan.summary().errors[0]["error"])


def test_it_is_summed_up_while_it_works(folder: Path) -> None:
    scan = Scan([folder], "dump")
    seen: list[int] = []
    halted, go = threading.Event(), threading.Event()

    def halt() -> None:
        halted.set()
        go.wait(20)

    thread = threading.Thread(target=lambda: scan.run(executor=Counting(3, halt)))
    thread.start()
    assert halted.wait(20)
    seen.append(scan.summary().total.rows)
    go.set()
    thread.join()
    assert seen == [6]  # of the two units before
    assert scan.summary().total.rows == 13
