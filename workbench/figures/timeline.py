"""Where compared runs part: steps by layers, each point by its state, and the tokens beneath."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.grid import clickable, grounds, legend_height, marks_of
from workbench.figures.laid import ALL, GRAVITY, Cell, Timeline, timeline, token_mark, token_text
from workbench.figures.words import count, plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ALL", "Timeline", "timeline", "timeline_figure", "token_mark", "token_text"]

_WIDTH, _TALL = 1000, 340  # pixels that the cells are laid out for: what lies beneath them is still on the screen
_LEAST = 3.6  # pixels of a line
_PARTING = "first point at which they part"
_TOLD = 4  # states of a cell that are named
_LABELS = 24  # at an axis at most


def timeline_figure(laid: Timeline, chosen: int | None = None) -> go.Figure:
    """Steps to the right, layers downwards as they are executed, tokens beneath; a few steps of many layers downwards
    (``laid.turned``), tokens at the end of each. Each state by colour and symbol.

    Args:
        laid: what is drawn. chosen: the number of a point to outline.

    Returns:
        A figure whose marks stand where ``laid.drawn_at`` says; ``laid.point_at`` turns a clicked place into a point.
    """
    import plotly.graph_objects as go

    right, down = (laid.lanes, laid.columns) if laid.turned else (laid.columns, laid.lanes)
    columns, lanes = max(1, len(right)), max(1, len(down))
    high = min(26.0, max(_LEAST, _TALL / lanes))
    size = max(4.0, min(14.0, high - 2, _WIDTH / columns - 1))
    apart = max(1.5, 20 * columns / _WIDTH) if laid.turned else max(1.5, 14 / high)
    beyond = (columns if laid.turned else lanes) - 1 + apart  # where tokens stand, as a lane
    states = [state for state in GRAVITY if any(cell.state == state for cell in laid.cells)]
    marks = [mark for mark in palette.TOKENS if any(cell.mark == mark for cell in laid.tokens)]
    outlines = [_PARTING] * (laid.first is not None) + ["shown below"]
    legend = legend_height([*states, *(f"token: {mark.removeprefix('token ')}" for mark in marks), *outlines], _WIDTH)
    bottom = -beyond if laid.tokens and not laid.turned else -(lanes - 1)
    low, top = bottom - 12 / high, 12 / high
    shorts = _shorts(laid, _WIDTH / columns)
    room = 12 + 8 * max(map(len, shorts.values()), default=0) if laid.turned else 0
    figure = new_figure(int(legend + high * (top - low)) + 62, top=legend, bottom=62, left=76, right=24 + room)
    cells = [((cell.lane, cell.column) if laid.turned else (cell.column, cell.lane), cell) for cell in laid.cells]
    grounds(figure, [(*place, cell.state) for place, cell in cells], palette.STATES, columns, lanes)
    for state in states:
        told = [(x, -y, _told(laid, cell)) for (x, y), cell in cells if cell.state == state]
        marks_of(figure, told, state, palette.STATES, size)
    if laid.tokens and laid.turned:
        ends = [(0, cell.column, cell.mark) for cell in laid.tokens]
        grounds(figure, ends, palette.TOKENS, 1, lanes, left=beyond)
    elif laid.tokens:
        grounds(figure, [(cell.column, 0, cell.mark) for cell in laid.tokens], palette.TOKENS, columns, 1, -beyond)
    for mark in marks:
        spoken = [
            (*laid.drawn_at(cell.column, beyond), f"{_column(laid, cell.column)}<br>{cell.text}")
            for cell in laid.tokens
            if cell.mark == mark
        ]
        marks_of(figure, spoken, mark, palette.TOKENS, size, f"token: {mark.removeprefix('token ')}")
    for column, short in shorts.items():
        x, y = laid.drawn_at(column, beyond)
        figure.add_annotation(
            x=x + 0.5 * laid.turned,
            y=y,
            xanchor="left",
            xshift=6 if laid.turned else size / 2 + 8,
            text=plain(short),
            showarrow=False,
            font={"size": 12, "color": palette.TEXT},
            name="token",
        )
    for name, number, symbol, colour in (
        (_PARTING, laid.first, "circle-open", palette.TEXT),
        ("shown below", chosen, "square-open", palette.CHOSEN),
    ):
        place = None if number is None else laid.places.get(number)
        if place is not None:
            x, y = laid.drawn_at(*place)
            outline = {"symbol": symbol, "size": size + 7, "color": colour, "line": {"width": 2.5}}
            calm = {"marker": {"opacity": 1}}
            figure.add_trace(
                go.Scatter(
                    x=[x],
                    y=[y],
                    mode="markers",
                    name=name,
                    marker=outline,
                    hoverinfo="skip",
                    unselected=calm,
                )
            )
    steps, layers = "step" if laid.steps else "call, in the order of the run", "layer" if laid.layers else ""
    pad = max(0.5, 14 * columns / _WIDTH)
    last = beyond if laid.tokens and laid.turned else columns - 1
    end = ["token"] if laid.tokens else []
    ticks = _ticks(right, max(map(len, right), default=1))
    figure.update_xaxes(
        **axis(
            layers if laid.turned else steps,
            range=[-pad, last + pad],
            tickvals=[*ticks, *([beyond] * len(end) * laid.turned)],
            ticktext=[*(right[at] for at in ticks), *(end * laid.turned)],
            showgrid=False,
            ticks="outside",
            ticklen=4,
        )
    )
    rows = _ticks(down, 1, int(_TALL / 13) if high < 13 else 1000)
    figure.update_yaxes(
        **axis(
            steps if laid.turned else layers,
            range=[low, top],
            tickvals=[*(-at for at in rows), *([-beyond] * len(end) * (not laid.turned))],
            ticktext=[*(down[at] for at in rows), *(end * (not laid.turned))],
            showgrid=False,
        )
    )
    clickable(figure)
    return figure


def _shorts(laid: Timeline, wide: float) -> dict[int, str]:
    """The tokens in numbers, by their column, where there is room for all of them. ``wide``: pixels of a column."""
    found = {cell.column: cell.short for cell in laid.tokens if cell.short}
    longest = max(map(len, found.values()), default=0)
    return found if laid.turned or 7 * longest + 16 < wide / 2 else {}


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
