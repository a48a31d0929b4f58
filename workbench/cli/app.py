"""``workbench app``: the dashboard."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.exits import CLEAN
from workbench.cli.jsonout import print_json
from workbench.cli.options import Json
from workbench.errors import UsageError
from workbench.words import because

ADDRESS = "127.0.0.1"
STREAMLIT = "streamlit>=1.63"


def app(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Captures, or folders that hold some; without any, the samples."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help=f"Port on {ADDRESS}.")] = 8501,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    json: Json = False,
) -> int:
    """Open the dashboard in a browser; it listens on this machine only.

    workbench app capture.safetensors
    workbench app captures/ --port 8600 --no-browser
    """
    given = [_existing(path) for path in paths or []]
    if importlib.util.find_spec("streamlit") is None:
        raise UsageError(f"the app needs Streamlit, which is not installed: python -m pip install '{STREAMLIT}'")
    from workbench.resources import app_entry

    try:
        entry = str(app_entry())
    except FileNotFoundError as error:
        raise UsageError(f"{error}; install the workbench again") from None
    _check_port(port)
    command = _command(entry, port, no_browser, given)
    if json:
        print_json(
            {"command": "app", "url": f"http://{ADDRESS}:{port}", "entry": entry, "paths": given, "starts": command}
        )
    sys.stdout.flush()
    sys.stderr.flush()
    if json:  # what the server says is not part of the document
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.execv(command[0], command)  # in this process, so that every signal reaches the server
    return CLEAN


def _existing(path: str) -> str:
    if not path:
        raise UsageError("a path is empty; name a capture or a folder, . for the current one")
    try:
        found = Path(path).exists()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be looked at: {because(error)}") from None
    if not found:
        raise UsageError(f"{path}: no such file or folder")
    return str(Path(path).absolute())


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            raise UsageError(f"port {port} cannot be used ({error.strerror}); give another by --port") from None


def _has_display() -> bool:
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _command(entry: str, port: int, no_browser: bool, given: list[str]) -> list[str]:
    """The program and its arguments. Streamlit must not ask for an e-mail address first."""
    return [
        sys.executable,
        *("-m", "streamlit", "run", entry),
        f"--server.address={ADDRESS}",
        f"--server.port={port}",
        f"--server.headless={str(no_browser or not _has_display()).lower()}",
        "--server.showEmailPrompt=false",
        "--browser.gatherUsageStats=false",
        "--",
        *given,
    ]
