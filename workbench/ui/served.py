"""How the app is served: as Streamlit serves any, but for lines at the head of what the address of a page answers.

Streamlit's script in the browser does not know whether ``/overview`` is a page, or the folder that the whole app is
served below. It tries the latter first, and each cold start of a page then shows two requests that were not found.
``WHERE`` says where the app is. ``served.js`` says why it stands there. ``NO_STOP`` takes away the button Stop that
Streamlit shows at the top while a page is drawn: it ends the drawing where it is, and the page stays half empty. What
takes a while has a button of the workbench's own, which stops the work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

HEAD = "<head>"
WHERE = (
    "<script>window.__streamlit = {BACKEND_BASE_URL: location.origin + "
    'location.pathname.replace(/[/]+[^/]+[/]*$/, "/")}</script>'
)
NO_STOP = "<style>[data-testid=stStatusWidget] button {display: none}</style>"
SCRIPT = f"<script>{Path(__file__).with_suffix('.js').read_text(encoding='utf-8')}</script>"


def is_session() -> bool:
    """Whether a session runs the script, and not the server, which looks in it for what it is to serve."""
    return get_script_run_ctx(suppress_warning=True) is not None


def routes() -> list[BaseRoute]:
    """What the addresses of pages answer: the app's own, and words, which no file of Streamlit's has as its name."""
    from starlette.convertors import StringConvertor, register_url_convertor
    from starlette.routing import Route

    class Word(StringConvertor):
        regex = "[a-z]+(?:-[a-z]+)*"

    register_url_convertor("word", Word())
    return [Route("/", _first, methods=["GET"]), Route("/{page:word}", _page, methods=["GET"])]


def _first(request: Request) -> Response:
    return _answer(SCRIPT + NO_STOP)


def _page(request: Request) -> Response:
    return _answer(WHERE + SCRIPT + NO_STOP)


def _answer(lines: str) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(said(index().read_text(encoding="utf-8"), lines), headers={"Cache-Control": "no-cache"})


def index() -> Path:
    """The page that Streamlit serves."""
    return Path(st.__file__).parent / "static" / "index.html"


def said(text: str, lines: str) -> str:
    """That page with lines at its head; as it is where it is another than the one that this was written for."""
    return text.replace(HEAD, HEAD + lines, 1)
