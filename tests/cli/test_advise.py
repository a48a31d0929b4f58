"""``workbench advise``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

import workbench as wb
from tests.audit.making import FAULTS, befall
from workbench.capture import Row, write_capture
from workbench.cli.folders import Below
from workbench.runs.advise_words import advice_sentence
from workbench.runs.remedy import KINDS, STATES

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def test_the_sentence_comes_first_then_tables_of_at_most_100_columns(cli: Cli, captures: Path) -> None:
    result = cli("advise", captures / "mixed.safetensors")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1 of 3 rows can lose winners on vllm.persistent_topk, vllm==0.26.0, h200.")
    assert max(map(len, lines)) <= 100
    assert any(line.split()[:2] == ["1", "vllm==0.33.0"] for line in lines)
    assert "does not help" in result.stdout
    assert "1. vllm==0.33.0: keeps every winner (3 of 3 rows). Install vllm==0.33.0." in result.stdout


def test_json_holds_every_remedy(cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("advise", captures / "mixed.safetensors")
    with wb.open(captures / "mixed.safetensors") as capture:
        advice = wb.advise(capture)
    assert code == 1
    assert document["sentence"] == advice_sentence(advice)
    assert document["at_risk"] is True
    (part,) = document["parts"]
    assert [one["what"] for one in part["remedies"]] == [one.what for one in advice.remedies]
    assert all(one["kind"] in KINDS and one["state"] in STATES for one in part["remedies"])
    assert all(sum(one["rows"].values()) == 3 for one in part["remedies"])


def test_rows_that_keep_their_winners_give_0_and_what_would_spoil_it(cli: Cli, captures: Path) -> None:
    result = cli("advise", captures / "mixed.safetensors", "--release", "vllm==0.33.0")
    assert result.exit_code == 0
    assert result.stdout.startswith("None of the 3 rows can lose a winner")
    assert "would not keep every winner" in result.stdout
    assert "vllm==0.20.2 to 0.32.0" in result.stdout


def test_a_row_is_chosen_and_options_stand_over_the_capture(cli_json: CliJson, captures: Path) -> None:
    assert cli_json("advise", captures / "mixed.safetensors", "--row", 0)[1]["rows"] == 1
    code, document = cli_json(
        *("advise", captures / "mixed.safetensors", "--op", "vllm.sparse_indexer_topk", "--release", "vllm==0.32.0"),
        *("--backend", "persistent", "--rows", 8),
    )
    assert code == 1
    assert document["parts"][0]["op"] == "vllm.sparse_indexer_topk"
    assert any("rows is 8 as given" in note for note in document["notes"])
    assert "--sparse-indexer-topk-backend per_row" in [one["what"] for one in document["parts"][0]["remedies"]]


def test_a_folder_is_read_to_its_depth_and_what_cannot_be_is_told(
    cli: Cli, cli_json: CliJson, captures: Path, tmp_path: Path
) -> None:
    deep = tmp_path / "dumps" / "rank0"
    deep.mkdir(parents=True)
    shutil.copy(captures / "mixed.safetensors", deep / "a.safetensors")
    shutil.copy(captures / "mixed.safetensors", tmp_path / "dumps" / "b.safetensors")
    code, document = cli_json("advise", tmp_path / "dumps")
    assert (code, document["rows"]) == (1, 6)
    (tmp_path / "dumps" / "bad.safetensors").write_bytes(b"no tensors")
    result = cli("advise", tmp_path / "dumps")
    assert result.exit_code == 2
    assert "2 of 6 rows can lose winners" in result.stdout
    assert "bad.safetensors" in result.stderr
    assert "1 file could not be read to the end" in result.stderr


@pytest.mark.usefixtures("permissions_hold")
@pytest.mark.parametrize("left", [True, False])
def test_what_befalls_files_of_a_folder_once_they_are_listed_costs_no_others(
    cli: Cli, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    for name in (*FAULTS, *["whole"] * left):
        shutil.copy(captures / "mixed.safetensors", tmp_path / f"{name}.safetensors")
    before = Below.captures

    def then(self: Below) -> Any:
        befall(tmp_path)
        yield from before(self)

    monkeypatch.setattr(Below, "captures", then)
    result = cli("advise", tmp_path)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == len(FAULTS) + 1
    assert all(any(f"{name}.safetensors" in line and said in line for line in lines) for name, said in FAULTS.items())
    assert f"{len(FAULTS)} files could not be read to the end" in lines[-1]
    said = " ".join(result.stdout.split())
    assert f"{'3 rows of 1 file' if left else '0 rows of 0 files'} below {tmp_path}" in said
    assert ("There is no row to advise on" in said) != left


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--row", "9"], "there is no row 9"),
        (["--op", "vllm.nothing"], "unknown op"),
        (["--release", "vllm==9.9"], "was not observed"),
        (["--device", "abacus"], "unknown device"),
        (["--backend", "per_row"], "does not depend on backend"),
        (["--k", "0"], "is no integer"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, captures: Path, more: list[str], said: str) -> None:
    result = cli("advise", captures / "mixed.safetensors", *more)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_folders_are_not_asked_for_a_row_and_empty_ones_hold_nothing(cli: Cli, captures: Path, tmp_path: Path) -> None:
    assert "--row chooses a row of one capture" in cli("advise", captures, "--row", 0).stderr
    result = cli("advise", tmp_path)
    assert result.exit_code == 2
    assert "holds no capture and no dump" in result.stderr
    missing = cli("advise", tmp_path / "none.safetensors")
    assert missing.exit_code == 2
    assert "no such file" in missing.stderr


def test_refused_rows_are_nothing_judged(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    asked = ("advise", captures / "mixed.safetensors", "--op", "sglang.kpool_topk_transform")
    result = cli(*asked, "--release", "sglang==0.5.23")
    assert result.exit_code == 2
    assert "nothing was judged" in result.stderr
    code, document = cli_json(*asked, "--release", "sglang==0.5.23")
    assert (code, document["parts"][0]["now"]["refused"]) == (2, 3)


def test_without_an_op_the_ops_are_those_of_the_engine_whose_release_is_known(cli: Cli, captures: Path) -> None:
    asked = ("advise", captures / "anonymous.safetensors", "--row", 1)
    said = " ".join(cli(*asked).stdout.split())
    assert "sglang.topk_transform_paged_v2" in said
    assert "the op is not known, so ops of every engine are listed" in said
    assert "to tell more, give the op, as vllm.persistent_topk (--op)" in said
    said = " ".join(cli(*asked, "--release", "vllm==0.26.0").stdout.split())
    assert "vllm.top_k_per_row_decode" in said
    assert "sglang." not in said
    assert "so ops of that engine are listed" in said


def test_a_row_of_a_folder_without_k_is_named_once(cli: Cli, tmp_path: Path) -> None:
    write_capture(tmp_path / "no-k.safetensors", [Row(torch.zeros(9), 9)])
    result = cli("advise", tmp_path)
    first, *_ = result.stderr.splitlines()
    assert first.startswith(f"workbench: {tmp_path}/no-k.safetensors: row 0: the capture does not say k")
    assert result.stderr.count("no-k.safetensors") == 1
    assert result.exit_code == 2
