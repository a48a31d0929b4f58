"""The program as a whole: help, version, errors, pipes, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import workbench as wb
from workbench.cli.main import app

Cli = Callable[..., Result]
COMMANDS = ("info", "inspect", "paths", "route", "run", "app")
ROOT = Path(__file__).parents[2]


def program(*args: object, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m workbench`` in a process of its own."""
    command = [sys.executable, "-m", "workbench", *(str(arg) for arg in args)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | settings
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout == f"workbench {wb.__version__}\n"


def test_help_names_every_command_and_the_exit_codes(cli: Cli) -> None:
    text = cli("--help").stdout
    assert all(f"│ {command} " in text for command in COMMANDS)
    assert "0 nothing lost" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_teaches(cli: Cli, command: str) -> None:
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert any(line.strip().startswith(f"workbench {command}") for line in result.stdout.splitlines()[4:])
    assert "--json" in result.stdout
    assert "Exit codes:" in result.stdout


def test_no_command_shows_the_help_and_is_a_usage_error(cli: Cli) -> None:
    result = cli()
    assert result.exit_code == 2
    assert "Usage: workbench" in result.stdout or "Usage:" in result.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nope",), "nope"),
        (("inspect",), "FILE"),
        (("info", "--nope"), "--nope"),
        (("route", "--k", "0"), "--k"),
        (("route", "--k", "many"), "--k"),
        (("app", "--port", "70000"), "--port"),
        (("--nope",), "--nope"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(cli: Cli, args: tuple[str, ...], said: str) -> None:
    result = cli(*args)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert said in result.stderr
    assert "--help" in result.stderr


@pytest.mark.parametrize("command", ["info", "inspect", "route", "run"])
def test_errors_go_to_stderr_in_json_mode_too(cli: Cli, command: str, tmp_path: Path) -> None:
    result = cli(command, tmp_path / "absent.safetensors", "--json")
    assert result.exit_code == 2
    assert "no such file" in result.stderr
    if command != "info":  # which still lists the files that it could read
        assert result.stdout == ""


def test_an_interrupt_is_one_line_and_exit_130(cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.runs.inspect.inspect_row", interrupted)
    result = cli("inspect", captures / "broken.safetensors")
    assert (result.exit_code, result.stderr) == (130, "workbench: interrupted\n")


def test_a_defect_is_not_taken_for_bad_input(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.runs.inspect.inspect_row", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(app, ["inspect", str(captures / "broken.safetensors")], catch_exceptions=False)


def test_threads_of_torch_are_given_back(cli: Cli, captures: Path) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        cli("inspect", captures / "broken.safetensors")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_colour_only_where_it_is_wanted(cli: Cli, captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in cli("inspect", captures / "mixed.safetensors").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mlossy" in cli("inspect", captures / "mixed.safetensors").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31mlossy" not in cli("inspect", captures / "mixed.safetensors").stdout


def test_a_closed_pipe_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "workbench", "paths"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    command = [sys.executable, "-m", "workbench", "paths", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert (ended.returncode, ended.stderr) == (2, "workbench: No space left on device\n")


def test_a_narrow_encoding_is_no_traceback(captures: Path) -> None:
    ended = program("inspect", captures / "mixed.safetensors", "--row", 1, PYTHONIOENCODING="ascii")
    assert ended.returncode == 1
    assert ended.stderr == ""
    assert "- rows 1 > 32" in ended.stdout
    assert "+ length 20000 <= 32768" in ended.stdout


def test_looking_imports_nothing_heavy(captures: Path) -> None:
    file = captures / "mixed.safetensors"
    code = f"""
import sys
from workbench.cli.main import app
for args in (["info", {str(file)!r}], ["inspect", {str(file)!r}], ["paths"], ["route", {str(file)!r}]):
    app(args, standalone_mode=False)
heavy = ("pandas", "pyarrow", "streamlit", "plotly", "cupy", "vllm", "sglang")
print([name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ended.stderr == "[]\n"
