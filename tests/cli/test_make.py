"""``workbench make``: rows written, what it says of them, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from workbench.capture import open_capture
from workbench.synthetic.distributions import DISTRIBUTIONS

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def test_one_more_than_the_buffer_holds(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "tight.safetensors"
    result = cli("make", target, "--path", "vllm.histogram_256", "--rows", 2, "--op", "vllm.persistent_topk")
    assert result.exit_code == 0
    assert "Wrote 2 rows of length 8194, k 2048" in result.stdout
    assert "4097      4096" in result.stdout
    with open_capture(target) as capture:
        assert capture.info.source == "workbench make, seed 0: against vllm.histogram_256 stock, population 4097"
        assert capture[1].call.op == "vllm.persistent_topk"
    assert cli("inspect", target).exit_code == 1


def test_the_same_options_write_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b"):
        cli("make", tmp_path / f"{name}.safetensors", "--distribution", "cluster", "--length", 9000, "--seed", 3)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_json_tells_the_risk_of_each_row(cli_json: CliJson, tmp_path: Path) -> None:
    target = tmp_path / "x.safetensors"
    code, document = cli_json("make", target, "--path", "vllm.cooperative_8", "--positions", "clustered")
    assert code == 0
    assert document["file"] == str(target)
    assert [(one["population"], one["level"]) for one in document["risks"]] == [(1025, "certain")]


def test_the_list_names_every_distribution(cli: Cli, cli_json: CliJson) -> None:
    code, document = cli_json("make", "--list")
    assert code == 0
    assert [one["name"] for one in document] == [one.name for one in DISTRIBUTIONS]
    assert max(map(len, cli("make", "--list").stdout.splitlines())) <= 100


def test_a_variant_without_a_path_is_refused(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "a.safetensors"
    for variant in ("wide_rescan", "nonsense"):
        result = cli("make", target, "--distribution", "random", "--length", 10, "--k", 2, "--variant", variant)
        assert result.exit_code == 2
        assert "variant" in result.stderr
        assert not target.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name the capture to write"),
        (("x.safetensors",), "name one of the two"),
        (("x.safetensors", "--distribution", "random", "--population", "7"), "shape the rows against a path"),
        (("x.safetensors", "--distribution", "random", "--values", "forward"), "shape the rows against a path"),
        (("x.safetensors", "--path", "vllm.filtered", "--population", "many"), "write 5000, or +1"),
        (("x.safetensors", "--path", "vllm.filtered", "--values", "up"), "'up' is not one of"),
        (("x.safetensors", "--distribution", "random", "--op", "nosuch"), "unknown op"),
        (("x.safetensors", "--distribution", "random", "--device", "nosuch"), "unknown device"),
        (("x.safetensors", "--distribution", "random", "--release", "vllm"), "vllm"),
        (("there.safetensors", "--distribution", "random"), "give --force"),
        (("absent/x.safetensors", "--distribution", "random"), "folder does not exist"),
    ],
)
def test_what_cannot_be_made_is_one_line_and_writes_nothing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.safetensors").write_text("mine")
    result = cli("make", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.safetensors"]


def test_force_replaces(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "x.safetensors"
    target.write_text("mine")
    assert cli("make", target, "--distribution", "constant", "--length", 3000, "--force").exit_code == 0
    assert len(open_capture(target)) == 1
