"""Work in a thread of its own, for all sessions that look at it.

A press of a widget ends the run of a whole page, but waits for the run of a fragment. So what takes a while goes on
here, and the page looks at it now and then: it is drawn at once, and a press of Stop is heard.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import inf
from threading import Event, Lock, Thread
from weakref import WeakSet

import streamlit as st
import torch

from workbench.errors import WorkbenchError
from workbench.ui.closing import at_end, stop_all
from workbench.ui.loading import Opened
from workbench.ui.watching import POLL_S, watch

Told = tuple[float, str]
"""How far work is, from 0 to 1, and in words."""
_HELD_S = 0.1  # seconds after which work that is held up looks whether it was asked to stop


class StoppedError(Exception):
    """Work that was asked to stop within a piece."""


class Background:
    """Work that goes on a piece at a time until it is done or stopped; then it can be gone on with.

    Attributes:
        told: how far it is. asked_to_stop: set by ``stop``, for what waits within a piece.
    """

    def __init__(self) -> None:
        self.told: Told = (0.0, "")
        self._lock, self.asked_to_stop = Lock(), Event()
        self._thread: Thread | None = None
        self._problem: Exception | None = None
        self._unseen: float | None = None
        self._drawn, self._free = 0, Event()
        self._free.set()
        self._looked: dict[int, float] = {}  # when each session did last

    @property
    def busy(self) -> bool:
        """Whether it is at work."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop since it was begun."""
        return self.asked_to_stop.is_set()

    def start(self, pieces: Callable[[], Iterator[Told]], unseen: float | None = None) -> None:
        """Go on; nothing where it is at work already.

        Args:
            pieces: does one after another, and tells how far it is. unseen: seconds after which it stops where nobody
                looks at it.
        """
        with self._lock:
            self.look()
            if self.busy:
                return
            self.asked_to_stop.clear()
            self._problem, self._unseen = None, unseen
            self._thread = Thread(target=self._run, args=(pieces,), name="background", daemon=True)
            _begun.add(self)
            self._thread.start()

    def stop(self) -> None:
        """Have it end after the piece that it is at."""
        self.asked_to_stop.set()

    def tell(self, told: Told) -> None:
        """Say within a piece how far it is.

        Raises:
            StoppedError: it was asked to stop; what this ends is no problem.
        """
        self.told = told
        if self.stopping:
            raise StoppedError

    def look(self) -> None:
        """Say that this session looks at it."""
        self._looked[_session()] = time.monotonic()

    def leave(self) -> None:
        """Say that this session looks at something else now: what nobody else looks at is not gone on with."""
        self._looked.pop(_session(), None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hold it up between two pieces, while a page is drawn of what it did: beside each other both take longer."""
        with self._lock:
            self._drawn += 1
            self._free.clear()
        try:
            yield
        finally:
            with self._lock:
                self._drawn -= 1
                if not self._drawn:
                    self._free.set()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, for so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

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
                while not self._over() and not self._free.wait(_HELD_S):
                    pass
                if self._over():
                    return
        except StoppedError:
            pass
        except Exception as error:  # the thread has nobody to tell
            self._problem = error

    def _over(self) -> bool:
        return self.asked_to_stop.is_set() or self._forgotten()

    def _forgotten(self) -> bool:
        last = max(self._looked.copy().values(), default=-inf)  # sessions come and go meanwhile
        return self._unseen is not None and time.monotonic() - last > self._unseen


_begun: WeakSet[Background] = WeakSet()
_sessions = count()


def _session() -> int:
    return int(st.session_state.setdefault("background-session", next(_sessions)))


def follow(work: Background, what: str) -> None:
    """Have this session look at this work and leave what it looked at before. ``what``: names the kind of work."""
    before = st.session_state.get(f"followed:{what}")
    if before is not None and before is not work:
        before.leave()
    st.session_state[f"followed:{what}"] = work
    work.look()


@at_end
def _end() -> None:
    """Stop all of it: see ``closing.stop_all``."""
    stop_all(lambda: [one for one in _begun if one.busy], Background.stop)


def show_background(
    file: Opened,
    work: Background,
    key: str,
    stop: Callable[[], None] | None = None,
    more: Callable[[], bool] | None = None,
    every: float = POLL_S,
) -> None:
    """How far work is, and a button that stops it; the page is drawn anew when it has ended.

    Args:
        file: what the work is of. key: names it. stop: what the button does, if more than to stop the work. more:
            whether there is more to draw before it has ended. every: seconds between two looks.
    """

    def draw() -> None:
        work.look()
        done, text = work.told
        st.progress(done, f"Stopping. {text}" if work.stopping else text)

    def over() -> bool:
        return not work.busy or (more is not None and more()) or not file.capture.is_unchanged()

    left, right = st.columns([6, 1.15], vertical_alignment="center")
    right.button(
        "Stop",
        key=f"stop:{key}",
        icon=":material/stop_circle:",
        width="stretch",
        disabled=work.stopping,
        on_click=stop or work.stop,
    )
    with left:
        watch(draw, over, every)
