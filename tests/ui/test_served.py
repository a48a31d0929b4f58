"""What the server answers at the addresses of pages, so that no cold start asks for what is not there."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import streamlit as st
import torch
from streamlit.testing.v1 import AppTest

from workbench.capture import Call, Row, write_capture
from workbench.ui.served import ADDRESS, HEAD, WHERE, index, is_session, routes, said


def test_the_page_says_where_the_app_is() -> None:
    text = index().read_text(encoding="utf-8")
    assert text.count(HEAD) == 1  # else it is another page than the one that this was written for
    assert said(text, WHERE) == text.replace(HEAD, HEAD + WHERE)
    assert said("<html></html>", WHERE) == "<html></html>"


def answer(path: str) -> tuple[int, bytes]:
    from starlette.applications import Starlette

    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "root_path": ""}
    served = Starlette(routes=routes())(scope, receive, send)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as aside:  # Playwright keeps a loop running in a worker's main thread
        aside.submit(asyncio.run, served).result()
    return int(str(sent[0]["status"])), b"".join(bytes(one.get("body", b"")) for one in sent)  # type: ignore[call-overload]


def test_every_page_has_an_address_and_files_have_others() -> None:
    def script() -> None:
        import streamlit

        from workbench.ui.pages import navigation

        streamlit.session_state["names"] = [page.url_path for page in navigation()]

    test = AppTest.from_function(script, default_timeout=60).run()
    assert not test.exception
    names = test.session_state["names"]
    assert len(names) > 4
    text = index().read_text(encoding="utf-8")
    for name in names:
        lines = WHERE + ADDRESS if name else ADDRESS  # the first page's address is where the app is
        assert answer(f"/{name}") == (200, said(text, lines).encode())
    for path in ("/favicon.png", "/index.html", "/_stcore/health", "/overview/_stcore/health", "/static/js/a.js"):
        assert answer(path)[0] == 404  # Streamlit's own routes answer, which come after these


def test_the_line_strips_the_page_alone() -> None:
    (pattern,) = re.findall(r"replace\(/(.*?)/, ", WHERE)
    assert re.sub(pattern, "/", "/overview") == "/"
    assert re.sub(pattern, "/", "/proxy/8501/overview") == "/proxy/8501/"


def test_the_server_is_no_session() -> None:
    assert not is_session()
    assert st.App


ASKED_TO_END = """
import os, signal, sys, time
from workbench.ui.library import Uploads
from workbench.ui.scans import Place, running
from workbench.ui.served import end_in_order
end_in_order()
uploads = Uploads()
uploads.add("a.safetensors", b"x")
held = running(Place("here", (sys.argv[1],)))
while held.scan.progress.rows[0] < 1:
    assert held.busy
    time.sleep(0.001)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


def test_a_server_that_is_asked_to_end_leaves_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    rows = [Row(torch.randn(400_000), 400_000, call=Call(k=512)) for _ in range(12)]
    write_capture(tmp_path / "a.safetensors", rows)
    place = tmp_path / "tmp"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ASKED_TO_END, str(tmp_path / "a.safetensors")],
        env={**os.environ, "TMPDIR": str(place), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 128 + 15, done.stderr
    assert "terminate" not in done.stderr
    assert not list(place.glob("topk-workbench*"))
