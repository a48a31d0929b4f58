"""What the server answers at the addresses of pages, so that no cold start asks for what is not there."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import streamlit as st
from streamlit.testing.v1 import AppTest

from workbench.ui.served import HEAD, NO_STOP, SCRIPT, WHERE, index, is_session, routes, said


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
        lines = (WHERE if name else "") + SCRIPT + NO_STOP  # the first page's address is where the app is
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
