"""``workbench run``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from typer.testing import Result

from tests.cli.conftest import strict
from workbench.capture import open_capture
from workbench.runs.report import COLUMNS, Report
from workbench.runs.run import run as run_paths

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def test_counts_verdicts_by_path_and_shows_the_worst(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "mixed.safetensors")
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("vllm.histogram_256")]
    path, variant, engine, exact, ties, lossy, invalid, refused, missing, safe, at_risk, certain = rows[0]
    assert (path, variant, engine) == ("vllm.histogram_256", "stock", "model")
    assert (exact, ties, lossy, invalid, refused) == ("1", "0", "1", "0", "0")
    assert (safe, at_risk, certain) == ("1", "1", "0")
    assert int(missing) > 0
    worst = [line.split() for line in result.stdout.splitlines() if line.startswith("  1 ")]
    assert worst[0][1] == "vllm.histogram_256"
    assert missing in worst[0]


@pytest.mark.parametrize("spelled", ["vllm==0.26", "VLLM==v0.26.0"])
def test_a_release_without_its_patch_number_is_the_same_one(cli_json: CliJson, captures: Path, spelled: str) -> None:
    code, document = cli_json("run", captures / "mixed.safetensors", "--release", spelled)
    assert code == 1
    assert {line["release"] for line in document} == {"vllm==0.26.0"}
    assert document == cli_json("run", captures / "mixed.safetensors", "--release", "vllm==0.26.0")[1]


@pytest.mark.parametrize(("engine", "said"), [("vendor", "The risk is that of the op's path, by the analysis.")])
def test_where_all_is_refused_the_risk_still_stands(cli: Cli, captures: Path, engine: str, said: str) -> None:
    result = cli("run", captures / "broken.safetensors", "--engine", engine)
    if result.exit_code != 2:
        pytest.skip("a released op can run here")
    assert said in " ".join(result.stdout.split())
    assert "Nothing is known to be at risk" not in result.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("run", "--engine", "cuda"),
        ("shrink", "--row", 1),
        ("what-if", "--row", 1),
        ("export", "--row", 1, "--to", "never"),
    ],
)
def test_where_the_device_is_missing_its_option_is_named(cli: Cli, captures: Path, command: tuple[object, ...]) -> None:
    name, *options = command
    known = ("--op", "vllm.persistent_topk", "--release", "vllm==0.26.0")
    result = cli(name, captures / "anonymous.safetensors", *options, *known)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "device not known; give it (--device), or " in result.stderr
    result = cli(name, captures / "anonymous.safetensors", *options)
    assert "op, release and device not known; give them (--op, --release and --device), or " in result.stderr


def test_json_is_the_records_of_the_report(cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("run", captures / "mixed.safetensors", "--seed", 5)
    with open_capture(captures / "mixed.safetensors") as capture:
        expected = run_paths(capture, seed=5).to_records()
    assert code == 1
    assert document == json.loads(json.dumps(expected))
    assert list(document[0]) == list(COLUMNS)


def test_arrival_by_position(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    orders = [
        [
            line["missing"]
            for line in cli_json("run", captures / "mixed.safetensors", "--arrival", order, "--seed", seed)[1]
        ]
        for order in ("index", "reverse")
        for seed in (0, 1)
    ]
    assert orders[0] == orders[1] != orders[2] == orders[3]
    shown = cli_json("inspect", captures / "mixed.safetensors", "--row", 1, "--arrival", "index")[1]
    assert shown["rows"][0]["worst"]["missing"] == orders[0][1]
    wrong = cli("run", captures / "mixed.safetensors", "--arrival", "warp")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "known orders: random, index, reverse and walk" in wrong.stderr


def test_arrival_by_walk(cli_json: CliJson, captures: Path) -> None:
    file = captures / "mixed.safetensors"

    def lost(*options: object) -> list[int]:
        return [line["missing"] for line in cli_json("run", file, "--row", 1, "--repeats", 8, *options)[1]]

    walk = lost("--arrival", "walk")
    assert walk == lost("--arrival", "walk", "--seed", 0) != lost("--arrival", "walk", "--seed", 1)
    assert walk != lost()
    shown = cli_json("inspect", file, "--row", 1, "--arrival", "walk")[1]
    assert shown["rows"][0]["worst"]["missing"] == walk[0]


def test_exit_code_follows_what_is_lost(cli: Cli, captures: Path) -> None:
    assert cli("run", captures / "healthy.safetensors").exit_code == 0
    assert cli("run", captures / "tied.safetensors").exit_code == 0
    assert cli("run", captures / "unlucky.safetensors").exit_code == 1
    assert cli("run", captures / "broken.safetensors", "--paths", "vllm.filtered").exit_code == 0


def test_reached_needs_an_op(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "anonymous.safetensors")
    assert result.exit_code == 2
    assert "known" in result.stderr
    assert result.stdout == ""


def test_every_path_repeat_and_refusal_is_a_line(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    args = ("run", captures / "anonymous.safetensors", "--paths", "vllm.*", "--repeats", 3, "--row", "0-1")
    code, document = cli_json(*args)
    assert code == 1
    assert len(document) == 2 * 3 * len({line["path"] for line in document})
    assert {line["repeat"] for line in document} == {0, 1, 2}
    missing = [line["missing"] for line in document if line["path"] == "vllm.histogram_256" and line["row"] == 1]
    assert len(set(missing)) > 1
    text = cli(*args).stdout
    assert re.search("^vllm.radix +0-1 +length 20000 is not above 32768$", text, re.MULTILINE)
    refused = sum(line["refused"] is not None for line in document)
    assert f"{refused} of {len(document)} lines were refused: nothing ran there.\n\n" in text


def test_what_most_lines_were_refused_for_is_shown(cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU that is why, whatever the first path does not take."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = cli("run", captures / "anonymous.safetensors", "--paths", "vllm.*", "--row", "0-1", "--engine", "cuda")
    text = " ".join(result.stdout.split())
    assert re.search(r"All \d+ lines were refused", text)
    assert "no CUDA device is visible to torch" in text
    assert "--engine model answers without a GPU (row 0; others differ)" in text
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_the_worst_lines_are_ten_at_most_and_say_of_how_many(cli: Cli, captures: Path) -> None:
    text = cli("run", captures / "broken.safetensors", "--repeats", 12).stdout
    assert "Worst 10 of 12 lines" in text
    assert max(map(len, text.splitlines())) <= 100


def test_where_every_line_is_refused_it_is_said(cli: Cli, captures: Path) -> None:
    file = captures / "healthy.safetensors"
    for rows, said in (((), "All 2 lines were refused"), (("--row", 0), "The only line was refused")):
        result = cli("run", file, "--engine", "recorded", *rows)
        assert result.exit_code == 0
        assert f"{said}: nothing ran there." in result.stdout
        assert "No line is lossy" not in result.stdout
    text = cli("run", captures / "broken.safetensors", "--paths", "vllm.[fr]*").stdout
    assert "1 of 2 lines was refused: nothing ran there.\nNo line is lossy, invalid or at risk.\n" in text
    assert "refused:" not in cli("run", file).stdout


def test_rows_whose_mean_is_unreliable_are_named(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "ordered.safetensors", "--repeats", 2)
    assert "Expected missing is unreliable in row 0: " in result.stdout
    assert "unreliable" not in cli("run", captures / "mixed.safetensors").stdout


def test_every_path_that_the_op_could_take(cli_json: CliJson, captures: Path) -> None:
    args = ("--paths", "possible", "--op", "sglang.topk_transform_ragged_v2", "--row", 0)
    _, document = cli_json("run", captures / "anonymous.safetensors", *args)
    assert {line["path"] for line in document} == {"sglang.v2_streaming"}


def test_recorded_engine_without_a_record_is_refused(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "broken.safetensors", "--engine", "recorded")
    assert "the capture holds no recorded selection" in result.stdout


@pytest.mark.parametrize(
    ("args", "known"),
    [
        (("--engine", "nope"), "model"),
        (("--paths", "nope"), "vllm.filtered"),
        (("--variants", "nope"), "stock"),
        (("--repeats", 0), "--repeats"),
        (("--op", "nope"), "vllm.persistent_topk"),
    ],
)
def test_wrong_names_and_numbers_are_errors(cli: Cli, captures: Path, args: tuple[object, ...], known: str) -> None:
    result = cli("run", captures / "broken.safetensors", *args)
    assert result.exit_code == 2
    assert known in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_output_holds_every_line(cli: Cli, captures: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"report.{suffix}"
    result = cli("run", captures / "mixed.safetensors", "--output", target)
    assert result.exit_code == 1
    assert "3 lines written to" in result.stdout
    if suffix == "json":
        verdicts = [line["verdict"] for line in strict(target.read_text())]
    else:
        frame = pd.read_csv(target) if suffix == "csv" else pd.read_parquet(target)
        assert list(frame.columns) == list(COLUMNS)
        verdicts = list(frame["verdict"])
    assert verdicts == ["exact", "lossy", "exact"]
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_output_beside_json_leaves_stdout_a_document(cli_json: CliJson, captures: Path, tmp_path: Path) -> None:
    code, document = cli_json("run", captures / "healthy.safetensors", "--output", tmp_path / "r.json")
    assert code == 0
    assert document == strict((tmp_path / "r.json").read_text())


def test_output_replaces_a_file_only_when_forced(cli: Cli, captures: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.csv"
    target.write_text("mine")
    args = ("run", captures / "healthy.safetensors", "--output", target)
    refused = cli(*args)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert target.read_text() == "mine"
    assert cli(*args, "--force").exit_code == 0
    assert len(pd.read_csv(target)) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("report.xlsx", ".csv, .parquet, .json"),
        ("report", ".csv, .parquet, .json"),
        ("absent/report.csv", "folder does not exist"),
        ("folder.csv", "folder"),
        ("folder.csv/", "folder"),
        ("report.csv/", "folder"),
        ("report.csv/.", "folder"),
        ("nowhere.csv", "leads nowhere"),
        ("circle.csv", "leads nowhere"),
        ("pipe.csv", "no regular file"),
        ("to a pipe.csv", "no regular file"),
        ("nul\0.csv", "not a path"),
    ],
)
def test_output_that_cannot_be_is_refused_before_anything_runs(
    cli: Cli, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for link, target in (("nowhere", "absent"), ("circle", "circle"), ("to a pipe", "pipe")):
        (tmp_path / f"{link}.csv").symlink_to(f"{target}.csv")
    before = {path.name: path.lstat().st_ino for path in tmp_path.iterdir()}
    monkeypatch.setattr("workbench.runs.run.run", None)
    for force in ((), ("--force",)):
        result = cli("run", captures / "broken.safetensors", "--output", f"{tmp_path}/{name}", *force)
        assert result.exit_code == 2
        assert said in result.stderr
    assert {path.name: path.lstat().st_ino for path in tmp_path.iterdir()} == before


def test_an_empty_output_is_refused(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "broken.safetensors", "--output", "")
    assert result.exit_code == 2
    assert "--output is empty" in result.stderr


def test_output_through_a_link_replaces_the_file_it_leads_to(cli: Cli, captures: Path, tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to("real.csv")
    args = ("run", captures / "healthy.safetensors", "--output", tmp_path / "link.csv")
    assert cli(*args).exit_code == 2
    assert cli(*args, "--force").exit_code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert len(pd.read_csv(tmp_path / "real.csv")) == 2


def test_a_pipe_that_appears_while_it_runs_is_not_replaced(
    cli: Cli, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.csv"
    monkeypatch.setattr(Report, "to_pandas", lambda report: (os.mkfifo(target), pd.DataFrame())[1])
    result = cli("run", captures / "healthy.safetensors", "--output", target, "--force")
    assert result.exit_code == 2
    assert "no regular file" in result.stderr
    assert target.is_fifo()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
def test_a_file_name_that_is_no_text_is_no_obstacle(cli: Cli, captures: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / os.fsdecode(b"half \xff.safetensors")
    file.write_bytes((captures / "healthy.safetensors").read_bytes())
    target = tmp_path / os.fsdecode(b"report \xff." + suffix.encode())
    assert cli("run", file, "--output", target).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {file.name, target.name}


def test_text_that_utf8_cannot_hold_is_one_line(
    cli: Cli, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Report, "to_pandas", lambda _: pd.DataFrame({"op": ["\udcff"]}))
    for suffix in ("csv", "parquet"):
        result = cli("run", captures / "healthy.safetensors", "--output", tmp_path / f"report.{suffix}")
        assert result.exit_code == 2
        assert ".json can hold any name" in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_name_of_the_greatest_length_can_be_written(cli: Cli, captures: Path, tmp_path: Path) -> None:
    target = tmp_path / ("日" * 83 + "ab.csv")
    assert cli("run", captures / "healthy.safetensors", "--output", target).exit_code == 0
    assert target.is_file()


def test_output_that_fails_midway_leaves_nothing(
    cli: Cli, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def to_csv(self, path: Path, index: bool) -> None:
            path.write_text("half")
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Report, "to_pandas", lambda _: Failing())
    result = cli("run", captures / "healthy.safetensors", "--output", tmp_path / "report.csv")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert list(tmp_path.iterdir()) == []
