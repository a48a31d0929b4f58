"""Every path's threshold bin against the capacity of its buffer, on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.risk import Risk
from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.words import count, fill_text, holds, plain
from workbench.paths.catalog import get_path

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW = 27
_AXIS = {"capacity": "capacity", "takes": "what the buffer takes of it"}


def in_order(risks: Sequence[Risk], reached: str | None = None) -> list[Risk]:
    """The reached path first, then by how full its buffer is; those without one, then those that refuse the row."""

    def key(risk: Risk) -> tuple[bool, bool, float]:
        fill = (risk.population or 0) / risk.room if risk.room else -1.0
        return bool(risk.refused), risk.path != reached, -fill

    return sorted(risks, key=key)


def capacity_figure(risks: Sequence[Risk], reached: str | None = None) -> go.Figure:
    """Fill of each path's buffer, population / what it takes of the bin, on a log axis with the capacity at 1.

    Args:
        risks: one for each path, in the order to show. reached: the path that the row really takes.
    """
    import plotly.graph_objects as go

    figure = new_figure(96 + _ROW * len(risks), left=24, right=354, top=8, bottom=58)
    places = {risk.path: len(risks) - 1 - at for at, risk in enumerate(risks)}
    filled = [risk for risk in risks if risk.population is not None and risk.room]
    fills = np.array([(risk.population or 0) / (risk.room or 1) for risk in filled])
    lanes = np.array([places[risk.path] for risk in filled], dtype=float)
    colours = np.array([_colour(risk) for risk in filled])
    figure.add_traces(
        [
            go.Scatter(
                x=np.array([1.0, fill]),
                y=np.array([lane, lane]),
                mode="lines",
                line={"color": str(colour), "width": 4},
                hoverinfo="skip",
            )
            for fill, lane, colour in zip(fills, lanes, colours, strict=True)
        ]
    )
    figure.add_trace(
        go.Scatter(
            x=fills,
            y=lanes,
            mode="markers",
            name="fill",
            marker={
                "size": 13,
                "color": np.where([bool(risk.refused) for risk in filled], palette.PAPER, colours),
                "line": {"color": colours, "width": 2.5},
            },
            customdata=np.array([risk.path for risk in filled]),
            hovertext=np.array([_hover(risk) for risk in filled]),
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )
    low = min([0.5, *(fills / 1.6)])
    high = max([2.0, *(fills * 1.6)])
    # All at once: each that is added by itself has those before it checked again.
    figure.update_layout(annotations=_lanes(risks, places, reached))
    figure.update_xaxes(
        **axis(
            f"fill of the buffer: population of the threshold bin / {_AXIS[_room_word(risks)]} (log)",
            type="log",
            range=[math.log10(low), math.log10(high)],
            tickvals=_ticks(low, high),
            ticktext=[f"{tick:g}×" for tick in _ticks(low, high)],
        )
    )
    figure.update_yaxes(
        **axis(
            "",
            tickvals=[places[risk.path] for risk in risks],
            ticktext=[f"<b>▸ {risk.path}</b>" if risk.path == reached else risk.path for risk in risks],
            range=[-0.6, len(risks) + 0.3],
            showgrid=False,
            automargin=True,
        )
    )
    figure.add_vline(x=1, line={"color": palette.CAPACITY, "width": 1.5, "dash": "dash"})
    figure.add_annotation(
        x=0,
        y=len(risks) - 0.1,
        yanchor="middle",
        bgcolor=palette.PAPER,
        text=_room_word(risks),
        showarrow=False,
        font={"color": palette.CAPACITY, "size": 13},
        name="capacity",
    )
    return figure


def _room_word(risks: Sequence[Risk]) -> str:
    """Ranks of a cluster may take less of the bin than the whole capacity; then the axis is of what they take."""
    return "capacity" if all(risk.room == risk.capacity for risk in risks) else "takes"


def _colour(risk: Risk) -> str:
    return palette.REFUSED if risk.refused else palette.mark_colour(risk.told)


def _hover(risk: Risk) -> str:
    text = f"<b>{risk.path}</b><br>threshold bin {risk.threshold_bin}: {count(risk.population)} scores"
    text += f"<br>capacity {count(risk.capacity)}"
    if risk.room != risk.capacity:
        text += f"; the blocks take {count(risk.room)} of this bin: one of the cluster overflows first"
    if risk.refused:
        return text + "".join(f"<br>refused: {plain(reason)}" for reason in risk.refused)
    if risk.breach and not risk.buffered:
        text += "<br>the bin is taken whole, past the buffer"
    return f"{text}<br>risk: {risk.told}"


def _lanes(risks: Sequence[Risk], places: dict[str, int], reached: str | None) -> list[dict[str, object]]:
    """The numbers of each path in columns to the right of the axis."""
    columns = ((0.0, f"population / {_room_word(risks)}"), (164.0, "fill"), (240.0, "risk"))
    head = len(risks) - 0.1
    cells = [_cell(head, shift, f"<span style='color:{palette.MUTED}'>{text}</span>") for shift, text in columns]
    for risk in risks:
        lane = places[risk.path]
        grey = bool(risk.refused)
        if risk.population is None or not risk.room:
            numbers, filled = _uncompared(risk), ""
            grey = True
        else:
            numbers = f"{count(risk.population)} / {count(risk.room)}"
            filled = fill_text(risk.population, risk.room)
        level = palette.REFUSED_WORD if risk.refused else risk.told
        colour = palette.MUTED if grey else palette.TEXT
        bold = risk.path == reached
        for (shift, _), text in zip(columns, (numbers, filled, level), strict=True):
            shade = palette.risk_colour(level) if text == level and not risk.refused else colour
            styled = f"<span style='color:{shade}'>{text}</span>"
            cells.append(_cell(lane, shift, f"<b>{styled}</b>" if bold or text == level else styled))
    return cells


def _uncompared(risk: Risk) -> str:
    """What stands for the numbers of a path whose buffer is not held against a threshold bin: its capacity alone."""
    path = get_path(risk.path)
    capacity = path.capacity_of(path.variant(risk.variant))
    return "no buffer" if capacity is None else f"– / {holds(capacity)}"


def _cell(lane: float, shift: float, text: str) -> dict[str, object]:
    return {
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 16 + shift,
        "y": lane,
        "yanchor": "middle",
        "text": text,
        "showarrow": False,
    }


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten where few decades are shown, else powers of ten."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
