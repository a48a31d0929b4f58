"""Audits of real captures, summed up: the summary agrees with the audit, finished or not, and never touches it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.audit.making import StopError, Stopped, audited, content, dump, rows
from tests.ui.conftest import make_capture
from workbench.audit import plan
from workbench.audit.comparison import compare
from workbench.audit.dataset import Dataset
from workbench.audit.summary import summarize
from workbench.audit.unfinished import Unfinished
from workbench.audit.words import audit_sentence
from workbench.capture import Row, open_capture, write_capture
from workbench.errors import CaptureError, UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures with a bad row, without op, release and device, with a row that cannot be read, and a broken file."""
    folder = dump(tmp_path_factory.mktemp("dump") / "dump", files=3)
    make_capture(folder / "bad-row.safetensors")
    make_capture(folder / "rank0" / "fixed.safetensors", release="vllm==0.33.0")
    crowded = torch.rand(9000, generator=torch.Generator().manual_seed(0)) * 0.245 + 1.0
    write_capture(folder / "rank1" / "anonymous.safetensors", [Row(crowded, 9000, call=rows(1, k=512)[0].call)])
    (folder / "broken.safetensors").write_text("no capture at all")
    return folder


@pytest.mark.parametrize("paths", ["*", "vllm.*", "torch.*"])
def test_it_agrees_with_the_audit(folder: Path, tmp_path: Path, paths: str) -> None:
    told = audited(folder, tmp_path / "out", paths=paths, unit_bytes=80_000)
    found = summarize(Dataset(tmp_path / "out"))
    assert (found.total.rows, found.total.errors) == (told.rows, told.failed_rows)
    assert (found.total.bad, found.total.rows - found.total.unjudged) == (told.found_rows, told.judged_rows)
    assert (found.files.files, found.files.of) == (told.files, told.failed_files)
    assert found.unfinished is None
    assert found.folder == str(folder)
    if paths == "*":
        assert found.total.bad >= 2
        assert found.worst[0]["file"] == "bad-row.safetensors"


def test_links_find_rows_by_the_digest_of_their_scores(folder: Path, tmp_path: Path) -> None:
    audited(folder, tmp_path / "out")
    for line in summarize(Dataset(tmp_path / "out")).worst:
        with open_capture(folder / line["file"]) as capture:
            assert capture.digest_of(line["row"]) == line["scores"]


def test_an_audit_against_itself_and_against_other_content(folder: Path, tmp_path: Path) -> None:
    audited(folder, tmp_path / "a")
    same = compare(Dataset(tmp_path / "a"), Dataset(tmp_path / "a"))
    assert (same.is_worse, same.vanished, same.changed_input) == (False, 0, 0)
    other = dump(tmp_path / "other", files=3)
    make_capture(other / "bad-row.safetensors", seed=3)
    audited(other, tmp_path / "b")
    found = compare(Dataset(tmp_path / "a"), Dataset(tmp_path / "b"))
    assert (found.same_input, found.changed_input, found.appeared) == (9, 3, 0)
    assert found.only_files.first_of == 2


@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_an_unfinished_audit_says_what_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    monkeypatch.setattr(plan, "PART_LINES", 130)  # of four rows
    source, out = dump(tmp_path / "dump"), tmp_path / "out"
    with pytest.raises(StopError):
        audited(source, out, unit_bytes=6000, executor=Stopped(after))
    before = content(out)
    found = summarize(Dataset(out))
    assert found.unfinished == Unfinished(files=5, units=15, open=15 - after)
    assert content(out) == before
    assert audit_sentence(found).startswith(f"The audit is not finished: {15 - after} of 15 units of work are open; ")
    with pytest.raises(UsageError, match="out: the audit is not finished"):
        compare(Dataset(out), Dataset(out))
    audited(source, out, unit_bytes=6000)
    assert summarize(Dataset(out)).unfinished is None


def test_an_audit_without_a_plan_and_one_with_a_damaged_plan(tmp_path: Path) -> None:
    source, out = dump(tmp_path / "dump"), tmp_path / "out"
    with pytest.raises(StopError):
        audited(source, out, executor=Stopped(1))
    held = out / "unfinished" / "plan.jsonl"
    for damage in ("[]\n", "{}\n", '{"file": "a", "size": 1, "spans": [[0]]}\n', "\xff"):
        held.write_bytes(damage.encode("latin-1"))
        with pytest.raises(CaptureError, match=r"plan\.jsonl: it is damaged"):
            summarize(Dataset(out))
    held.unlink()
    found = summarize(Dataset(out))
    assert found.unfinished == Unfinished()
    assert "its plan is not made yet" in audit_sentence(found)


def test_a_part_that_is_missing_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PART_LINES", 130)
    out = tmp_path / "out"
    audited(folder, out)
    whole = Dataset(out)
    parts = sorted((out / "records").iterdir())
    assert len(parts) > 2
    parts[1].rename(tmp_path / "part")
    with pytest.raises(CaptureError, match=r"its manifest tells of \d+ rows and its records of \d+"):
        summarize(Dataset(out))
    with pytest.raises(CaptureError, match="its manifest tells of"):
        compare(Dataset(out), Dataset(out))
    with pytest.raises(CaptureError, match="cannot be read: No such file or directory"):
        summarize(whole)  # opened before
    assert json.loads((out / "audit.json").read_text())["finished"]
