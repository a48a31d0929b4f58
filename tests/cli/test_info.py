"""``workbench info``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import Result

from tests.cli.conftest import KNOWN
from workbench.capture import Call, Capture, Row, Token, write_capture

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def test_says_what_a_capture_holds_and_what_it_does_not_say(cli: Cli, captures: Path) -> None:
    result = cli("info", captures / "mixed.safetensors")
    assert result.exit_code == 0
    said = {line.split()[0]: " ".join(line.split()[1:]) for line in result.stdout.splitlines() if line[:1].strip()}
    assert said["rows"] == "3 in 1 call"
    assert said["scores"] == "float32, padded, width 20000"
    assert said["lengths"] == "5000 to 20000"
    assert said["k"] == "2048"
    assert said["op"] == "vllm.persistent_topk"
    assert said["model"] == "unknown"
    assert said["recorded"] == "no selections"


def test_json_has_every_tensor_and_null_for_unknown(cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("info", captures / "mixed.safetensors")
    (about,) = document["captures"]
    assert (code, document["errors"], about["rows"], about["problems"]) == (0, [], 3, None)
    assert about["strings"] == {
        "op": "vllm.persistent_topk",
        "release": "vllm==0.26.0",
        "device": "h200",
        "model": None,
        "request": None,
    }
    assert {"name": "scores", "dtype": "float32", "shape": [3, 20000]} in about["tensors"]


def test_a_bad_file_does_not_hide_the_others(cli: Cli, captures: Path, tmp_path: Path) -> None:
    files = [captures / "damaged.safetensors", tmp_path / "absent.safetensors", captures / "broken.safetensors"]
    result = cli("info", *files)
    assert result.exit_code == 2
    assert "vllm==0.26.0" in result.stdout
    first, second = result.stderr.splitlines()
    assert "damaged.safetensors" in first
    assert "absent.safetensors: no such file" in second


def test_json_lists_the_errors_beside_the_captures(cli_json: CliJson, captures: Path, tmp_path: Path) -> None:
    code, document = cli_json("info", tmp_path / "absent.safetensors", captures / "broken.safetensors")
    assert code == 2
    assert len(document["captures"]) == 1
    assert "no such file" in document["errors"][0]


def test_a_folder_is_an_error_that_tells_the_cure(cli: Cli, captures: Path) -> None:
    result = cli("info", captures)
    assert result.exit_code == 2
    assert "this is a folder of captures; name one of them" in result.stderr


def test_verify_reads_everything(cli: Cli, cli_json: CliJson, captures: Path) -> None:
    assert "no problem" in cli("info", captures / "broken.safetensors", "--verify").stdout
    code, document = cli_json("info", captures / "broken.safetensors", "--verify")
    assert (code, document["captures"][0]["problems"]) == (0, [])


def test_verify_lists_every_problem(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    file = tmp_path / "out of range.safetensors"
    good = torch.arange(4, dtype=torch.int32)
    write_capture(file, [Row(torch.rand(16), 16, call=Call(k=4), indices=good) for _ in range(3)])
    content = bytearray(file.read_bytes())
    found = content.find(good.numpy().tobytes())
    for row in (0, 2):  # the recorded indices of two rows
        at = found + row * 16
        content[at : at + 4] = (99).to_bytes(4, "little")
    file.write_bytes(bytes(content))
    result = cli("info", file, "--verify")
    assert result.exit_code == 2
    assert "2 problems found" in result.stdout
    assert "row 0" in result.stdout
    assert "row 2" in result.stdout
    code, document = cli_json("info", file, "--verify")
    assert (code, len(document["captures"][0]["problems"])) == (2, 2)


def test_a_foreign_file_is_opened_by_naming_its_tensors(
    cli: Cli, cli_json: CliJson, captures: Path, tmp_path: Path
) -> None:
    unknown = tmp_path / "unknown.safetensors"
    save_file({"layer.0.x": torch.ones(2, 3)}, unknown)
    refused = cli("info", unknown)
    assert refused.exit_code == 2
    assert "--scores" in refused.stderr
    assert "layer.0.x" in refused.stderr
    foreign = captures / "foreign.safetensors"
    code, document = cli_json("info", foreign)
    assert code == 0
    assert "found by name: scores 'logits' and lengths 'lens'" in document["captures"][0]["notes"]
    code, document = cli_json("info", foreign, "--scores", "layer.*.logits", "--lengths", "layer.*.lens", "--k", 512)
    assert code == 0
    assert document["captures"][0]["format"] == "foreign"
    assert document["captures"][0]["length_min"] == 5000


def test_lengths_without_scores_is_a_usage_error(cli: Cli, captures: Path) -> None:
    result = cli("info", captures / "foreign.safetensors", "--lengths", "layer.0.lens")
    assert result.exit_code == 2
    assert "--scores" in result.stderr


def test_given_values_that_the_capture_contradicts_are_noted(cli_json: CliJson, captures: Path) -> None:
    _, document = cli_json("info", captures / "mixed.safetensors", "--rows", 40, "--device", "l20", "--stride", 20000)
    notes = document["captures"][0]["notes"]
    assert "rows is 40 as given; the capture says 1" in notes
    assert "device is l20 as given; the capture says h200" in notes
    assert not any(note.startswith("stride") for note in notes)


@pytest.mark.parametrize("name", ["[red]x[/red]", "two\nlines", "\x1b[31mred", "[/]"])
def test_hostile_names_are_shown_as_text(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / name.split("/")[0]).mkdir(exist_ok=True)
    file = tmp_path / f"{name}.safetensors"
    write_capture(file, [Row(torch.rand(16), 16, call=Call(k=4, op=name))])
    result = cli("info", file)
    assert result.exit_code == 0
    shown = name.replace("\n", "\\x0a").replace("\x1b", "\\x1b")
    joined = "".join(line.strip() for line in result.stdout.splitlines())
    assert f"{shown}.safetensors" in joined
    assert "\x1b" not in result.stdout
    file.unlink()
    missing = cli("info", file)
    assert missing.exit_code == 2
    assert len(missing.stderr.splitlines()) == 1
    assert f"{shown}.safetensors" in missing.stderr


def test_many_tensors_are_cut_short_with_a_count(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    file = tmp_path / "many.safetensors"
    save_file({f"layer.{n}": torch.rand(2, 8) for n in range(30)}, file)
    result = cli("info", file, "--scores", "layer.*")
    assert "and 10 more tensors" in result.stdout
    _, document = cli_json("info", file, "--scores", "layer.*")
    assert len(document["captures"][0]["tensors"]) == 30
    assert document["captures"][0]["calls"] == 30


def test_k_that_differs_between_calls_is_listed(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "ks.safetensors"
    calls = [Call(0, k=4), Call(1), Call(2, k=8)]
    write_capture(file, [Row(torch.rand(16), 16, call=call) for call in calls])
    assert "4, 8, unknown for some calls" in cli("info", file).stdout


def test_recorded_selections_are_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "recorded.safetensors"
    write_capture(file, [Row(torch.rand(16), 16, call=Call(k=4), indices=torch.arange(4, dtype=torch.int32))])
    assert "selections of every row" in cli("info", file).stdout
    assert KNOWN.op not in cli("info", file).stdout


def test_rows_that_their_length_leaves_are_counted(cli: Cli, cli_json: CliJson, tmp_path: Path) -> None:
    def lengths(*given: int) -> str:
        file = tmp_path / f"{len(given)}.safetensors"
        write_capture(file, [Row(torch.rand(16), length, call=Call(k=4)) for length in given])
        _, document = cli_json("info", file, "--verify")
        assert document["captures"][0]["outside"] == sum(not 0 <= length <= 16 for length in given)
        assert document["captures"][0]["problems"] == []
        return next(line for line in cli("info", file).stdout.splitlines() if line.startswith("lengths "))

    assert lengths(16, 0, -1, 17).endswith("-1 to 17; 2 rows with a length outside their row")
    assert lengths(16, -1).endswith("-1 to 16; 1 row with a length outside its row")
    assert lengths(16).split() == ["lengths", "16"]


def test_tokens_are_counted(cli: Cli, cli_json: CliJson, captures: Path, tmp_path: Path) -> None:
    def line(file: Path) -> str:
        return next(line for line in cli("info", file).stdout.splitlines() if line.startswith("tokens "))

    file, row = tmp_path / "tokens.safetensors", Row(torch.rand(16), 16, call=Call(k=4))
    assert line(captures / "mixed.safetensors").split() == ["tokens", "none"]
    write_capture(file, [row], tokens=[Token(3, 1, torch.zeros(7).half()), Token(9, None, torch.zeros(7).half())])
    assert line(file).endswith("2 of steps 3 to 9, float16 logits over 7, 1 unknown")
    _, document = cli_json("info", file)
    about = document["captures"][0]
    assert (about["tokens"], about["vocab"], about["logits"]) == (2, 7, "float16")
    write_capture(file, [row], tokens=[Token(3, 1)], overwrite=True)
    assert line(file).endswith("1 of step 3, no logits")
    _, document = cli_json("info", file)
    assert document["captures"][0]["vocab"] is None


def test_a_long_word_folds(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "long.safetensors"
    model = "".join(f"{n:03d}" for n in range(100))
    write_capture(file, [Row(torch.rand(16), 16, call=Call(k=4, model=model))])
    text = cli("info", file).stdout
    assert max(map(len, text.splitlines())) <= 100
    assert model in "".join(line.removeprefix("model").strip() for line in text.splitlines())


def test_k_is_said_without_reading_every_call(cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of calls are no reason to wait."""
    monkeypatch.setattr(Capture, "calls", None)
    monkeypatch.setattr(Capture, "call", None)
    result = cli("info", captures / "mixed.safetensors", "--rows", 40)
    assert "2048" in next(line for line in result.stdout.splitlines() if line.startswith("k "))
    assert "rows is 40 as given; the capture says 1" in result.stdout
