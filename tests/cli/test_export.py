"""``workbench export``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

from workbench.export.fixture import read_fixture

Cli = Callable[..., Result]
Json = Callable[..., tuple[int, Any]]


def test_it_says_what_was_written_and_how_to_run_it(captures: Path, cli: Cli, tmp_path: Path) -> None:
    done = cli("export", captures / "broken.safetensors", "--to", tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")
    (fixture,) = tmp_path.glob("*.safetensors")
    (test,) = tmp_path.glob("test_*.py")
    said = " ".join(done.stdout.split())
    assert said.startswith("Wrote 2 files.")
    assert fixture.name in done.stdout
    assert f"python -m pytest {test}" in said
    assert "fails on the model of vllm.histogram_256 (stock)" in said
    assert all(len(line) <= 100 or str(tmp_path) in line for line in done.stdout.splitlines())
    again = cli("export", captures / "broken.safetensors", "--to", tmp_path)
    assert (again.exit_code, "Nothing to write" in again.stdout) == (0, True)


def test_json(captures: Path, cli_json: Json, tmp_path: Path) -> None:
    code, said = cli_json("export", captures / "mixed.safetensors", "--row", 1, "--to", tmp_path, "--name", "mine")
    assert code == 0
    assert said["command"] == "export"
    assert (said["row"], said["path"], said["risk"], said["repeats"]) == (1, "vllm.histogram_256", "at risk", 1)
    assert said["files"] == [str(tmp_path / "mine.safetensors"), str(tmp_path / "test_mine.py")]
    assert read_fixture(said["files"][0]).missing == said["missing"] > 0


def test_inspect_run_and_export_count_the_same_loss(captures: Path, cli: Cli, cli_json: Json, tmp_path: Path) -> None:
    """All begin with one arrival order, which the figures of a row are of; the generated test says what others lose."""
    asked = (captures / "mixed.safetensors", "--row", 1)
    _, inspected = cli_json("inspect", *asked)
    _, ran = cli_json("run", *asked)
    _, exported = cli_json("export", *asked, "--to", tmp_path)
    missing = inspected["rows"][0]["worst"]["missing"]
    assert (missing, missing) == (ran[0]["missing"], exported["missing"])
    span = re.search(r"\(a random one loses [\d.]+ on average, any one 0 to \d+\)", inspected["rows"][0]["sentence"])
    assert span is not None
    assert exported["orders"] == f"in one arrival order, random, seed 0 {span[0]}"
    (test,) = tmp_path.glob("test_*.py")
    assert f"{missing} of 2048 {exported['orders']}." in " ".join(test.read_text().split())


def test_one_row_is_exported(captures: Path, cli: Cli, tmp_path: Path) -> None:
    for rows in ([], ["--row", "0-1"]):
        done = cli("export", captures / "mixed.safetensors", "--to", tmp_path / "out", *rows)
        assert done.exit_code == 2
        assert "one row is exported at a time" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_caught_is_refused(captures: Path, cli: Cli, tmp_path: Path) -> None:
    for name, words in (
        ("healthy", "nothing for a test to catch"),
        ("tied", "with equal scores only"),
        ("unlucky", "shrink the row first (workbench shrink)"),
        ("anonymous", "name the path (--path"),
        ("damaged", "damaged"),
        ("none", "no such file"),
    ):
        done = cli("export", captures / f"{name}.safetensors", "--row", 0, "--to", tmp_path / "out")
        assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_what_the_capture_does_not_say_can_be_given(captures: Path, cli: Cli, tmp_path: Path) -> None:
    call = ["--op", "vllm.persistent_topk", "--release", "vllm==0.26.0", "--device", "h200"]
    given = ["--rows", 1, "--stride", 20_000, "--max-seq-len", 20_000]
    done = cli(
        "export", captures / "anonymous.safetensors", "--row", 1, *call, *given, "--to", tmp_path, "--style", "vllm"
    )
    assert done.exit_code == 0, done.stderr
    (fixture,) = tmp_path.glob("*.safetensors")
    held = read_fixture(fixture)
    assert (held.path, held.row.call.release, held.row.call.stride) == ("vllm.histogram_256", "vllm==0.26.0", 20_000)
    assert "STRIDE, START = 20000, 20000, 0" in next(tmp_path.glob("*.py")).read_text()


def test_a_foreign_file(captures: Path, cli: Cli, tmp_path: Path) -> None:
    named = ["--scores", "layer.0.logits", "--lengths", "layer.0.lens", "--k", 2048]
    file = captures / "foreign.safetensors"
    done = cli("export", file, *named, "--row", 1, "--path", "sglang.fast_topk", "--to", tmp_path, "--source", "a dump")
    assert done.exit_code == 0, done.stderr
    (fixture,) = tmp_path.glob("sglang.fast_topk-k2048-n20000-*.safetensors")
    assert b'\\"source\\": \\"a dump\\"' in fixture.read_bytes()


def test_files_that_are_there_are_kept(captures: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("mine")
    command = ["export", captures / "broken.safetensors", "--to", tmp_path, "--name", "a"]
    done = cli(*command)
    assert (done.exit_code, "--force" in done.stderr) == (2, True)
    assert [file.name for file in tmp_path.iterdir()] == ["test_a.py"]
    assert cli(*command, "--force").exit_code == 0
    assert "def test_a():" in (tmp_path / "test_a.py").read_text()


def test_to_is_needed(captures: Path, cli: Cli) -> None:
    done = cli("export", captures / "broken.safetensors")
    assert (done.exit_code, "--to" in done.stderr) == (2, True)
