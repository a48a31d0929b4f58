"""Which scores share a bin: the bins around a score to scale, and how wide a bin is at each magnitude."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.resolution import (
    Interval,
    curve,
    interval,
    neighbours,
    spacing,
)
from workbench.figures import palette
from workbench.figures.frame import axis, casing, new_figure
from workbench.figures.words import count, value
from workbench.numeric.keys import GREATEST_HALF, OVERFLOW
from workbench.paths.steps import Key

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

MAGNITUDES = (0.001, 1.0, 100.0, 10000.0, GREATEST_HALF)  # whose bins a table tells
MOST_BINS = 160  # drawn of one key
_AROUND = 3.2  # bins of the coarsest key to either side
_LANE = 76
_LEAST, _GREATEST = -20, 19  # powers of two that the curve spans
_DASHES = ("solid", "dash")
_SYMBOLS = ("circle", "diamond")


def window(keys: Mapping[str, Key], score: float) -> tuple[float, float]:
    """The least and the greatest score of the number line around a score."""
    widths = []
    for key in keys.values():
        found = interval(key, score)
        widths.append(_drawn_width(found))
    reach = max(widths) * _AROUND
    return score - reach, score + reach


def _drawn_width(found: Interval) -> float:
    """A bin of an infinity has no width: it is drawn half as wide as the numbers before it are large."""
    if not found.overflows:
        return found.width
    end = found.low if math.isinf(found.high) else found.high
    return (abs(end) if math.isfinite(end) else OVERFLOW) / 8


def line_figure(keys: Mapping[str, Key], score: float) -> go.Figure:
    """The bins around a score, a lane for each key, to scale.

    Args:
        keys: by the name that a lane bears; one or two. score: no NaN; an infinity is drawn at its bin's near end.

    Returns:
        A figure with two traces a key, ``NAME`` for its bins and ``NAME, this bin`` for the one of the score; their
        ``customdata`` holds the bins' (bin, low, high, width, values).
    """

    place = _place(score)
    low, high = window(keys, place)
    figure = new_figure(86 + _LANE * len(keys), left=24, right=24, top=34, bottom=52)
    for lane, (name, key) in enumerate(keys.items()):
        here = interval(key, score)
        bins = neighbours(key, place, high - place, MOST_BINS)
        others = [one for one in bins if one.bin != here.bin]
        _bars(figure, name, -lane, others, low, high, [palette.BIN] * len(others))
        _bars(figure, f"{name}, this bin", -lane, [here], low, high, [palette.THRESHOLD])
        figure.add_annotation(
            x=low,
            y=-lane + 0.36,
            xanchor="left",
            yanchor="bottom",
            text=_lane_text(name, key, here),
            showarrow=False,
            font={"size": 12.5, "color": palette.TEXT},
            bgcolor=palette.PAPER,
            name="lane",
        )
    line = {"color": palette.CHOSEN, "width": 2}
    figure.add_vline(x=place, line=casing(line))
    figure.add_vline(x=place, line=line)
    figure.add_annotation(
        x=place,
        y=1,
        yref="paper",
        yanchor="bottom",
        yshift=6,
        text=f"<b>{value(score, 9)}</b>",
        showarrow=False,
        font={"color": palette.CHOSEN, "size": 13},
        name="score",
    )
    halves = any(key.kind == "half" for key in keys.values())
    ends = [end for end in (-OVERFLOW, OVERFLOW) if halves and low < end < high]
    if ends:
        _overflow(figure, ends)
    figure.update_xaxes(**axis("score", range=[low, high], tickformat=".7~g", showgrid=False, fixedrange=True))
    figure.update_yaxes(range=[-len(keys) + 0.55, 0.85], visible=False, fixedrange=True)
    figure.update_layout(barmode="overlay", bargap=0, hovermode="closest", dragmode=False)
    return figure


def _place(score: float) -> float:
    return score if math.isfinite(score) else math.copysign(OVERFLOW * 1.05, score)


def _lane_text(name: str, key: Key, here: Interval) -> str:
    ends = f"{value(here.low, 8)} … {value(here.high, 8)}"
    wide = "no upper end" if here.overflows else f"{value(here.width, 6)} wide"
    return f"<b>{name}</b>, {key.in_words}: this bin {ends}, {wide}, {count(here.values)} different scores"


def _bars(
    figure: go.Figure, name: str, lane: int, bins: Sequence[Interval], low: float, high: float, colours: list[str]
) -> None:
    import plotly.graph_objects as go

    starts = np.clip(np.array([one.low for one in bins], dtype=np.float64), low, high)
    ends = np.array([one.low + one.width if math.isfinite(one.low) else one.high for one in bins], dtype=np.float64)
    ends = np.clip(ends, low, high)
    figure.add_trace(
        go.Bar(
            x=ends - starts,
            base=starts,
            y=[lane] * len(bins),
            width=0.62,
            orientation="h",
            name=name,
            marker={"color": colours, "line": {"color": palette.PAPER, "width": 1}},
            customdata=[[one.bin, one.low, one.high, one.width, one.values] for one in bins],
            hovertext=[_told(one) for one in bins],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )


def _told(one: Interval) -> str:
    wide = "everything beyond" if one.overflows else f"{value(one.width, 6)} wide"
    return f"bin {one.bin}: {value(one.low, 9)} … {value(one.high, 9)}<br>{wide}, {count(one.values)} different scores"


def _overflow(figure: go.Figure, ends: Sequence[float]) -> None:
    for end in ends:
        figure.add_vline(x=end, line={"color": palette.LOSSY, "width": 2, "dash": "dot"}, layer="below")
    at, beyond = ("65520", "greater") if ends[-1] > 0 else (value(-OVERFLOW), "less")
    figure.add_annotation(
        x=1,
        xref="paper",
        y=1,
        yref="paper",
        xanchor="right",
        yanchor="bottom",
        yshift=6,
        text=f"┆ fp16 overflows at {at}: all that is {beyond} shares one bin",
        showarrow=False,
        font={"color": palette.LOSSY_TEXT, "size": 12},
        name="overflow",
    )


def resolution_figure(keys: Mapping[str, Key], score: float) -> go.Figure:
    """Width of a bin against the magnitude of a score, both on log scales, with float32's own steps beneath.

    Args:
        keys: by name; one or two. score: marked by its magnitude, where it is on the axis.

    Returns:
        A figure with a trace of each name, of (magnitude, width of its bin), that ends where the key overflows.
    """
    import plotly.graph_objects as go

    figure = new_figure(330, left=76, right=20, top=30, bottom=56)
    edges = [2.0**power for power in range(_LEAST, _GREATEST + 1)]
    inside = [1.5 * edge for edge in edges[:-1]]
    for at, (name, key) in enumerate(keys.items()):
        widths = curve(key, inside)
        kept = [(edge, width) for edge, width in zip(edges, widths, strict=False) if math.isfinite(width)]
        kept.append((min(kept[-1][0] * 2, OVERFLOW) if key.kind == "half" else edges[-1], kept[-1][1]))
        figure.add_trace(
            go.Scatter(
                x=[x for x, _ in kept],
                y=[y for _, y in kept],
                mode="lines",
                name=name,
                line={
                    "shape": "hv",
                    "width": 2.5,
                    "color": (palette.THRESHOLD, palette.AT_RISK_TEXT)[at],
                    "dash": _DASHES[at],
                },
                hovertemplate=f"{name}<br>from %{{x:.5~g}}: %{{y:.4~g}} wide<extra></extra>",
            )
        )
    figure.add_trace(
        go.Scatter(
            x=edges,
            y=[spacing(edge) for edge in edges],
            mode="lines",
            name="float32: from a number to the next",
            line={"shape": "hv", "width": 1.2, "color": palette.MUTED, "dash": "dot"},
            hovertemplate="float32<br>from %{x:.5~g}: %{y:.3~g} apart<extra></extra>",
        )
    )
    _marks(figure, keys, score)
    if any(key.kind == "half" for key in keys.values()):
        figure.add_vline(x=OVERFLOW, line={"color": palette.LOSSY, "width": 1.5, "dash": "dot"})
        figure.add_annotation(
            x=math.log10(OVERFLOW),
            y=0.03,
            yref="paper",
            xanchor="right",
            yanchor="bottom",
            text="fp16 overflows at 65520: <br>one bin for all that is greater ",
            align="right",
            showarrow=False,
            font={"color": palette.LOSSY_TEXT, "size": 12},
            name="overflow",
        )
    ticks = [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5]
    figure.update_xaxes(
        **axis(
            "magnitude of the score (log)",
            type="log",
            range=[math.log10(edges[0]), math.log10(edges[-1])],
            tickvals=ticks,
            ticktext=[value(tick) for tick in ticks],
            fixedrange=True,
        )
    )
    figure.update_yaxes(
        **axis("width of a bin (log)", type="log", range=[-13.5, 6.9], exponentformat="power", dtick=2, fixedrange=True)
    )
    figure.update_layout(
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "itemclick": False, "font": {"size": 12}},
        dragmode=False,
        hovermode="closest",
    )
    return figure


def _marks(figure: go.Figure, keys: Mapping[str, Key], score: float) -> None:
    """The bin of the score on each line."""
    import plotly.graph_objects as go

    size = abs(score)
    if not 2.0**_LEAST <= size <= 2.0**_GREATEST:
        return
    figure.add_vline(x=size, line={"color": palette.CHOSEN, "width": 1.2, "dash": "dash"})
    widest = max(interval(key, score).width for key in keys.values())
    for at, (name, key) in enumerate(keys.items()):
        found = interval(key, score)
        if found.overflows:
            continue
        figure.add_trace(
            go.Scatter(
                x=[size],
                y=[found.width],
                mode="markers+text",
                name=f"{name} at {value(score, 6)}",
                text=[f" {value(found.width, 4)}"],
                textposition="top left" if found.width == widest else "bottom right",
                textfont={"size": 12.5, "color": palette.TEXT},
                marker={"symbol": _SYMBOLS[at], "size": 10, "color": palette.CHOSEN},
                showlegend=False,
                hovertemplate=_told(found) + "<extra></extra>",
            )
        )


def resolution_table(keys: Mapping[str, Key], score: float) -> pd.DataFrame:
    """The bin of some scores under each key as texts: its ends, its width, and how many different scores share it."""
    import pandas as pd

    lines = []
    for at in sorted({*MAGNITUDES, score}):
        for name, key in keys.items():
            found = interval(key, at)
            lines.append(
                {
                    "score": value(at, 9),
                    "path": name,
                    "from": value(found.low, 9),
                    "to": value(found.high, 9),
                    "width": "no end" if found.overflows else value(found.width, 5),
                    "of the score": "–" if found.overflows or not at else f"{100 * found.width / abs(at):.3g}%",
                    "different scores": count(found.values),
                }
            )
    frame = pd.DataFrame(lines)
    return frame if len(keys) > 1 else frame.drop(columns="path")
