"""The bar that leads from page to page: its links say what a page will show, as its own URL does once it is open.

Streamlit's own navigation turns to a page without parameters, so that its links, opened in another tab or kept, lose
the row. Its place in the window, above all that scrolls, is taken by these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from workbench.ui.carried import KEPT, Carried, Params

_STYLE = Path(__file__).with_suffix(".css")  # which names the keys of containers below


@dataclass(frozen=True)
class Stop:
    """A page on the bar. ``carried``: what its URL says; ``None`` where it says nothing."""

    page: st.Page
    carried: Carried[Any] | None = None

    @property
    def params(self) -> Params:
        """What its URL says when it is turned to now."""
        return {} if self.carried is None else self.carried.params()


class Bar:
    """The bar, drawn."""

    def __init__(self, groups: Sequence[Sequence[Stop]]) -> None:
        self._drawn: list[tuple[Stop, st.delta_generator.DeltaGenerator, Params]] = []
        st.html(_STYLE)
        with st.container(horizontal=True, gap=None, key="pages", vertical_alignment="center"):
            for number, stops in enumerate(groups):
                with st.container(horizontal=True, gap=None, width="content", key=f"pages-group-{number}"):
                    slots = [st.empty() for _ in stops]
                self._drawn += [(stop, slot, self._draw(stop, slot)) for stop, slot in zip(stops, slots, strict=True)]

    @staticmethod
    def _draw(stop: Stop, slot: st.delta_generator.DeltaGenerator) -> Params:
        params = stop.params
        pairs = [(name, text) for name, texts in params.items() for text in texts]
        kept = [(KEPT, "1")] if pairs else []
        slot.page_link(stop.page, label=stop.page.title, width="content", query_params=pairs + kept)
        return params

    def follow(self) -> None:
        """Draw again the links whose pages would say something else now that a page has run."""
        self._drawn = [
            (stop, slot, params if stop.params == params else self._draw(stop, slot))
            for stop, slot, params in self._drawn
        ]
