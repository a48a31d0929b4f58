"""Grids of marks: a tint behind each, so that kinds are seen from afar, and a symbol of its own for each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.figures import palette
from workbench.figures.frame import axis

if TYPE_CHECKING:
    import plotly.graph_objects as go

CALM = ("same", "clean")  # kinds whose marks are smaller
_FEWEST = 4  # columns that there is room for
_SPARE = 40  # pixels beside a legend's entries, which are not measured


def grounds(
    figure: go.Figure,
    cells: list[tuple[int, int, str]],
    marks: Mapping[str, palette.Mark],
    columns: int,
    lanes: int,
    top: float = 0,
    left: float = 0,
    empty: str = palette.PAPER,
) -> None:
    """A tint behind each mark, so that states are seen from afar. Cells: (column, lane, mark); ``top``, ``left``: where
    the first lane and the first column are; ``empty``: the colour of places without a mark."""
    import plotly.graph_objects as go

    names = list(marks)
    grid = np.zeros((lanes, columns), dtype=np.int8)
    for column, lane, mark in cells:
        grid[lane, column] = names.index(mark) + 1
    colours = [empty, *(mark.ground for mark in marks.values())]
    steps = [(at / len(colours), (at + 1) / len(colours)) for at in range(len(colours))]
    figure.add_trace(
        go.Heatmap(
            z=grid,
            x=np.arange(columns, dtype=np.int32) if left == 0 else left + np.arange(columns, dtype=np.float32),
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


def marks_of(
    figure: go.Figure,
    told: Sequence[tuple[float, float, str]],
    name: str,
    marks: Mapping[str, palette.Mark],
    size: float,
    title: str = "",
) -> None:
    """The marks of one kind. told: (x, y, what a hand over it reads); title: in the legend, the name by default."""
    import plotly.graph_objects as go

    colour, symbol, _ = marks[name]
    small = name in CALM
    open_ = symbol.endswith("-open")
    figure.add_trace(
        go.Scatter(
            x=_small([x for x, _, _ in told]),
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


def _small(places: list[float]) -> np.ndarray:
    whole = all(float(place).is_integer() for place in places)
    return np.array(places, dtype=np.int32 if whole else np.float32)


def outline(figure: go.Figure, x: float, y: float, size: float) -> None:
    """A square around the mark whose cell is told below the picture."""
    import plotly.graph_objects as go

    figure.add_trace(
        go.Scatter(
            x=[x],
            y=[y],
            mode="markers",
            name="shown below",
            marker={"symbol": "square-open", "size": size, "color": palette.CHOSEN, "line": {"width": 2.5}},
            hoverinfo="skip",
            unselected={"marker": {"opacity": 1}},
        )
    )


def label_axes(
    figure: go.Figure, title: str, names: Sequence[str], labels: Sequence[str], *, turned: bool, top: bool = False
) -> None:
    """Columns named below, or at the top, ``turned`` where they are long, and lanes named at the left, the first one at
    the top. A picture of few columns leaves room at the right, so that no cell is as wide as the page."""
    columns, lanes = len(names), len(labels)
    more = {"side": "top", "ticks": "", "showline": False} if top else {}
    figure.update_xaxes(
        **axis(
            "" if top else title,
            range=[-0.6, max(columns, _FEWEST) - 0.4],
            **more,
            tickvals=list(range(columns)),
            ticktext=list(names),
            tickangle=-60 if turned else 0,
            showgrid=False,
        )
    )
    if top:  # the title has its place in the corner, where it takes no line of its own
        figure.add_annotation(
            xref="paper",
            x=0,
            xanchor="right",
            xshift=-8,
            yref="paper",
            y=1,
            yanchor="bottom",
            text=f"{title} →",
            showarrow=False,
            font={"size": 12, "color": palette.MUTED},
            name="columns",
        )
    figure.update_yaxes(
        **axis(
            "",
            range=[-(lanes - 1) - 0.6, 0.6],
            tickvals=[-lane for lane in range(lanes)],
            ticktext=list(labels),
            showgrid=False,
        )
    )


def legend_height(names: Sequence[str], wide: int) -> int:
    """Pixels that a legend takes above a picture. ``wide``: what its lines may take; entries that do not fit one line
    stand in columns."""
    each = _entries(names)
    lines = 1 if sum(each) <= wide else math.ceil(len(each) / max(1, wide // max(each)))
    return 14 + 19 * lines


def legend_width(names: Sequence[str]) -> int:
    """Pixels of the columns below which a legend of one line may take two."""
    return sum(_entries(names)) + _SPARE


def _entries(names: Sequence[str]) -> list[int]:
    return [36 + 7 * len(name) for name in names]


def clickable(figure: go.Figure) -> None:
    """The legend above, and marks that are met wherever in their cell the pointer is."""
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
        hoverdistance=-1,
    )
