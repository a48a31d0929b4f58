"""An export in memory holds what a folder would get, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path

import pytest
import torch

import workbench as wb
from tests.export.conftest import row
from workbench.capture import Row
from workbench.errors import CaptureError, UsageError
from workbench.export import writing
from workbench.export.packed import export_packed
from workbench.export.writing import STYLES
from workbench.runs.case import Case


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


@pytest.mark.parametrize("style", [style for style in STYLES if style != "sglang"])
def test_the_files_are_those_of_a_folder(style: str, broken: Row, tmp_path: Path, scratch: Path) -> None:
    made = export_packed(Case(broken), style=style)
    done = wb.export(broken, to=tmp_path / "folder", style=style)
    names = [file.relative_to(tmp_path / "folder").as_posix() for file in done.files]
    assert list(made.contents) == names
    assert [file.as_posix() for file in made.exported.files] == names
    assert [made.contents[name] for name in names] == [file.read_bytes() for file in done.files]
    assert (made.exported.proved, made.exported.repeats) == (done.proved, done.repeats)
    assert made.exported.run == ("" if style == "flashinfer-trace" else f"python -m pytest {names[1]}")
    assert list(scratch.iterdir()) == []


def test_the_zip_file_holds_them_and_no_date(broken: Row) -> None:
    made = export_packed(Case(broken), style="flashinfer-trace")
    content = made.zipped()
    assert content == export_packed(Case(broken), style="flashinfer-trace").zipped()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert {info.filename: archive.read(info) for info in archive.infolist()} == made.contents
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644}


def test_what_a_folder_is_refused_is_refused(scratch: Path) -> None:
    with pytest.raises(UsageError, match="nothing for a test to catch"):
        export_packed(Case(row(torch.randn(20_000) * 100)), style="pytest")
    with pytest.raises(UsageError, match="unknown style"):
        export_packed(Case(row(torch.zeros(20_000))), style="nose")
    assert list(scratch.iterdir()) == []


def test_a_disk_without_room_is_one_line_without_a_place(
    broken: Row, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_fixture", full)
        with pytest.raises(CaptureError) as caught:
            export_packed(Case(broken), style="pytest")
    assert str(caught.value) == "the temporary folder: cannot be written: No space left on device"
    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(CaptureError, match=r"^the temporary folder: cannot be written or read back: No space left"):
        export_packed(Case(broken), style="pytest")
    assert list(scratch.iterdir()) == []
