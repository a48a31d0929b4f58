"""The overview of a folder that nobody audited: it is scanned while a person looks."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from tests.audit.making import audited
from tests.ui.conftest import make_capture, saved_names, taken, texts
from tests.ui.test_overview import _script, link, params
from workbench.audit.dataset import Dataset
from workbench.audit.summary import summarize
from workbench.audit.tables import group_table, worst_table
from workbench.audit.walk import LEAVES
from workbench.ui import scans
from workbench.ui.loading import _library
from workbench.ui.overview_view import Overview, from_params, to_params

Open = Callable[..., AppTest]


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """A folder of captures with a broken file, a dump without k, a loose array, and a link that leads away."""
    folder = tmp_path / "dumps"
    (folder / "deep").mkdir(parents=True)
    make_capture(folder / "bad-row.safetensors")
    make_capture(folder / "deep" / "more.safetensors", seed=7)
    (folder / "broken.safetensors").write_bytes(b"these are no tensors")
    torch.save({"scores": torch.randn(2, 3000)}, folder / "deep" / "loose.pt")
    away = make_capture(tmp_path / "away.safetensors")
    (folder / "link.safetensors").symlink_to(away)
    return folder


@pytest.fixture
def page(where: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open the overview with arguments, by default the folder, and parameters."""
    monkeypatch.setattr(scans, "_NEWS_S", 0.0)

    def open_page(*arguments: Path, **given: str) -> AppTest:
        monkeypatch.setattr(sys, "argv", ["app.py", *map(str, arguments or (where,))])
        test = AppTest.from_function(_script, default_timeout=60)
        for name, value in given.items():
            test.query_params[name] = value
        return test.run()

    return open_page


def finished(test: AppTest, seconds: float = 40) -> AppTest:
    """The page once its scan is done."""
    end = time.monotonic() + seconds
    while any(button.label == "Stop" for button in test.button):
        assert time.monotonic() < end, texts(test)
        time.sleep(0.1)
        test.run()
    assert not test.exception
    return test


def press(test: AppTest, label: str) -> AppTest:
    (button,) = (one for one in test.button if one.label == label)
    return button.click().run()


def test_it_says_what_is_wrong_as_an_audit_would(page: Open, where: Path, tmp_path: Path) -> None:
    test = finished(page())
    said = texts(test)
    (tmp_path / "apart").mkdir()
    copy = shutil.copytree(where, tmp_path / "apart" / "dumps", symlinks=True)
    (copy / "link.safetensors").unlink()
    audited(copy, tmp_path / "out")
    told = summarize(Dataset(tmp_path / "out"), 200, 1000)
    assert "2 of 8 rows lose winners or can: 2 at risk on the path that they reach." in said
    assert "3 files of 5 could not be scanned and 2 rows could not be read or judged: see the end of this page." in said
    assert "dumps: 8 rows, 2 calls and 5 files of" in said
    assert f"scanned from {where}" in said
    worst, expected = test.dataframe[0].value, worst_table(told)
    assert worst[["file", "row"]].values.tolist() == [list(row[:2]) for row in expected.rows]
    by_file = next(one.value for one in test.dataframe if list(one.value.columns[:2]) == ["file", "rows"])
    assert by_file["bad"].tolist() == [row[2] for row in group_table("file", told).rows] == [1, 1]
    why = next(one.value for one in test.dataframe if "why" in one.value.columns)
    files = dict(zip(why["file"], why["why"], strict=True))
    assert set(files) == {"broken.safetensors", "deep/loose.pt", "link.safetensors"}
    assert files["link.safetensors"] == LEAVES
    assert "does not say k" in files["deep/loose.pt"]
    label, target = link(test)
    assert label == "Inspect row 1 of dumps/bad-row.safetensors"
    assert (target["capture"], target["row"], target["path"]) == (
        "dumps/bad-row.safetensors",
        "1",
        "vllm.histogram_256",
    )
    assert params(test) == {"scan": "dumps"}
    assert "Nothing changed since." in said
    assert f"The app reads only what it was given, {where}, and what lies below" in said
    assert "answers this machine alone, on 127.0.0.1" in said
    assert "no kernel and no released op is run" in said


def test_a_link_restores_it(page: Open) -> None:
    test = finished(page(scan="dumps", file="deep/more.safetensors", row="1", device="h200"))
    assert "Row 1 of deep/more.safetensors: at risk" in texts(test)
    assert link(test)[1]["capture"] == "dumps/deep/more.safetensors"
    assert params(test) == {"scan": "dumps", "file": "deep/more.safetensors", "row": "1", "device": "h200"}
    test = finished(page(scan="<b>none</b>", op="none", release="x"))
    said = texts(test)
    assert "The link's folder <b>none</b> is not below the folders given at start." in said
    assert "The link's op is left out" in said
    assert "The link's release is left out" in said
    assert params(test) == {"scan": "dumps"}
    value = Overview(scan="dumps", file="a", row=3, op="vllm.persistent_topk", release="vllm==0.26.0", device="h200")
    assert from_params(to_params(value)) == (value, [])


def test_circumstances_stand_over_what_captures_say(page: Open) -> None:
    test = finished(page(scan="dumps", op="vllm.persistent_topk", release="vllm==0.26.0", device="h200", k="512"))
    shown = {one.label: one.value for one in test.selectbox}
    assert (shown["Op"], shown["Release"], shown["k"]) == ("vllm.persistent_topk", "vllm==0.26.0", "512")
    said = texts(test)
    assert "2 files of 5 could not be scanned" in said  # the dump without k is judged
    assert "of 8 rows" in said
    paths = next(one.value for one in test.dataframe if "reached" in one.value.columns)
    reached = dict(zip(paths["path"], paths["reached"], strict=True))
    assert sum(reached.values()) == 6  # of the loose array neither batch nor width is known, nor then its route
    assert all(name.startswith("vllm.") for name, rows in reached.items() if rows)
    (box,) = (one for one in test.selectbox if one.label == "k")
    box.set_value("").run()
    finished(test)
    assert "k" not in params(test)


def test_what_other_processes_write_is_found_when_it_looks_again(page: Open, where: Path) -> None:
    test = finished(page())
    make_capture(where / "deep" / "new.safetensors", seed=11)
    content = (where / "deep" / "new.safetensors").read_bytes()
    (where / "half.safetensors").write_bytes(content[: len(content) // 2])
    (where / "deep" / "more.safetensors").unlink()
    test.run()
    assert "Since then 2 files appeared and 1 file vanished: look again." in texts(test)
    test = finished(press(test, "Look again"))
    said = texts(test)
    assert "2 of 8 rows lose winners or can" in said
    assert "Nothing changed since." in said
    why = next(one.value for one in test.dataframe if "why" in one.value.columns)
    assert "half.safetensors" in why["file"].tolist()
    assert "deep/new.safetensors" in test.dataframe[0].value["file"].tolist()


def test_it_can_be_stopped_and_goes_on(page: Open, where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        make_capture(where / f"slow{number}.safetensors", seed=20 + number)
    from workbench.audit.work import Worker

    work = Worker.__call__

    def slowly(self: Worker, job: object) -> object:
        time.sleep(0.4)
        return work(self, job)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "__call__", slowly)
    test = page()
    end = time.monotonic() + 30
    while "The scan is not finished" not in texts(test):
        assert time.monotonic() < end
        time.sleep(0.1)
        test.run()
    assert any("Scanning" in str(one.proto.text) for one in test.get("progress"))
    press(test, "Stop")
    while any(button.label == "Stop" for button in test.button):
        assert time.monotonic() < end
        time.sleep(0.1)
        test.run()
    said = texts(test)
    assert "Stopped: " in said
    assert "units of work are done." in said
    assert test.dataframe  # what was found so far
    monkeypatch.setattr(Worker, "__call__", work)
    said = texts(finished(press(test, "Go on")))
    assert "8 of 26 rows lose winners or can" in said


def test_much_is_scanned_when_it_is_asked_for(page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "AT_ONCE", 1000)
    test = finished(page())
    assert "of scores are to be read. They are scanned when you say so." in texts(test)
    assert not test.dataframe or "file" not in test.dataframe[0].value.columns or "why" in test.dataframe[0].value
    assert "2 of 8 rows lose winners or can" in texts(finished(press(test, "Scan")))


def test_several_folders_are_scanned_together_or_each(page: Open, where: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make_capture(other / "third.safetensors", seed=5)
    test = finished(page(where, other))
    assert params(test) == {"scan": scans.EVERYTHING}
    assert "3 of 11 rows lose winners or can" in texts(test)
    assert link(test)[0].startswith("Inspect row 1 of ")
    test = finished(page(where, other, scan="other"))
    assert "1 of 3 rows loses winners or can" in texts(test)
    assert link(test)[1]["capture"] == "other/third.safetensors"


def test_nothing_there_and_nothing_left_are_told(page: Open, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "There is no capture and no dump below what was given." in texts(finished(page(empty)))
    gone = tmp_path / "gone"
    assert not page(gone, tmp_path / "gone-too").exception  # the samples are offered then
    st.cache_resource.clear()


def test_samples_are_scanned_where_nothing_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py"])
    assert list(scans.places()) == ["samples"]
    assert scans.reach().startswith("The app reads no folder, the samples and what is uploaded")


def test_links_that_lead_away_are_told_in_the_list_of_captures(where: Path) -> None:
    (where / "deep" / "up").symlink_to(where.parent)
    _library.clear()
    from workbench.ui.library import list_captures

    (note,) = list_captures([str(where)]).notes
    assert note == "dumps: 2 links lead out of this folder, not followed: link.safetensors and deep/up"


def test_what_a_scan_found_is_taken_away(page: Open, files: dict[str, Any]) -> None:
    test = finished(page())
    worst = taken(files, "dumps-scan-worst-rows")
    assert {(line["file"], line["row"]) for line in worst} == {
        ("bad-row.safetensors", 1),
        ("deep/more.safetensors", 1),
    }
    assert "dumps-scan-paths.csv" in files
    assert saved_names(test) == ["dumps-scan-paths"]
