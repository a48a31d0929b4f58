"""Where compared runs part: steps by layers, each point by its state, and the tokens beneath."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
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
    _grounds(figure, [(cell.column, cell.lane, cell.state) for cell in laid.cells], palette.STATES, columns, lanes)
    for state in states:
        cells = [cell for cell in laid.cells if cell.state == state]
        _marks(figure, [(cell.column, -cell.lane, _told(laid, cell)) for cell in cells], state, palette.STATES, size)
    if laid.tokens:
        _grounds(figure, [(cell.column, 0, cell.mark) for cell in laid.tokens], palette.TOKENS, columns, 1, below)
    for mark in marks:
        told = [
            (cell.column, below, f"{_column(laid, cell.column)}<br>{cell.text}")
            for cell in laid.tokens
            if cell.mark == mark
        ]
        _marks(figure, told, mark, palette.TOKENS, size, f"token: {mark.removeprefix('token ')}")
    for name, number, symbol, colour in (
        ("first point at which they part", laid.first, "circle-open", palette.TEXT),
        ("shown below", chosen, "square-open", palette.THRESHOLD),
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
    figure.update_layout(
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "bottom",
            "itemclick": False,
            "itemdoubleclick": False,
            "itemsizing": "constant",
            "font": {"size": 12.5},
        },
        clickmode="event+select",
        dragmode=False,
        hovermode="closest",
        hoverdistance=-1,  # the mark of the cell under the pointer, wherever in the cell it is
    )
    return figure


def _grounds(
    figure: go.Figure,
    cells: list[tuple[int, int, str]],
    marks: Mapping[str, tuple[str, str]],
    columns: int,
    lanes: int,
    top: float = 0,
) -> None:
    """A tint behind each mark, so that states are seen from afar. Cells: (column, lane, mark)."""
    import plotly.graph_objects as go

    names = list(marks)
    grid = np.zeros((lanes, columns), dtype=np.int8)
    for column, lane, mark in cells:
        grid[lane, column] = names.index(mark) + 1
    colours = [palette.PAPER, *(_tint(marks[name][0]) for name in names)]
    steps = [(at / len(colours), (at + 1) / len(colours)) for at in range(len(colours))]
    figure.add_trace(
        go.Heatmap(
            z=grid,
            x=np.arange(columns, dtype=np.int32),
            y=top - np.arange(lanes, dtype=np.float32),
            zmin=-0.5,
            zmax=len(names) + 0.5,
            colorscale=[(end, colour) for ends, colour in zip(steps, colours, strict=True) for end in ends],
            showscale=False,
            hoverinfo="skip",
            xgap=1,
            ygap=1,
        )
    )


def _tint(colour: str, share: float = 0.28) -> str:
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02X}" for part in parts)


def _marks(
    figure: go.Figure,
    told: list[tuple[int, float, str]],
    name: str,
    marks: Mapping[str, tuple[str, str]],
    size: float,
    title: str = "",
) -> None:
    import plotly.graph_objects as go

    colour, symbol = marks[name]
    small = name == "same"
    open_ = symbol.endswith("-open")
    figure.add_trace(
        go.Scatter(
            x=np.array([x for x, _, _ in told], dtype=np.int32),
            y=np.array([y for _, y, _ in told], dtype=np.float32),
            mode="markers",
            name=title or name,
            marker={
                "symbol": symbol,
                "size": size * 0.8 if small else size,
                "color": colour,
                "opacity": 1,
                "line": {"width": max(1.2, min(2, size / 5)) if open_ else 0, "color": colour},
            },
            hovertext=[text for _, _, text in told],
            hovertemplate="%{hovertext}<extra></extra>",
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
        )
    )


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
