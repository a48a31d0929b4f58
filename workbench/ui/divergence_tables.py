"""Tables of compared runs: points by state, where they part, and the tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.analysis.divergence.selections import Judged
from workbench.analysis.divergence.states import STATES
from workbench.figures import palette
from workbench.figures.timeline import Timeline, token_mark
from workbench.figures.words import count, plural, value
from workbench.runs.divergence import Comparison
from workbench.runs.divergence_words import names_of, place

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig

SHOWN = 200
_LINE, _HEAD = 35, 38  # pixels of a table's lines


def state_chips(width: int | None = None) -> ColumnConfig:
    """A column of states."""
    return st.column_config.MultiselectColumn(
        "state", options=list(palette.STATE_TEXTS), color=list(palette.STATE_TEXTS.values()), width=width
    )


def show_counts(one: Comparison, laid: Timeline, chosen: int | None, key: str, take: Callable[[int], None]) -> None:
    """How many points are in each state, of what is drawn; a click on a line shows the first of them."""
    counts = Counter(one.points[number].state for number in laid.places)
    firsts: dict[str, int] = {}
    for number in laid.places:
        firsts.setdefault(one.points[number].state, number)
    states = [known for known in STATES if counts[known]]
    numbers = [firsts[known] for known in states]
    _select(key, numbers, chosen)
    st.markdown(f"**{plural(len(laid.places), 'point')}** by state")
    st.dataframe(
        pd.DataFrame(
            {
                "state": [[known] for known in states],
                "points": [counts[known] for known in states],
                "first": [place(one.points[firsts[known]]) for known in states],
            }
        ),
        key=key,
        hide_index=True,
        height="content",
        on_select=_clicked(key, numbers, take),
        selection_mode=["single-row", "single-cell"],
        column_config={
            "state": state_chips(110),
            "points": st.column_config.NumberColumn(format="localized", width=60),
            "first": st.column_config.TextColumn("first at", width=170),
        },
    )


def show_points(one: Comparison, laid: Timeline, chosen: int | None, key: str, take: Callable[[int], None]) -> None:
    """Where they part, in execution order; a click on a line shows the point."""
    parting = [number for number in laid.places if one.points[number].parts]
    numbers = parting[:SHOWN]
    if not numbers:
        st.markdown("**They part at none of these points**")
        return
    st.markdown(f"**Where they part** — {plural(len(parting), 'point')}, in the order of execution")
    points = [one.points[number] for number in numbers]
    columns: dict[str, Any] = {
        name: values if name in ("request", "op") else pd.array(list[Any](values), dtype="Int64")
        for name, values in names_of(points).items()
    }
    columns["row"] = [point.row for point in points]
    columns["state"] = [[point.state] for point in points]
    if any(point.what for point in points):
        columns["what"] = [point.what for point in points]
    verdicts = {side: [_verdict(getattr(point, f"judged_{side}")) for point in points] for side in "ab"}
    if any(any(told) for told in verdicts.values()):
        columns |= verdicts
    for side in "ab":
        stored = [getattr(point, side) for point in points]
        columns[f"row in {side}"] = pd.array([None if at is None else at.row for at in stored], dtype="Int64")
    _select(key, numbers, chosen)
    number_ = st.column_config.NumberColumn
    st.dataframe(
        pd.DataFrame(columns),
        key=key,
        hide_index=True,
        placeholder="–",
        height="content" if len(numbers) <= 8 else _HEAD + 8 * _LINE,
        on_select=_clicked(key, numbers, take),
        selection_mode=["single-row", "single-cell"],
        column_config={
            **{name: number_(format="localized", width=56) for name in ("step", "layer", "rank")},
            "call": number_("call of its name", format="localized", width=96),
            "row": number_("row of call", format="localized", width=80),
            "state": state_chips(110),
            "what": st.column_config.TextColumn("differs in", width=80),
            **{f"row in {side}": number_(f"row in {side}", format="localized", width=76) for side in "ab"},
            **{side: st.column_config.TextColumn(f"verdict {side}", width=100) for side in "ab"},
        },
    )
    if len(numbers) < len(parting):
        st.caption(f"The first {count(len(numbers))} of {count(len(parting))}; the picture shows all.")


def _select(key: str, numbers: Sequence[int], chosen: int | None) -> None:
    """Let a table show which of its lines is chosen."""
    st.session_state[key] = {"selection": {"rows": [numbers.index(chosen)] if chosen in numbers else []}}


def _clicked(key: str, numbers: Sequence[int], take: Callable[[int], None]) -> Callable[[], None]:
    """What a click on any cell of a table does: its line is taken."""

    def clicked() -> None:
        selection = st.session_state[key].selection
        places = [cell[0] for cell in selection.cells] or selection.rows
        if places:
            take(numbers[places[0]])

    return clicked


def _verdict(side: Judged | None) -> str | None:
    if side is None:
        return None
    return f"{side.verdict}, {count(side.missing)} lost" if side.missing else side.verdict


def show_tokens(one: Comparison) -> None:
    """The tokens of both runs, those that part first."""
    if not one.tokens:
        return
    parting = [token for token in one.tokens if token.parts]
    shown = [*parting, *(token for token in one.tokens if not token.parts)][:SHOWN]
    st.markdown(f"**Tokens** — {count(len(parting))} of {count(len(one.tokens))} part")
    margins = [(token.a, token.b) for token in shown]
    table: dict[str, Any] = {
        "request": [token.request for token in shown],
        "step": [token.step for token in shown],
        "state": [token_mark(token) for token in shown],
        "token_a": pd.array([token.token_a for token in shown], dtype="Int64"),
        "token_b": pd.array([token.token_b for token in shown], dtype="Int64"),
        "margin_a": [None if a is None else value(a.margin) for a, _ in margins],
        "margin_b": [None if b is None else value(b.margin) for _, b in margins],
        "flip": pd.array([token.flip_ulps for token in shown], dtype="Int64"),
        "moved": [None if token.moved is None else value(token.moved) for token in shown],
    }
    for name, known in list(table.items()):
        if all(cell is None or cell is pd.NA for cell in known):
            del table[name]
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    about = "best logit minus the second best"
    st.dataframe(
        pd.DataFrame(table),
        hide_index=True,
        placeholder="–",
        height="content" if len(shown) <= 8 else _HEAD + 8 * _LINE,
        column_config={
            "step": number(format="localized", width=56),
            "state": text(width=130),
            "token_a": number("token in a", format="%d", width=84),
            "token_b": number("token in b", format="%d", width=84),
            "margin_a": text("margin in a", alignment="right", width=96, help=about),
            "margin_b": text("margin in b", alignment="right", width=96, help=about),
            "flip": number(
                "ULPs apart",
                format="localized",
                width=110,
                help="between the logits of the two tokens, on the side where they lie farther apart",
            ),
            "moved": text("moved by", alignment="right", width=100, help="the greater change of the two logits"),
        },
    )
    if len(shown) < len(one.tokens):
        said = "those that part first" if parting else "in order"
        st.caption(f"{count(len(shown))} of {count(len(one.tokens))} shown, {said}.")
