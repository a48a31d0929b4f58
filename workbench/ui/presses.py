"""Presses of a button that are acted on when the page is drawn, and not before.

A choice that is made just before a press may reach the server together with it. What the button did for what it was
drawn with would then be done for what is chosen no longer, and nobody would see it.
"""

from __future__ import annotations

import streamlit as st

from workbench.ui.rowpage import Shown


def press(name: str, shown: Shown) -> None:
    """Note a press of a button, as its callback. ``name``: of the button; ``shown``: the row that it was drawn for."""
    st.session_state[_key(name)] = shown.key


def is_pressed(name: str, shown: Shown) -> bool:
    """Whether the button was pressed for this row, and that was not acted on yet."""
    return bool(st.session_state.get(_key(name)) == shown.key)


def drop_press(name: str) -> None:
    """Forget a press: it was acted on, or there is nothing to act on."""
    st.session_state.pop(_key(name), None)


def _key(name: str) -> str:
    return f"pressed:{name}"
