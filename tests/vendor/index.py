"""A package index on this machine, with wheels of the tests."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Quiet(SimpleHTTPRequestHandler):
    asked: threading.Event
    delay: float

    def do_GET(self) -> None:
        """Answer, late if so asked."""
        self.asked.set()
        time.sleep(self.delay)
        with contextlib.suppress(OSError):  # who asked may have gone
            super().do_GET()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serve(folder: Path, asked: threading.Event | None = None, delay: float = 0) -> Iterator[str]:
    """Serve a folder; the address of its index.

    Args:
        asked: set once somebody asks. delay: seconds before each answer.
    """
    handler = type("Handler", (_Quiet,), {"asked": asked or threading.Event(), "delay": delay})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    server.daemon_threads, server.block_on_close = True, False
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
