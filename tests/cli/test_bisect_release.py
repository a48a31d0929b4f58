"""``workbench bisect-release``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import workbench as wb
from tests.fakes import Releases, clean, loses
from tests.warps import routed_warp
from workbench.vendor.release import parse_wheel

Cli = Callable[..., Result]
CliJson = Callable[..., tuple[int, Any]]


def test_the_first_clean_release_by_bisection(cli: Cli, captures: Path) -> None:
    result = cli("bisect-release", captures / "mixed.safetensors", "--row", 1)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert text.startswith(
        "The first release from which row 1 loses nothing is vllm==0.33.0; it loses winners in 0.32.0"
    )
    assert "By a bisection: 10 calls of each of 5 of 13 releases; 1 could not be called." in text
    shown = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("vllm==")]
    assert shown == ["vllm==0.20.2", "vllm==0.27.1", "vllm==0.30.0", "vllm==0.31.0", "vllm==0.32.0", "vllm==0.33.0"]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_a_row_that_still_loses_gives_1(cli: Cli, captures: Path) -> None:
    result = cli("bisect-release", captures / "broken.safetensors", "--release", "vllm==0.20.2..0.30.0")
    assert result.exit_code == 1
    assert "Row 0 still loses winners in vllm==0.30.0" in result.stdout
    assert "By a scan (both ends lose)" in " ".join(result.stdout.split())


def test_json_says_what_was_run_and_how_sure_it_is(cli_json: CliJson, captures: Path) -> None:
    code, document = cli_json("bisect-release", captures / "mixed.safetensors", "--row", 1, "--calls", 3)
    assert code == 0
    assert (document["command"], document["method"], document["first_clean"], document["last_losing"]) == (
        "bisect-release",
        "bisection",
        "vllm==0.33.0",
        "vllm==0.32.0",
    )
    assert len(document["releases"]) == 13
    assert len(document["cells"]) + len(document["not_run"]) == 13
    assert document["cells"][0]["calls"] == 3
    assert document["sure"] is True
    assert document["regressions"] == []
    _, scanned = cli_json("bisect-release", captures / "mixed.safetensors", "--row", 1, "--scan")
    assert (scanned["method"], scanned["because"], scanned["not_run"]) == ("scan", "as asked", [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "choose one with --row"),
        (("--row", 3), "there is no row 3"),
        (("--row", 1, "--release", "vllm==0.1"), "was observed"),
        (("--row", 1, "--release", "vllm==0.26.0,sglang-kernel==0.4.6"), "have no order"),
        (("--row", 1, "--calls", 0), "no integer from 1"),
        (("--row", 1, "--engine", "cuda"), "releases are compared by the engine model or vendor, not by 'cuda'"),
    ],
)
def test_bad_asks_are_answered_in_one_line(cli: Cli, captures: Path, options: tuple[object, ...], said: str) -> None:
    result = cli("bisect-release", captures / "mixed.safetensors", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_nothing_judged_gives_2(cli: Cli, captures: Path) -> None:
    result = cli(
        "bisect-release", captures / "broken.safetensors", "--op", "vllm.cooperative_topk", "--release", "vllm==0.22.1"
    )
    assert result.exit_code == 2
    assert "has no cooperative_topk" in result.stdout
    assert "nothing was judged" in result.stderr


def test_released_ops_are_bisected_by_what_they_return(
    cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = ("0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.33.0")
    fake = Releases({one: clean if one == "0.33.0" else loses(5) for one in versions})
    monkeypatch.setattr("workbench.runs.judges.vendor_engine", fake)
    monkeypatch.setattr("workbench.runs.releases.stored", lambda package: list(map(parse_wheel, fake.names)))
    result = cli(
        *("bisect-release", captures / "broken.safetensors", "--engine", "vendor"),
        *("--release", "vllm==0.26.0..0.33.0"),
    )
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "The first release from which row 0 loses nothing is vllm==0.33.0; it loses winners in 0.29.0" in text
    assert "If vllm==0.33.0 still lost as 0.29.0 does (p_clean" in text
    assert "By a bisection: 10 calls of each of 4 of 5 releases." in text


def test_calls_on_a_row_of_warps_do_not_show_that_a_release_is_clean(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, its scores would pass ten calls with a probability of 1e-8; in warps they pass nearly always."""
    wb.write(tmp_path / "warps.safetensors", [routed_warp()])
    fake = Releases({"0.31.0": loses(1), "0.32.0": clean})
    monkeypatch.setattr("workbench.runs.judges.vendor_engine", fake)
    monkeypatch.setattr("workbench.runs.releases.stored", lambda package: list(map(parse_wheel, fake.names)))
    given = (tmp_path / "warps.safetensors", "--release", "vllm==0.31.0..0.32.0", "--engine", "vendor")
    found = cli("bisect-release", *given)
    assert found.exit_code == 1
    text = " ".join(found.stdout.split())
    assert text.startswith("Row 0 can still lose winners in vllm==0.32.0, the newest")
    assert (
        "On vllm.histogram_2048 chance and mean are of scores one by one; this path's arrive in warps of 32, a random "
        "order of which loses nothing with a probability of at most 0.9840"
    ) in text
    matrix = cli("run", *given, "--repeats", 10)
    assert matrix.exit_code == 1
    assert "Row 0 loses or can lose winners in every release" in " ".join(matrix.stdout.split())
    many = cli("bisect-release", *given, "--calls", 300)
    assert many.exit_code == 0
    text = " ".join(many.stdout.split())
    assert "The first release from which row 0 loses nothing is vllm==0.32.0" in text
    assert "(p_clean in warps of 32 at most 0.9840), 300 calls without a loss would come with probability" in text
