"""The app, served on a free port of this machine, and a browser to drive it with."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.audit.making import audited
from tests.diverging import lossy, make_run, other_order
from tests.ui.conftest import make_capture
from workbench.capture import Call, Row, Token, write_capture

ROOT = Path(__file__).parents[2]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZE = {"width": 1280, "height": 900}
START_S = 40
LOCAL = re.compile(r"(http|ws)://127\.0\.0\.1:|(data|blob|about|file):")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small capture, rows of 1,048,576 scores, of which ``crowded`` breaks selectors, below it two
    runs that part twice, and an audit of the former and the latter."""
    folder = tmp_path_factory.mktemp("app") / "dumps"
    folder.mkdir()
    make_capture(folder / "bad-row.safetensors")
    width = 1 << 20
    random = torch.Generator().manual_seed(0)
    known = {"op": "vllm.persistent_topk", "release": "vllm==0.26.0", "device": "h200"}
    call = Call(k=2048, rows=64, width=width, stride=width, max_seq_len=width, **known)  # type: ignore[arg-type]
    write_capture(
        folder / "wide.safetensors",
        [Row(torch.randn(width, generator=random), width, call=call) for _ in range(2)],
    )
    crowded = torch.randn(width, generator=random)
    crowded[torch.randperm(width, generator=random)[:40_000]] = 1 + torch.rand(40_000, generator=random) * 0.003
    crowded[crowded > 1.0031] = 0.5
    write_capture(folder / "crowded.safetensors", [Row(crowded, width, call=call)])
    (folder / "runs").mkdir()
    changed = make_run((2, 1), lossy)
    changed[9] = other_order(changed[9])
    for name, rows in (("a", make_run()), ("b", changed)):
        tokens = [Token(step, 7 + (name == "b" and step == 3)) for step in range(4)]
        write_capture(folder / "runs" / f"{name}.safetensors", rows, tokens=tokens)
    audited([folder / "bad-row.safetensors", folder / "runs"], folder / "audited")
    return folder


@pytest.fixture(scope="session")
def served(dumps: Path) -> Iterator[str]:
    """The address of the running app, started with the folder of dumps."""
    with serving([str(dumps)], dumps.parent / "app.log") as url:
        yield url


@contextmanager
def serving(arguments: Sequence[str], log: Path, script: str = "app.py") -> Iterator[str]:
    """The app, or another script, on a free port while the context lasts; what it says goes to ``log``, where no
    traceback may stand, and nothing of its own stays in a folder beside that."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, f"--server.port={port}", "--", *arguments]
    temporary = log.parent / "tmp"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=env)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait(30)
    assert not list(temporary.glob("topk-workbench*"))
    said = log.read_text(errors="replace")
    assert "Traceback" not in said, said[-4000:]


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"the app did not start: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started."""
    with sync_playwright() as playwright:
        if (program := chromium(playwright)) is None:
            pytest.skip("no Chromium: run `make browser`")
        opened = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


def chromium(playwright: Playwright) -> str | None:
    """The system's Chromium, or else Playwright's own; ``None`` where there is neither."""
    system = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    own = playwright.chromium.executable_path
    return system or (own if Path(own).exists() else None)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh session of 1280 × 900 pixels, in which nothing may go wrong that a viewer does not see."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    opened = context.new_page()
    wrong: list[str] = []
    watch(opened, wrong)
    yield opened
    context.close()
    assert wrong == []


def watch(page: Page, wrong: list[str]) -> None:
    """Note what a page does wrong: errors of scripts and of the console, answers that are errors, and what is asked of
    other machines."""
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("response", lambda one: wrong.append(f"{one.status} {one.url}") if one.status >= 400 else None)
    page.on("request", lambda one: None if LOCAL.match(one.url) else wrong.append(f"asks {one.url}"))
