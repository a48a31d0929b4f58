"""How a page follows work that goes on elsewhere: the one way in which it is drawn anew without a press.

The browser asks for a fragment with ``run_every`` as often as it is told to, whatever the server does just then. Where
such a request meets the end of a run of the page, Streamlit drops what that run has not sent yet, or sends parts of it
without the others: the page stays half drawn, or shows an error of its own ("Bad delta path index"). So here

- what is asked for so is small, its elements are always the same, and nothing large is in it;
- it is begun by the page's run and as the last thing of it, so that no request can come before the page is there;
- it bears another name in each run of the page: a request that comes late is for what is there no more, and is dropped;
- nothing in it can be pressed: a press of what has another name by now would be dropped as well;
- it ends in one run of the whole page, which also draws what there is to see by then;
- while it goes on, whatever else would draw a part of the page draws all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count

import streamlit as st

POLL_S = 0.3  # seconds between two looks
_ON = "watching"


@dataclass(frozen=True)
class _Watch:
    place: st.delta_generator.DeltaGenerator
    draw: Callable[[], None]
    over: Callable[[], bool]
    every: float


_asked: ContextVar[list[_Watch] | None] = ContextVar("watches", default=None)
_names = count()


@contextmanager
def watched_page() -> Iterator[None]:
    """Around all that a page draws: begins at its end what ``watch`` was asked for."""
    st.session_state.pop(_ON, None)
    asked: list[_Watch] = []
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)
    for one in asked:
        _begin(one)


def watch(draw: Callable[[], None], over: Callable[[], bool], every: float = POLL_S) -> None:
    """Draw how far work is, here, and again now and then once the page is drawn; then draw the page anew.

    A button that stops the work belongs beside it, drawn by the page's own run.

    In a fragment that runs by itself the whole page is run instead.

    Args:
        draw: draws it, as the same elements each time. over: whether there is more to draw than that. every: seconds
            between two looks.
    """
    asked = _asked.get()
    if asked is None:
        st.rerun()
    place = st.empty()
    with place.container():
        draw()
    asked.append(_Watch(place, draw, over, every))


def part(draw: Callable[[], None], changed: Callable[[], bool] = lambda: False) -> None:
    """Draw a part of a page as a fragment: a press in it runs nothing else.

    Args:
        draw: draws it. changed: whether it is of something that is no more; the whole page runs then, as it does while
            something is watched.
    """
    drawn = False

    @st.fragment
    def one() -> None:
        nonlocal drawn
        if drawn and (st.session_state.get(_ON) or changed()):
            st.rerun()
        drawn = True
        draw()

    one()


def _begin(one: _Watch) -> None:
    def look() -> None:
        if one.over():
            st.rerun()
        one.draw()

    look.__qualname__ = f"{look.__qualname__}.{next(_names)}"  # which Streamlit knows a fragment by
    st.session_state[_ON] = True
    with one.place:
        st.fragment(look, run_every=one.every)()
