"""``workbench diverge`` and ``workbench repeat`` as a user sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import Result

import workbench as wb
from tests.diverging import Change, lossy, make_row, make_run, one_ulp, other_order, other_tie, unrecorded

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]
AT = (2, 1)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Write a run below the current folder; its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, change: Change | None = None, **options: Any) -> str:
        wb.write(f"{name}.safetensors", make_run(AT, change), **options)
        return f"{name}.safetensors"

    return write


def test_the_sentence_comes_first_and_everything_fits(cli: Cli, runs: Callable[..., str]) -> None:
    result = cli("diverge", runs("a"), runs("b", lossy))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("b.safetensors parts from a.safetensors at step 2, layer 1, row 0: on bit-identical")
    assert max(map(len, lines)) <= 100
    text = " ".join(result.stdout.split())
    for said in (
        "The selector is at fault in b.safetensors",
        "values vary 1 step 2, layer 1, row 0",
        "2 1 0 7 7 values vary exact lossy, 1",
        "a: row 7 of a.safetensors",
        "b is lossy: 1 of 8 missing",
        "1 slot differs, the first is 0; the cut is 1000",
        "Indices that one side alone holds",
    ):
        assert said in text


def test_runs_that_do_not_part(cli: Cli, runs: Callable[..., str]) -> None:
    result = cli("diverge", runs("a"), runs("b"))
    assert result.exit_code == 0
    assert result.stdout.startswith("b.safetensors does not part from a.safetensors: all 12 points are the same.")


@pytest.mark.parametrize(
    ("change", "state"),
    [(one_ulp, "input differs"), (lossy, "values vary"), (other_tie, "ties vary"), (other_order, "order varies")],
)
def test_json_says_where_and_what(cli_json: CliJson, runs: Callable[..., str], change: Change, state: str) -> None:
    tokens = [wb.Token(0, 1, torch.tensor([0.0, 2.0])), wb.Token(1, 1, torch.tensor([1.0, float("nan")]))]
    code, told = cli_json("diverge", runs("a", tokens=tokens), runs("b", change, tokens=tokens))
    assert (code, told["parts"], told["runs"], told["earliest"]) == (1, True, ["a.safetensors", "b.safetensors"], 0)
    (one,) = told["comparisons"]
    assert one["counts"] == {**dict.fromkeys(one["counts"], 0), "same": 11, state: 1}
    (point,) = one["points"]
    assert (point["step"], point["layer"], point["state"]) == (*AT, state)
    assert point["a"] == {"file": "a.safetensors", "row": 7, "call": 7}
    assert (one["first"]["inputs"] is None) == (state != "input differs")
    assert [token["state"] for token in one["tokens"]] == ["same", "same"]
    assert told["finding"] == one["finding"]


def test_tokens_are_told(cli: Cli, runs: Callable[..., str]) -> None:
    tied = torch.tensor([0.0, 5.0, 5.0])
    a = runs("a", tokens=[wb.Token(0, 1, tied), wb.Token(1, 1, tied)])
    b = runs("b", tokens=[wb.Token(0, 1, tied), wb.Token(1, 2, tied)])
    result = cli("diverge", a, b)
    assert result.exit_code == 1
    assert "Tokens: 1 of 2 part" in result.stdout
    assert "the two tie exactly" in " ".join(result.stdout.split())
    close = torch.tensor([0.0, 5.0, 5.5])
    c = runs("c", tokens=[wb.Token(0, 1, tied), wb.Token(1, 2, close)])
    d = runs("d", tokens=[wb.Token(0, 1, close), wb.Token(1, 1, tied)])
    assert "Tokens: 2 of 2 part, 1 of them in the logits alone\n" in cli("diverge", c, d).stdout
    assert "in the logits alone" not in result.stdout
    assert "Tokens: none of 2 parts." in cli("diverge", a, a).stdout


def test_a_length_that_leaves_the_row_is_shown_without_verdicts(
    cli: Cli, cli_json: CliJson, runs: Callable[..., str]
) -> None:
    def reaching(change: Change | None) -> Change:
        return lambda row: replace(row if change is None else change(row), length=row.length + 5)

    a, b = runs("a", reaching(None)), runs("b", reaching(lossy))
    shown = cli("diverge", a, b)
    assert shown.exit_code == 1
    assert all(len(line) <= 100 for line in shown.stdout.splitlines())
    assert " ".join(shown.stdout.split()).count("so neither side is judged") == 2
    assert "missing" not in shown.stdout
    (found,) = cli_json("diverge", a, b)[1]["comparisons"]
    assert (found["points"][0]["outside"], found["points"][0]["judged_a"]) == (True, None)
    assert found["first"]["outside"] == [71, 66]


def test_several_runs_folders_and_ranks(cli: Cli, runs: Callable[..., str]) -> None:
    a, b, c = runs("a"), runs("b", other_order), runs("c")
    result = cli("diverge", a, b, c)
    assert result.exit_code == 1
    assert "Of 2 runs, 1 parts from a.safetensors." in " ".join(result.stdout.split())
    assert "c.safetensors against a.safetensors" in result.stdout
    for folder, change in (("x", None), ("y", lossy)):
        Path(folder).mkdir()
        wb.write(f"{folder}/all.safetensors", make_run(AT, change))
    assert "x/all.safetensors" in cli("diverge", "x", "y").stdout
    for rank, change in ((0, None), (1, other_tie)):
        Path("tp").mkdir(exist_ok=True)
        rows = [row.with_call(rank=rank) for row in make_run(AT, change)]
        wb.write(f"tp/rank{rank}.safetensors", rows)
    ranks = cli("diverge", "tp", "--ranks")
    assert ranks.exit_code == 1
    assert ranks.stdout.startswith("rank 1 parts from rank 0 at step 2, layer 1, row 0")


def test_points_of_one_name_are_told_apart(cli: Cli, runs: Callable[..., str]) -> None:
    """A folder whose files have calls of the same step and layer, and calls of two ops in one layer."""
    for folder, change in (("x", None), ("y", one_ulp)):
        Path(folder).mkdir()
        for name in ("one", "two"):
            wb.write(f"{folder}/{name}.safetensors", [row if change is None else change(row) for row in make_run()])
    shown = cli("diverge", "x", "y", "--points", 100).stdout
    _, _, table = shown.partition("Where they part")
    points = [tuple(line.split()[:4]) for line in table.split("\n\n")[0].splitlines() if line.lstrip()[:1].isdigit()]
    assert len(points) == len(set(points)) == 24
    assert "call of" in table
    for folder, change in (("p", None), ("q", one_ulp)):
        Path(folder).mkdir()
        for op in ("vllm.persistent_topk", "vllm.cooperative_topk"):
            rows = [row if change is None else change(row) for row in make_run()]
            wb.write(f"{folder}/{op}.safetensors", [row.with_call(op=op) for row in rows])
    mixed = cli("diverge", "p", "q", "--points", 100).stdout.partition("Where they part")[2]
    assert mixed.count("vllm.cooperative_topk") + mixed.count("vllm.persistent_topk") >= 24
    assert "call of" not in mixed


def test_how_many_points_are_listed(cli: Cli, runs: Callable[..., str]) -> None:
    a = runs("a")
    wb.write("b.safetensors", [one_ulp(row) for row in make_run()])
    assert "The first 10 of 12 points at which they part" in cli("diverge", a, "b.safetensors").stdout
    assert "The first 2 of 12 points" in cli("diverge", a, "b.safetensors", "--points", 2).stdout
    assert "row in" not in cli("diverge", a, "b.safetensors", "--points", 0).stdout


def test_nothing_compared_is_no_clean_bill(cli: Cli, runs: Callable[..., str]) -> None:
    wb.write("bare.safetensors", [unrecorded(row) for row in make_run()])
    result = cli("diverge", runs("a"), "bare.safetensors")
    assert result.exit_code == 2
    assert "nothing was compared" in result.stderr


def test_foreign_files(cli: Cli, runs: Callable[..., str]) -> None:
    row = make_row(0, 0)
    for name, scores in (("a", row.scores), ("b", one_ulp(row).scores)):
        save_file({"logits": scores[None]}, f"{name}.safetensors")
    result = cli("diverge", "a.safetensors", "b.safetensors", "--scores", "logits")
    assert result.exit_code == 1
    assert "by 1 ULP of float32" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.safetensors"], "two runs or more are compared"),
        (["a.safetensors", "none.safetensors"], "none.safetensors: no such file"),
        (["a.safetensors", "empty"], "empty: the folder holds no .safetensors file"),
        (["a.safetensors", "bad.safetensors"], "bad.safetensors"),
        (["a.safetensors", "a.safetensors", "--ranks"], "ranks are those of one run, but 2 are given"),
        (["a.safetensors", "--ranks"], "some calls do not say their rank"),
        (["a.safetensors", "a.safetensors", "--points", "-1"], "is no integer from 0"),
        (["a.safetensors", "a.safetensors", "--lengths", "n"], "name them too"),
        (["a.safetensors", ""], "a run is named by an empty string"),
        ([], "RUN"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, runs: Callable[..., str], arguments: list[str], said: str) -> None:
    runs("a")
    Path("empty").mkdir()
    Path("bad.safetensors").write_bytes(b"\0" * 40)
    result = cli("diverge", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_names_that_could_rewrite_the_terminal_are_spelled_out(cli: Cli, runs: Callable[..., str]) -> None:
    name = "b\x1b[2J.safetensors"
    wb.write(name, make_run(AT, lossy))
    assert "\x1b[2J" not in cli("diverge", runs("a"), name).stdout


def test_repeat(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    file = captures / "broken.safetensors"
    result = cli("repeat", file, "--repeats", 5)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert text.startswith("5 calls of vllm.histogram_256 (stock): values vary (5 orders, 5 sets of indices")
    assert "the 12 nearest to the cut" in text
    head, _, *near = result.stdout[result.stdout.index("nearest to the cut\n") :].splitlines()[1:15]
    assert head.split()[:3] == ["rank", "index", "score"]
    ranks = [int(line.split()[0]) for line in near]
    assert len(ranks) == 12
    assert ranks == sorted(ranks)
    assert 2048 in ranks
    assert max(map(len, result.stdout.splitlines())) <= 100
    code, told = cli_json("repeat", file, "--repeats", 5)
    assert (code, told["row"], told["loses"]) == (1, 0, True)
    (line,) = told["lines"]
    assert (line["repeatability"]["kind"], line["repeatability"]["calls"]) == ("values vary", 5)
    assert len(line["repeatability"]["members"]) > 1000
    assert set(line["repeatability"]["members"][0]) == {"index", "score", "rank", "gap", "ulps", "held", "share"}


def test_repeat_exits_by_what_is_lost(cli: Cli, captures: Path, tmp_path: Path) -> None:
    tied = cli("repeat", captures / "tied.safetensors", "--repeats", 3)
    assert (tied.exit_code, "ties vary" in tied.stdout) == (0, True)
    assert cli("repeat", captures / "unlucky.safetensors", "--repeats", 2).exit_code == 1  # at risk
    refused = cli("repeat", captures / "half.safetensors", "--row", 0, "--repeats", 2, "--path", "vllm.histogram_256")
    assert refused.exit_code == 2
    assert "nothing was judged" in refused.stderr


@pytest.mark.parametrize(("change", "code"), [(other_tie, 0), (other_order, 0), (lossy, 1)])
def test_repeat_on_recorded_calls(cli: Cli, tmp_path: Path, change: Change, code: int) -> None:
    row = make_row(1, 1)
    again = change(row.with_call(index=9))
    wb.write(tmp_path / "calls.safetensors", [row, again, one_ulp(row.with_call(index=10))])
    result = cli("repeat", tmp_path / "calls.safetensors", "--row", 0, "--engine", "recorded")
    assert result.exit_code == code
    assert result.stdout.startswith("2 calls of the recorded op: ")
    alone = cli("repeat", tmp_path / "calls.safetensors", "--row", 2, "--engine", "recorded")
    assert alone.exit_code == 2
    assert "no second call on the same input" in alone.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one row is called many times, these are 3; choose one with --row N"),
        (["--row", "0-1"], "these are 2"),
        (["--row", "9"], "no row 9"),
        (["--row", "0", "--repeats", "1"], "is no integer from 2"),
        (["--row", "0", "--engine", "gpu"], "repeats are told of the engine model or recorded, not of 'gpu'"),
        (["--row", "0", "--path", "no.*"], "no.*"),
    ],
)
def test_repeat_usage(cli: Cli, captures: Path, arguments: list[str], said: str) -> None:
    result = cli("repeat", captures / "mixed.safetensors", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def dumped(folder: Path, changed: float | None = None) -> Path:
    """What SGLang's dumper leaves of two steps, the scores of the second of which may differ in one place."""
    folder.mkdir()
    for step in range(2):
        scores = torch.randn(2, 50, generator=torch.Generator().manual_seed(step))
        if step and changed is not None:
            scores[1, 7] = changed
        chosen = scores.topk(4).indices.to(torch.int32)
        for index, (name, value) in enumerate({"logits": scores, "topk_indices": chosen}.items()):
            tags = f"step={step}___rank=0___dump_index={2 * step + index}___name={name}___layer_id=3"
            torch.save({"value": value, "meta": {}}, folder / f"{tags}.pt")
    return folder


def test_dumps_are_runs_as_they_are(tmp_path: Path, cli: Cli) -> None:
    one, same, other = (dumped(tmp_path / name, value) for name, value in (("a", None), ("b", None), ("c", 9.0)))
    assert cli("diverge", str(one), str(same)).exit_code == 0
    found = cli("diverge", str(one), str(other))
    assert found.exit_code == 1
    assert "step 1" in found.stdout
    assert "input" in found.stdout


def test_a_folder_of_arrays_is_a_run(tmp_path: Path, cli: Cli) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        scores = torch.arange(20.0).reshape(2, 10)
        np.save(tmp_path / name / "logits.npy", scores.numpy())
        np.save(tmp_path / name / "topk_indices.npy", scores.topk(3).indices.numpy())
    assert cli("diverge", str(tmp_path / "a"), str(tmp_path / "b")).exit_code == 0
