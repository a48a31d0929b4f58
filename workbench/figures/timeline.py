"""Where compared runs part: steps by layers, each point by its state, and the tokens beneath."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.grid import clickable, grounds, marks_of
from workbench.figures.laid import ALL, GRAVITY, Cell, Timeline, timeline, token_mark, token_text
from workbench.figures.words import count

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ALL", "Timeline", "timeline", "timeline_figure", "token_mark", "token_text"]

_WIDTH, _TALL = 1000, 440  # pixels that the cells are laid out for
_LEGEND = 150  # pixels that an entry of the legend takes at most
_TOLD = 4  # states of a cell that are named
_LABELS = 24  # at an axis at most


def timeline_figure(laid: Timeline, chosen: int | None = None) -> go.Figure:
    """Steps to the right, layers downwards as they are executed, tokens beneath; each state by colour and symbol.

    Args:
        laid: what is drawn. chosen: the number of a point to outline.

    Returns:
        A figure whose marks stand at (column, -lane); ``laid.point_at`` turns a clicked place into a point.
    """
    import plotly.graph_objects as go

    columns, lanes = max(1, len(laid.columns)), max(1, len(laid.lanes))
    high = min(26.0, max(4.4, _TALL / lanes))
    size = max(4.0, min(14.0, high - 2, _WIDTH / columns - 1))
    gap = max(1.5, 14 / high)
    below = -(lanes - 1) - gap
    states = [state for state in GRAVITY if any(cell.state == state for cell in laid.cells)]
    marks = [mark for mark in palette.TOKENS if any(cell.mark == mark for cell in laid.tokens)]
    entries = len(states) + len(marks) + (laid.first is not None) + 1
    legend = 24 * math.ceil(entries / (_WIDTH // _LEGEND)) + 12
    bottom = below if laid.tokens else -(lanes - 1)
    low, top = bottom - 12 / high, 12 / high
    figure = new_figure(int(legend + high * (top - low)) + 62, top=legend, bottom=62, left=76)
    grounds(figure, [(cell.column, cell.lane, cell.state) for cell in laid.cells], palette.STATES, columns, lanes)
    for state in states:
        cells = [cell for cell in laid.cells if cell.state == state]
        marks_of(figure, [(cell.column, -cell.lane, _told(laid, cell)) for cell in cells], state, palette.STATES, size)
    if laid.tokens:
        grounds(figure, [(cell.column, 0, cell.mark) for cell in laid.tokens], palette.TOKENS, columns, 1, below)
    for mark in marks:
        told = [
            (cell.column, below, f"{_column(laid, cell.column)}<br>{cell.text}")
            for cell in laid.tokens
            if cell.mark == mark
        ]
        marks_of(figure, told, mark, palette.TOKENS, size, f"token: {mark.removeprefix('token ')}")
    for name, number, symbol, colour in (
        ("first point at which they part", laid.first, "circle-open", palette.TEXT),
        ("shown below", chosen, "square-open", palette.CHOSEN),
    ):
        place = None if number is None else laid.places.get(number)
        if place is not None:
            outline = {"symbol": symbol, "size": size + 7, "color": colour, "line": {"width": 2.5}}
            calm = {"marker": {"opacity": 1}}
            figure.add_trace(
                go.Scatter(
                    x=[place[0]],
                    y=[-place[1]],
                    mode="markers",
                    name=name,
                    marker=outline,
                    hoverinfo="skip",
                    unselected=calm,
                )
            )
    pad = max(0.5, 14 * columns / _WIDTH)
    figure.update_xaxes(
        **axis(
            "step" if laid.steps else "call, in the order of the run",
            range=[-pad, columns - 1 + pad],
            tickvals=(ticks := _ticks(laid.columns, max(map(len, laid.columns), default=1))),
            ticktext=[laid.columns[at] for at in ticks],
            showgrid=False,
            ticks="outside",
            ticklen=4,
        )
    )
    rows = _ticks(laid.lanes, 1, int(_TALL / 13) if high < 13 else 1000)
    names = [laid.lanes[at] for at in rows]
    figure.update_yaxes(
        **axis(
            "layer" if laid.layers else "",
            range=[low, top],
            tickvals=[*(-at for at in rows), *([below] if laid.tokens else [])],
            ticktext=[*names, *(["token"] if laid.tokens else [])],
            showgrid=False,
        )
    )
    clickable(figure)
    return figure


def _column(laid: Timeline, column: int) -> str:
    label = laid.columns[column]
    return f"{'step' if laid.steps else 'call'}{'s' if '–' in label else ''} {label}"


def _told(laid: Timeline, cell: Cell) -> str:
    where = _column(laid, cell.column)
    if laid.layers:
        label = laid.lanes[cell.lane]
        where += f", layer{'s' if '–' in label else ''} {label}"
    told = [f"{count(number)} {state}" for state, number in cell.counts[:_TOLD]]
    others = sum(number for _, number in cell.counts[_TOLD:])
    return f"{where}<br>{', '.join(told)}" + (f", {count(others)} others" if others else "")


def _ticks(labels: Sequence[str], characters: int, most: int | None = None) -> list[int]:
    """Places that are labelled, evenly spaced, so that labels do not touch."""
    most = min(_LABELS, int(_WIDTH / (9 * characters + 14))) if most is None else most
    every = math.ceil(len(labels) / max(1, most)) or 1
    if every > 1:  # a round number of steps between labels
        power = 10 ** int(math.log10(every))
        every = next(power * round_ for round_ in (1, 2, 5, 10) if power * round_ >= every)
    return list(range(0, len(labels), every))
