"""How the app ends: nothing is left, and nothing that is at work takes the process down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import torch

from tests.ui.conftest import ROOT
from workbench.capture import Call, Row, write_capture

SCANNING = """
import sys, time
from workbench.ui.library import Uploads
from workbench.ui.scans import Place, running
uploads = Uploads()
uploads.add("a.safetensors", b"x")
held = running(Place("here", (sys.argv[1],)))
while held.scan.progress.rows[0] < 1:
    assert held.busy
    time.sleep(0.001)
"""


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary files are below ``tmp``."""
    (tmp_path / "tmp").mkdir()
    own = {"TMPDIR": str(tmp_path / "tmp"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    return {**os.environ, **own}


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "tmp").glob("topk-workbench*"))


def test_a_scan_at_work_does_not_break_the_end(tmp_path: Path, place: dict[str, str]) -> None:
    rows = [Row(torch.randn(400_000), 400_000, call=Call(k=512)) for _ in range(12)]
    write_capture(tmp_path / "a.safetensors", rows)
    done = subprocess.run(
        [sys.executable, "-c", SCANNING, str(tmp_path / "a.safetensors")],
        env=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert not left(tmp_path)


APP = """
import streamlit as st
from workbench.ui.closing import lifetime
from workbench.ui.library import Uploads
if __name__ != "__main__":
    uploads = Uploads()
    uploads.add("a.safetensors", b"x")
    app = st.App(__file__, lifespan=lifetime)
"""


def test_a_server_that_is_asked_to_end_leaves_nothing(tmp_path: Path, place: dict[str, str]) -> None:
    (tmp_path / "app.py").write_text(APP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(tmp_path / "app.py"), f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.headless=true"]
    with subprocess.Popen(
        command, env=place, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        end = time.monotonic() + 60
        while not left(tmp_path) or not answers(port):
            assert time.monotonic() < end
            assert server.poll() is None
            time.sleep(0.1)
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=30)
    assert b"Traceback" not in said
    assert not left(tmp_path)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
            return True
    except OSError:
        return False
