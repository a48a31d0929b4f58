"""Pieces that several views share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.figures import palette, themes
from workbench.figures.of_inspection import colour_of, default_path
from workbench.figures.words import value
from workbench.paths.catalog import get_path
from workbench.runs.case import DEVICE_UNKNOWN
from workbench.runs.inspect import Inspection
from workbench.runs.matrix import Cell
from workbench.ui import state
from workbench.ui.loading import variant_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "PLOT",
    "Slots",
    "callout",
    "code",
    "colour_of",
    "dark",
    "default_path",
    "device_missing",
    "error_box",
    "figures_row",
    "letters_on_primary",
    "no_narrower",
    "path_of",
    "pick_path",
    "pick_variant",
    "picture",
    "say_instead",
    "score_texts",
]

Slots = tuple[st.delta_generator.DeltaGenerator, st.delta_generator.DeltaGenerator]
# Of a picture that has no name of its own when it is saved: see ``downloads.picture``.
PLOT = {"displaylogo": False, "modeBarButtons": [["toImage"]], "scrollZoom": False}


def dark() -> bool:
    """Whether the viewer's page is dark: by the system's choice, or by that of the app's own menu."""
    return st.context.theme.type == "dark"


def picture(figure: go.Figure, key: str, **more: Any) -> None:
    """Show a figure in the colours of the viewer's theme. ``more``: of ``st.plotly_chart``."""
    st.plotly_chart(themes.darkened(figure) if dark() else figure, key=key, theme=None, **more)


def no_narrower(key: str, pixels: int) -> st.delta_generator.DeltaGenerator:
    """A container for a picture whose names would meet in a narrow window: there it moves sideways instead.

    Args:
        key: of the container, of letters and hyphens. pixels: that the picture keeps.
    """
    held = st.container(key=key)
    with held:
        st.html(
            f"<style>.st-key-{key} {{ overflow-x: auto; }} .st-key-{key} > div {{ min-width: {pixels}px; }}</style>"
        )
    return held


def callout(text: str, colour: str) -> None:
    """One sentence that stands out by a coloured edge."""
    edge = themes.on_dark(colour) if dark() else colour
    style = f"border-left:5px solid {edge};padding:0.1rem 0 0.1rem 0.8rem;margin-bottom:0.6rem;font-size:1.12rem;"
    style += "line-height:1.45"
    st.markdown(f'<div style="{style}">{escape(text)}</div>', unsafe_allow_html=True)


def code(text: str, language: str | None = None, **more: Any) -> None:
    """Text of fixed width, with a button that copies it, coloured by what ``language`` makes of its words.

    Streamlit's own colours of code have 2.3 to 3.8:1 on light paper, and no option changes them. ``more``: of
    ``st.code``.
    """
    if language is not None:
        st.html(code_style(dark()))
    st.code(text, language, **more)


def letters_on_primary() -> None:
    """Dark letters on what is filled with the bright primary colour of a dark page, where Streamlit puts white ones."""
    if dark():
        filled = '[data-testid="stBaseButton-primary"] *, [data-testid="stMultiSelect"] [data-tag] *'
        st.html(f"<style>{filled} {{ color: {palette.DARK_PAPER} !important; }}</style>")


def code_style(in_dark: bool) -> str:
    """The colours of words of code, as CSS that stands over Streamlit's own."""
    words = '[data-testid="stCode"] pre code .token.token'
    kinds = {".token": "inherit"} | {
        f".{kind}": themes.on_dark(colour) if in_dark else colour for kind, colour in palette.CODE.items()
    }
    return f"<style>{''.join(f'{words}{kind} {{ color: {colour}; }} ' for kind, colour in kinds.items())}</style>"


def error_box(error: Exception | str) -> None:
    """An error as a box with its message, shown as it is."""
    st.error(state.plain(str(error)), icon=":material/error:")


def device_missing(cells: Iterable[Cell]) -> str:
    """What to do where releases judge nothing for want of a device, after the sentence that says so; else empty."""
    reasons = [cell.unknown if cell.state == "unknown" else cell.state for cell in cells]
    judged = {"clean", "can lose", "loses", "fault"} & set(reasons)
    return "" if judged or DEVICE_UNKNOWN not in reasons else " Choose a device above."


def say_instead(options: Sequence[str], path: str, lacks: str) -> None:
    """Say that the path of the link is not what is shown. ``lacks``: why the view does not offer it."""
    chosen = state.current().path
    if chosen is not None and chosen not in options:
        st.caption(state.plain(f"The path chosen is {chosen}, {lacks}; shown is {path} instead."))


def path_of(found: Inspection, options: Sequence[str]) -> str:
    """The one of ``options`` that was chosen; else the one that a view shows first."""
    chosen = state.current().path
    return chosen if chosen is not None and chosen in options else default_path(found, options)


def pick_path(found: Inspection, options: Sequence[str], key: str, told: Callable[[str], str] = lambda _: "") -> str:
    """A selector of one of ``options``, which the URL carries. ``told``: what to say of a path that takes the row and
    that the op does not send it to."""
    path = path_of(found, options)
    refused = {risk.path for risk in found.census if risk.refused}

    def label(name: str) -> str:
        also = "reached" if name == found.reached else "refused" if name in refused else told(name)
        return f"{name} · {also}" if also else name

    st.session_state[key] = path

    def take() -> None:
        state.change(path=st.session_state[key], variant=None, bin=None)

    st.selectbox("Path", options, key=key, format_func=label, on_change=take)
    return path


def pick_variant(found: Inspection, path: str, options: Sequence[str], key: str) -> str:
    """A selector of one of the path's variants that are on offer, which the URL carries; at first the release's own.

    Another one that the link or another page brought is not shown, and that is said.
    """
    chosen, own = state.current().variant, variant_of(found, path)
    variant = chosen if chosen in options else own if own in options else options[0]
    st.session_state[key] = variant
    st.selectbox("Variant", options, key=key, on_change=state.bound("variant", key))
    if chosen is not None and chosen not in options:
        why = (
            "is not modelled" if chosen in [one.name for one in get_path(path).variants] else f"is no variant of {path}"
        )
        st.caption(state.plain(f"The variant chosen is {chosen}, which {why}; shown is {variant} instead."))
    return str(st.session_state[key])


def score_texts(scores: Iterable[float], digits: int = 9) -> list[str]:
    """Scores as text, since tables show neither infinities nor NaN; nine digits tell any two float32 apart."""
    return [value(score, digits) for score in scores]


def figures_row(numbers: Sequence[tuple[str, str, str]], widths: Sequence[float] | None = None) -> None:
    """Numbers with their names and an explanation, in one line. ``widths``: of its columns, equal by default; those
    beyond the numbers stay empty."""
    for column, (name, text, about) in zip(st.columns(widths or len(numbers)), numbers, strict=widths is None):
        column.metric(name, text, help=about or None)
