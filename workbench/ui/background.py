"""Work in a thread of its own, for all sessions that look at it.

A press of a widget ends the run of a whole page, but waits for the run of a fragment. So what takes a while in a
fragment goes on here, and the fragment looks at it now and then: it is drawn at once, and a press of Stop is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread
from weakref import WeakSet

import streamlit as st
import torch

from workbench.errors import WorkbenchError
from workbench.ui.closing import at_end, stop_all
from workbench.ui.loading import Opened
from workbench.ui.rowpage import row_part

POLL_S = 0.3  # seconds between two looks
Told = tuple[float, str]
"""How far work is, from 0 to 1, and in words."""


class Background:
    """Work that goes on a piece at a time until it is done or stopped; then it can be gone on with.

    Attributes:
        told: how far it is.
    """

    def __init__(self) -> None:
        self.told: Told = (0.0, "")
        self._lock, self._stop = Lock(), Event()
        self._thread: Thread | None = None
        self._problem: Exception | None = None

    @property
    def busy(self) -> bool:
        """Whether it is at work."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, pieces: Callable[[], Iterator[Told]]) -> None:
        """Go on; nothing where it is at work already. ``pieces`` does one after another, and tells how far it is."""
        with self._lock:
            if self.busy:
                return
            self._stop.clear()
            self._problem = None
            self._thread = Thread(target=self._run, args=(pieces,), name="background", daemon=True)
            _begun.add(self)
            self._thread.start()

    def stop(self) -> None:
        """Have it end after the piece that it is at."""
        self._stop.set()

    def problem(self) -> WorkbenchError | None:
        """What it ended with, if that is to be told; once. What is no error that a user can cause is raised."""
        with self._lock:
            found, self._problem = self._problem, None
        if found is None or isinstance(found, WorkbenchError):
            return found
        raise found

    def _run(self, pieces: Callable[[], Iterator[Told]]) -> None:
        torch.set_num_threads(1)  # which each thread says for itself
        try:
            for self.told in pieces():
                if self._stop.is_set():
                    return
        except Exception as error:  # the thread has nobody to tell
            self._problem = error


_begun: WeakSet[Background] = WeakSet()


@at_end
def _end() -> None:
    """Stop all of it: see ``closing.stop_all``."""
    stop_all(lambda: [one for one in _begun if one.busy], Background.stop)


def show_background(file: Opened, work: Background, key: str) -> None:
    """How far work is, and a button that stops it; the page is drawn anew when it has ended.

    Args:
        file: what the work is of. key: names it.
    """

    def draw() -> None:
        if not work.busy:
            st.rerun()
        left, right = st.columns([6, 1.15], vertical_alignment="center")
        left.progress(*work.told)
        right.button("Stop", key=f"stop:{key}", icon=":material/stop_circle:", width="stretch", on_click=work.stop)

    row_part(file, draw, POLL_S)
