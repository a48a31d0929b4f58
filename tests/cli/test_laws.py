"""Commands say whose law a chance and a mean are where a path's scores arrive warp by warp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import workbench as wb
from tests.warps import crowded_warp, routed_warp

Cli = Callable[..., Result]
LAW = "hance and mean are of scores one by one; this path's arrive in warps of 32"
BOUND = ", a random order of which loses nothing with a probability of at most "


@pytest.fixture
def warps(tmp_path: Path) -> Path:
    """One row of ``vllm.histogram_2048``."""
    wb.write(tmp_path / "warps.safetensors", [routed_warp()])
    return tmp_path / "warps.safetensors"


@pytest.mark.parametrize(
    ("command", "bound"),
    [
        (("inspect", "FILE"), "0.9840"),
        (("inspect", "FILE", "--all"), "0.9840"),
        (("run", "FILE"), "0.9840"),
        (("run", "FILE", "--release", "vllm==0.31.0..0.32.0", "--repeats", 1), "0.9840"),
        (("what-if", "FILE", "--capacity", 3750), "0.9983"),
        (("shrink", "FILE", "--path", "vllm.histogram_2048"), "0."),
        (("audit", "FILE", "-o", "OUT", "--executor", "serial"), None),
    ],
    ids=lambda one: " ".join(map(str, one)) if isinstance(one, tuple) else "",
)
def test_a_command_says_it(cli: Cli, warps: Path, command: tuple[object, ...], bound: str | None) -> None:
    places = {"FILE": warps, "OUT": warps.parent / "audited"}
    result = cli(*(places.get(str(part), part) for part in command))
    assert result.exit_code == 1
    assert f"{LAW}{'' if bound is None else BOUND + bound}" in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_rows_that_were_made_against_a_path_say_it(cli: Cli, tmp_path: Path) -> None:
    options = ("--path", "vllm.histogram_2048", "--k", 512, "--length", 8000, "--population", 3760)
    result = cli("make", tmp_path / "made.safetensors", *options)
    assert result.exit_code == 0
    assert f"On vllm.histogram_2048 c{LAW}{BOUND}0.0266" in " ".join(result.stdout.split())


def test_of_several_rows_it_is_said_once_and_without_a_bound(cli: Cli, tmp_path: Path) -> None:
    wb.write(tmp_path / "two.safetensors", [crowded_warp(128), crowded_warp(32)])
    result = cli("inspect", tmp_path / "two.safetensors", "--path", "vllm.histogram_2048")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert text.count(LAW) == 1
    assert BOUND not in text


def test_other_paths_do_not(cli: Cli, captures: Path) -> None:
    result = cli("inspect", captures / "broken.safetensors")
    assert result.exit_code == 1
    assert "one by one" not in result.stdout
