"""``workbench run`` on several releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from typer.testing import Result

import workbench as wb
from tests.cli.conftest import KNOWN, neighbours
from tests.fakes import Releases, clean, faults, loses
from workbench.vendor.release import parse_wheel

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]
VLLM = "vllm==0.20.2..0.33.0"


def width(result: Result) -> int:
    return max(map(len, result.stdout.splitlines()))


def test_one_row_stands_with_its_numbers_release_by_release(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "broken.safetensors", "--release", VLLM, "--repeats", 10)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert text.startswith(
        "Row 0 loses winners in every release from vllm==0.20.2 to 0.32.0 and not in 0.33.0, 10 calls each by the "
        "model."
    )
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("vllm==")]
    assert [row[0] for row in rows] == [f"vllm=={version}" for version in wb_versions()]
    assert rows[0][1:6] == ["vllm.histogram_256", "lossy", "10", "of", "10"]
    assert rows[-1][1:] == ["vllm.histogram_256", "(v0.33.0)", "–", "–", "–", "–", "safe", "1"]
    assert width(result) <= 100


def wb_versions() -> tuple[str, ...]:
    from workbench.paths.releases import OBSERVED

    return OBSERVED["vllm"]


def test_few_rows_stand_side_by_side_and_each_has_a_sentence(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "mixed.safetensors", "--release", VLLM)
    assert result.exit_code == 1
    assert (
        "1 of 3 rows loses winners in some release from vllm==0.20.2 to 0.33.0, 1 call each by the model: row 1. "
        in (" ".join(result.stdout.split()))
    )
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("vllm==0.26.0")]
    assert line.split()[1:3] == ["exact", "lossy,"]
    assert "  Row 1 loses winners in every release" in result.stdout
    assert width(result) <= 100


def test_many_rows_stand_below_one_another_the_worst_first(cli: Cli, tmp_path: Path) -> None:
    rows = [
        wb.Row(
            neighbours(4200 if at == 17 else 4000 + 3 * at, 6000), 6000, call=wb.Call(**vars(KNOWN) | {"width": 6000})
        )
        for at in range(30)
    ]
    file = tmp_path / "many.safetensors"
    wb.write(file, [wb.Row(row.scores, 6000, call=row.call) for row in rows])
    result = cli("run", file, "--release", VLLM)
    assert "worst 20 of 30 rows" in result.stdout
    assert width(result) <= 100
    heads = [line.split() for line in result.stdout.splitlines() if line.startswith("row ")]
    assert [name for head in heads for name in head[2:]] == list(wb_versions())
    first = [line.split() for line in result.stdout.splitlines() if line.startswith(" 17 ")]
    assert first
    assert "lossy," in first[0]


def test_clean_releases_give_0_and_only_those(cli: Cli, captures: Path) -> None:
    assert cli("run", captures / "broken.safetensors", "--release", "vllm==0.33.0,vllm==0.33.0").exit_code == 0
    assert cli("run", captures / "healthy.safetensors", "--release", VLLM).exit_code == 0
    assert cli("run", captures / "unlucky.safetensors", "--release", VLLM).exit_code == 1


def test_json_is_the_matrix_with_its_sentence(cli_json: CliJson, captures: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    code, document = cli_json(
        "run", captures / "mixed.safetensors", "--release", VLLM, "--repeats", 2, "--output", file
    )
    assert code == 1
    assert document["loses"] is True
    assert document["sentence"].startswith("1 of 3 rows loses winners")
    assert document["matrix"] == json.loads(file.read_text())
    found = wb.read_matrix(file)
    with wb.open(captures / "mixed.safetensors") as capture:
        assert found.cells == wb.matrix(capture, VLLM, repeats=2).cells


def test_lines_are_written_one_a_row_and_release(cli: Cli, captures: Path, tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        file = tmp_path / f"m{suffix}"
        result = cli("run", captures / "mixed.safetensors", "--release", VLLM, "--output", file)
        assert f"39 lines are written to {file}" in " ".join(result.stdout.split()).replace("- ", "-")
        frame = pd.read_csv(file) if suffix == ".csv" else pd.read_parquet(file)
        assert len(frame) == 39
        assert frame.loc[frame["row"] == 1, "verdict"].iloc[0] == "lossy"
    again = cli("run", captures / "mixed.safetensors", "--release", VLLM, "--output", tmp_path / "m.csv")
    assert again.exit_code == 2
    assert "give --force" in again.stderr


def test_releases_without_the_op_stand_there_with_their_reason(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "broken.safetensors", "--release", VLLM, "--op", "vllm.cooperative_topk")
    assert "refused     vllm==0.20.2 to 0.23.0  0     the release has no cooperative_topk" in result.stdout
    assert result.exit_code == 1


def test_ops_of_several_packages(cli: Cli, captures: Path) -> None:
    result = cli(
        "run",
        captures / "broken.safetensors",
        *("--release", "vllm==0.32.0,sglang-kernel==0.4.2..0.4.6"),
        *("--op", "vllm.persistent_topk", "--op", "sglang.fast_topk_v2"),
    )
    assert result.exit_code == 1
    shown = [line.split()[0] for line in result.stdout.splitlines() if "==" in line.split(" ")[0]]
    assert shown == ["vllm==0.32.0", "sglang-kernel==0.4.2", "sglang-kernel==0.4.4", "sglang-kernel==0.4.6"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--release", "vllm==0.33.0..0.20.2"), "runs backwards; write vllm==0.20.2..0.33.0"),
        (("--release", "vllm==0.40.0..0.41.0"), "was observed, so no routing is known"),
        (("--release", VLLM, "--paths", "vllm.*"), "leave out --paths"),
        (("--release", VLLM, "--engine", "recorded"), "by the engine model or vendor, not by 'recorded'"),
        (("--release", VLLM, "--engine", "model,recorded"), "compared by one engine"),
        (("--release", VLLM, "--op", "no.such"), "unknown op"),
        (("--release", VLLM, "--op", "my:f"), "my:f: a callable is of no release, so that there is nothing to compare"),
        (("--release", VLLM, "--device", "h2000"), "unknown device"),
        (("--release", VLLM, "--arrival", "warp"), "unknown arrival order"),
        (("--release", VLLM, "--output", "m.txt"), "end its name in one of them"),
    ],
)
def test_bad_asks_are_answered_in_one_line(cli: Cli, captures: Path, options: tuple[str, ...], said: str) -> None:
    result = cli("run", captures / "broken.safetensors", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_where_nothing_was_judged_it_is_said(cli: Cli, captures: Path) -> None:
    result = cli("run", captures / "anonymous.safetensors", "--release", VLLM)
    assert result.exit_code == 2
    assert "the op is not known; give it, as --op vllm.persistent_topk" in result.stdout
    assert "nothing was judged" in result.stderr
    result = cli("run", captures / "anonymous.safetensors", "--release", VLLM, "--op", "vllm.persistent_topk")
    assert result.exit_code == 2
    assert "device not known; give it (--device)" in " ".join(result.stdout.split())


def test_faults_of_engines_are_shown_with_their_text(cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Releases({"0.26.0": loses(5), "0.27.1": faults("an illegal memory access"), "0.28.0": clean})
    monkeypatch.setattr("workbench.runs.judges.vendor_engine", fake)
    monkeypatch.setattr("workbench.runs.releases.stored", lambda package: list(map(parse_wheel, fake.names)))
    result = cli(
        *("run", captures / "broken.safetensors", "--engine", "vendor"),
        *("--release", "vllm==0.26.0..0.28.0", "--repeats", 10),
    )
    assert result.exit_code == 1
    assert "Row 0 loses winners in vllm==0.26.0 and can lose winners in" not in result.stdout
    assert "fault       vllm==0.27.1  0     an illegal memory access" in result.stdout
    assert "gpu fake" in result.stdout
    assert torch.get_num_threads() >= 1
