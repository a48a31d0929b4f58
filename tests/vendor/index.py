"""A package index on this machine, with wheels of the tests."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder; the address of its index."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    finally:
        server.shutdown()
        server.server_close()


def publish(folder: Path, package: str, *wheels: Path, sha256: str | None = None, python: str = ">=3.9") -> None:
    """Put wheels onto the index, with their sha256 or another one."""
    page = folder / "simple" / package
    page.mkdir(parents=True, exist_ok=True)
    lines = []
    for wheel in wheels:
        content = wheel.read_bytes()
        (page / wheel.name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest() if sha256 is None else sha256
        needs = python.replace(">", "&gt;")
        lines.append(f'<a href="{wheel.name}#sha256={digest}" data-requires-python="{needs}">{wheel.name}</a>')
    (page / "index.html").write_text("<!DOCTYPE html><html><body>" + "<br>".join(lines) + "</body></html>")
