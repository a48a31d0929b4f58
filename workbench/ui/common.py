"""Pieces that several views share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

import streamlit as st

from workbench.figures import palette
from workbench.figures.words import value
from workbench.runs.inspect import Inspection, damage
from workbench.ui import state

Slots = tuple[st.delta_generator.DeltaGenerator, st.delta_generator.DeltaGenerator]
PLOT = {"displayModeBar": False, "scrollZoom": False}


def callout(text: str, colour: str) -> None:
    """One sentence that stands out by a coloured edge."""
    style = f"border-left:5px solid {colour};padding:0.1rem 0 0.1rem 0.8rem;margin-bottom:0.6rem;font-size:1.12rem;"
    style += "line-height:1.45"
    st.markdown(f'<div style="{style}">{escape(text)}</div>', unsafe_allow_html=True)


def colour_of(verdict: str | None, risk: str | None) -> str:
    """The colour of a finding: the verdict's where something was lost, else the risk's."""
    if verdict in ("lossy", "invalid"):
        return palette.VERDICTS[verdict]
    return palette.risk_colour(risk) if risk is not None else palette.VERDICTS.get(verdict or "", palette.REFUSED_TEXT)


def error_box(error: Exception | str) -> None:
    """An error as a box with its message, shown as it is."""
    st.error(state.plain(str(error)), icon=":material/error:")


def default_path(found: Inspection, options: Sequence[str]) -> str:
    """The path to show where none was chosen, the first of these among ``options``: what the sentence is about, the
    reached path, the judged that fares worst, one that takes the row, the first."""
    ran = [one for one in sorted(found.every, key=damage, reverse=True) if one.line.refused is None]
    head = found.headline
    wanted = [head.line.path] if head is not None and head.line.refused is None else []
    wanted += [found.reached, *(one.line.path for one in ran)]
    wanted += [risk.path for risk in found.census if not risk.refused]
    return next((name for name in wanted if name is not None and name in options), options[0])


def say_instead(options: Sequence[str], path: str, lacks: str) -> None:
    """Say that the path of the link is not what is shown. ``lacks``: why the view does not offer it."""
    chosen = state.current().path
    if chosen is not None and chosen not in options:
        st.caption(state.plain(f"The path chosen is {chosen}, {lacks}; shown is {path} instead."))


def pick_path(found: Inspection, options: Sequence[str], key: str, told: Callable[[str], str] = lambda _: "") -> str:
    """A selector of one of ``options``, which the URL carries. ``told``: what to say of a path that takes the row and
    that the op does not send it to."""
    chosen = state.current().path
    path = chosen if chosen is not None and chosen in options else default_path(found, options)
    refused = {risk.path for risk in found.census if risk.refused}

    def label(name: str) -> str:
        also = "reached" if name == found.reached else "refused" if name in refused else told(name)
        return f"{name} · {also}" if also else name

    st.session_state[key] = path

    def take() -> None:
        state.change(path=st.session_state[key], variant=None, bin=None)

    st.selectbox("Path", options, key=key, format_func=label, on_change=take)
    return path


def score_texts(scores: Iterable[float], digits: int = 9) -> list[str]:
    """Scores as text, since tables show neither infinities nor NaN; nine digits tell any two float32 apart."""
    return [value(score, digits) for score in scores]


def figures_row(numbers: Sequence[tuple[str, str, str]], widths: Sequence[float] | None = None) -> None:
    """Numbers with their names and an explanation, in one line. ``widths``: of its columns, equal by default; those
    beyond the numbers stay empty."""
    for column, (name, text, about) in zip(st.columns(widths or len(numbers)), numbers, strict=widths is None):
        column.metric(name, text, help=about or None)
