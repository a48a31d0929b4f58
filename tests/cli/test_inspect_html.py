"""``workbench inspect --html``: one row as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.ui.conftest import make_capture

Run = Callable[..., Result]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    folder = tmp_path / "private folder"
    folder.mkdir()
    return make_capture(folder / "bad-row.safetensors")


def test_a_row_is_written_as_a_page_and_said(cli: Run, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "row.html"
    result = cli(
        "inspect", capture, "--row", "1", "--release", "vllm==0.23.0", "--max-seq-len", "9000", "--html", target
    )
    assert result.exit_code == 1
    assert f"The page is written to {target}" in " ".join(result.stdout.split())
    text = target.read_text()
    assert "<h1>bad-row.safetensors, row 1</h1>" in text
    look = "workbench inspect bad-row.safetensors --row 1 --release vllm==0.23.0 --max-seq-len 9000"
    assert look.replace("==", "==") in text
    assert "private folder" not in text
    assert str(tmp_path) not in text
    assert "sha256:" in text


def test_a_page_of_nothing_bad_leaves_the_exit_code_alone(cli: Run, capture: Path, tmp_path: Path) -> None:
    assert cli("inspect", capture, "--row", "0", "--html", tmp_path / "row.html").exit_code == 0


def test_json_stays_one_document(cli_json: Callable[..., tuple[int, Any]], capture: Path, tmp_path: Path) -> None:
    code, said = cli_json("inspect", capture, "--row", "1", "--html", tmp_path / "row.html")
    assert (code, said["inspected"]) == (1, 1)
    assert (tmp_path / "row.html").is_file()
    assert json.dumps(said)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--html", "row.html"), "name one by --row"),
        (("--row", "0-1", "--html", "row.html"), "2 are asked for"),
        (("--row", "0", "--force"), "--force is for --html"),
        (("--row", "0", "--html", ""), "names no file"),
        (("--row", "0", "--html", "no/such/folder.html"), "folder does not exist"),
        (("--row", "7", "--html", "row.html"), "rows 0 to 2"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_runs(
    cli: Run, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("inspect", capture, *arguments)
    assert (result.exit_code, why in result.stderr) == (2, True), result.stderr
    assert result.stdout == ""
    assert [one.name for one in tmp_path.iterdir()] == ["private folder"]


def test_a_file_that_is_there_stays_unless_told(cli: Run, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "row.html"
    target.write_text("mine")
    result = cli("inspect", capture, "--row", "1", "--html", target)
    assert (result.exit_code, "--force" in result.stderr, target.read_text()) == (2, True, "mine")
    assert cli("inspect", capture, "--row", "1", "--html", target, "--force").exit_code == 1
    assert target.read_text().endswith("</html>\n")


@pytest.mark.parametrize("forced", [(), ("--force",)])
def test_the_capture_itself_is_not_written_over(cli: Run, capture: Path, forced: tuple[str, ...]) -> None:
    held = capture.read_bytes()
    result = cli("inspect", capture, "--row", "1", "--html", capture, *forced)
    assert (result.exit_code, capture.read_bytes() == held) == (2, True), result.stderr
