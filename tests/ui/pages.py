"""Every page of the app, driven by itself: what it shows, what that takes of a core, and what travels to a browser."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.testing.v1 import AppTest

PAGES = {
    "inspect": "workbench.ui.inspector.inspect_page",
    "overview": "workbench.ui.overview.overview_page",
    "compare": "workbench.ui.compare.compare_page",
    "what-if": "workbench.ui.whatif.whatif_page",
    "remedies": "workbench.ui.remedies.remedies_page",
    "divergence": "workbench.ui.divergence.divergence_page",
    "repeat": "workbench.ui.repeat.repeat_page",
    "export": "workbench.ui.export.export_page",
    "releases": "workbench.ui.releases.releases_page",
    "paths": "workbench.ui.paths.paths_page",
    "environment": "workbench.ui.environment.environment_page",
}
ROW_VIEWS: dict[str, dict[str, str]] = {
    "inspect": {},
    "inspect, capacity": {"view": "capacity"},
    "inspect, diff": {"view": "diff"},
    "compare": {},
    "what-if": {},
    "remedies": {},
    "repeat": {},
    "export": {},
}
"""Views of one row: the page up to the comma, and its parameters."""


def driven(page: str, given: Sequence[Path], timeout: float = 60, **params: object) -> AppTest:
    """A page, not yet run, with files and folders given at start."""
    module, _, function = PAGES[page].rpartition(".")
    sys.argv[1:] = map(str, given)
    test = AppTest.from_string(
        f"import streamlit as st\nfrom workbench.ui.pages import navigation\nfrom {module} import {function}\n"
        f"st.navigation(navigation())\n{function}()\n",
        default_timeout=timeout,
    )
    for name, value in params.items():
        test.query_params[name] = value if isinstance(value, list) else str(value)
    return test


def settled(test: AppTest, seconds: float = 60) -> AppTest:
    """The page once nothing works for it any more."""
    end = time.monotonic() + seconds
    while any(one.label == "Stop" for one in test.button):
        assert time.monotonic() < end
        time.sleep(0.05)
        test.run()
    return test


@dataclass
class Sent:
    """What a run sends to the browser.

    Attributes:
        seconds: that the process had on a core. sizes: bytes of each message, and what it is of.
    """

    seconds: float = 0.0
    sizes: list[tuple[str, int]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(size for _, size in self.sizes)


@contextmanager
def measured() -> Iterator[Sent]:
    """Counts what runs within send, and what they take of a core. As the server does, a large message that was sent
    before is counted as its name alone."""
    sent, enqueue = Sent(), ForwardMsgQueue.enqueue
    named: set[str] = set()

    def counted(self: ForwardMsgQueue, message: Any) -> None:
        kind = message.WhichOneof("type")
        if kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            kind = message.delta.new_element.WhichOneof("type")
        name = message.hash if message.metadata.cacheable else ""
        sent.sizes.append((kind, len(name) if name in named else message.ByteSize()))
        named.update([name] if name else [])
        enqueue(self, message)

    ForwardMsgQueue.enqueue = counted  # type: ignore[method-assign]
    started = time.process_time()
    try:
        yield sent
    finally:
        sent.seconds = time.process_time() - started
        ForwardMsgQueue.enqueue = enqueue  # type: ignore[method-assign]


def content(test: AppTest) -> list[str]:
    """Everything that a page says, tabulates and draws, in a form that can be compared."""
    assert not test.exception, [one.value for one in test.exception]
    kinds = ("markdown", "caption", "info", "error", "metric", "button", "selectbox")
    said = [f"{kind}: {one.label if kind == 'button' else one.value}" for kind in kinds for one in getattr(test, kind)]
    tables = [one.value.to_dict("list") for one in (*test.dataframe, *test.table)]
    charts = [json.loads(one.proto.spec) for one in test.get("plotly_chart")]
    return [*said, *map(repr, tables), *map(json.dumps, charts)]
