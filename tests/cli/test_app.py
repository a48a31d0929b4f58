"""``workbench app``: how the dashboard is started."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.conftest import strict
from workbench.resources import app_entry

Cli = Callable[..., Result]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Command lines that would have replaced the program."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append(command))
    return commands


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_starts_the_entry_on_this_machine_only(
    cli: Cli, started: list[list[str]], captures: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(captures)
    assert cli("app", "broken.safetensors", captures, "--port", port, "--no-browser").exit_code == 0
    (command,) = started
    assert command[:5] == [sys.executable, "-m", "streamlit", "run", str(app_entry())]
    flags, given = command[5 : command.index("--")], command[command.index("--") + 1 :]
    assert {"--server.address=127.0.0.1", f"--server.port={port}", "--server.headless=true"} <= set(flags)
    assert given == [str(captures / "broken.safetensors"), str(captures)]


def test_opens_a_browser_where_there_is_a_display(
    cli: Cli, started: list[list[str]], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    cli("app", "--port", port)
    assert "--server.headless=false" in started[0]
    assert started[0][-1] == "--"


def test_a_missing_path_is_an_error_before_anything_starts(
    cli: Cli, started: list[list[str]], captures: Path, port: int
) -> None:
    for absent in ("[red]absent", "nul\0", ""):
        result = cli("app", captures, absent, "--port", port)
        assert result.exit_code == 2
        assert absent.replace("\0", "\\x00") in result.stderr
    assert started == []


def test_a_port_in_use_is_an_error(cli: Cli, started: list[list[str]]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = cli("app", "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "--port" in result.stderr
    assert started == []


def test_without_streamlit_it_says_how_to_install(
    cli: Cli, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = cli("app")
    assert result.exit_code == 2
    assert "pip install 'streamlit>=1.63'" in result.stderr
    assert started == []


def test_json_says_what_is_started_and_keeps_stdout_clean(captures: Path, tmp_path: Path, port: int) -> None:
    (tmp_path / "streamlit").mkdir()
    (tmp_path / "streamlit" / "__init__.py").touch()
    (tmp_path / "streamlit" / "__main__.py").write_text("import sys; print('serving', sys.argv[-1])")
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-m", "workbench", "app", captures, "--port", str(port), "--json"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True,
        text=True,
        check=True,
    )
    document = strict(ended.stdout)
    assert document["url"] == f"http://127.0.0.1:{port}"
    assert document["paths"] == [str(captures)]
    assert ended.stderr == f"serving {captures}\n"
