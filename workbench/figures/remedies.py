"""Remedies, one below the other: how many rows keep every winner under each, and what it was measured to take."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.words import count, plain, plural
from workbench.runs.advise_words import NOT_MEASURED, cost_text, evidence_text, stands_text
from workbench.runs.remedy import Part, Remedy

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

MOST = 40  # remedies of a picture
HOLDS = {True: "every length", False: "these rows", None: "not known"}
STATES = palette.REMEDIES
_LANE, _TOP, _BOTTOM = 24, 58, 58  # pixels
_LEGEND = 24  # pixels of the legend above the picture's first line of text
_LABEL, _LETTER = 56, 5.4  # characters of a label, and pixels of each
_ROWS, _TIME = (0.0, 0.66), (0.72, 1.0)  # of the width
# In the picture without their package, which the op tells.
_RELEASES = re.compile(r" in (?:vllm|sglang|sglang-kernel|flashinfer)==(\S+(?: to \S+)?)$")
_FLAGS = ("--sparse-indexer-topk-backend", "--dsa-topk-backend")  # in the picture: backend
_SIZE = 11
TICKS = {3.0: (0.5, 1, 2), 12.0: (0.2, 1, 5), math.inf: (0.01, 0.1, 1, 10, 100)}  # by how far the axis of times goes


def shown(part: Part) -> tuple[Remedy, ...]:
    """The remedies in a picture, the best first."""
    return part.remedies[:MOST]


def remedy_at(part: Part, y: float) -> Remedy | None:
    """The remedy of a clicked place of the picture; ``None`` where there is none."""
    lane, drawn = round(-y), shown(part)
    return drawn[lane] if 0 <= lane < len(drawn) else None


def remedies_figure(part: Part, chosen: Remedy | None = None) -> go.Figure:
    """Remedies downwards, the best first; to the right the share of rows that keep every winner, and beside it the
    time on a log scale, where it was measured.

    Args:
        part: with a remedy at least. chosen: one of its remedies, to outline.

    Returns:
        A figure whose marks stand at y = -lane, without times where none was measured; ``remedy_at`` turns a clicked
        place into a remedy.
    """
    import plotly.graph_objects as go

    drawn = shown(part)
    labels = [label_of(one) for one in drawn]
    left = 30 + int(_LETTER * max(map(len, labels)))
    figure = new_figure(_TOP + _LANE * len(drawn) + _BOTTOM, left=left, right=28, top=_TOP, bottom=_BOTTOM)
    now = 100 * part.now.safe / max(part.now.rows, 1)
    figure.add_shape(
        type="line",
        x0=now,
        x1=now,
        y0=0.6,
        y1=0.4 - len(drawn),
        line={"dash": "dot", "width": 1.5, "color": palette.CAPACITY},
    )
    figure.add_annotation(
        x=now,
        y=1,
        yref="paper",
        text=f"as it is: {now:.3g}%",
        showarrow=False,
        yanchor="bottom",
        xanchor="left" if now < 50 else "right",
        font={"size": 12, "color": palette.TEXT},
    )
    for state, mark in STATES.items():
        lanes = [lane for lane, one in enumerate(drawn) if one.state == state]
        if lanes:
            figure.add_trace(
                go.Scatter(
                    x=[100 * drawn[lane].share for lane in lanes],
                    y=[-lane for lane in lanes],
                    mode="markers",
                    name=state,
                    marker=_marker(mark.ink, mark.symbol),
                    hovertext=[_told(drawn[lane]) for lane in lanes],
                    hovertemplate="%{hovertext}<extra></extra>",
                    selected={"marker": {"opacity": 1}},
                    unselected={"marker": {"opacity": 1}},
                )
            )
    for state, mark in STATES.items():
        _stems(figure, drawn, [lane for lane, one in enumerate(drawn) if one.state == state], mark.ink)
    timed = any(one.cost is not None for one in drawn)
    if timed:
        _times(figure, drawn)
    if chosen is not None and chosen in drawn:
        figure.add_trace(
            go.Scatter(
                x=[100 * chosen.share],
                y=[-drawn.index(chosen)],
                mode="markers",
                name="shown below",
                marker={
                    "symbol": "square-open",
                    "size": _SIZE + 8,
                    "color": palette.CHOSEN,
                    "line": {"width": 2.5},
                },
                hoverinfo="skip",
                unselected={"marker": {"opacity": 1}},
            )
        )
    _lay(figure, labels, time_range(drawn) if timed else None)
    return figure


def _marker(colour: str, symbol: str) -> dict[str, object]:
    open_ = symbol.endswith("-open")
    return {"symbol": symbol, "size": _SIZE, "color": colour, "line": {"width": 2 if open_ else 0, "color": colour}}


def _stems(figure: go.Figure, drawn: Sequence[Remedy], lanes: Sequence[int], colour: str) -> None:
    import plotly.graph_objects as go

    figure.add_trace(
        go.Scatter(
            x=[x for lane in lanes for x in (0, 100 * drawn[lane].share, None)],
            y=[y for lane in lanes for y in (-lane, -lane, None)],
            mode="lines",
            line={"width": 2, "color": colour},
            hoverinfo="skip",
            showlegend=False,
        )
    )


def _times(figure: go.Figure, drawn: Sequence[Remedy]) -> None:
    """The time over what rows take now, from least to most; in words where it was not measured."""
    import plotly.graph_objects as go

    known = [(lane, one) for lane, one in enumerate(drawn) if one.cost is not None]
    ends = [(lane, one.cost.least, one.cost.most) for lane, one in known if one.cost is not None]
    figure.add_trace(
        go.Scatter(
            x=[x for _, least_, most_ in ends for x in (least_, most_, None)],
            y=[y for lane, _, _ in ends for y in (-lane, -lane, None)],
            xaxis="x2",
            mode="lines+markers",
            name="time",
            line={"width": 3, "color": palette.THRESHOLD},
            marker={"symbol": "line-ns-open", "size": _SIZE, "color": palette.THRESHOLD, "line": {"width": 2}},
            hovertext=[text for _, one in known for text in (_told(one), _told(one), "")],
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
        )
    )
    unknown = [lane for lane, one in enumerate(drawn) if one.cost is None]
    figure.add_trace(
        go.Scatter(
            x=[time_range(drawn)[0]] * len(unknown),
            y=[-lane for lane in unknown],
            xaxis="x2",
            mode="text",
            text=[NOT_MEASURED] * len(unknown),
            textposition="middle right",
            textfont={"size": 11, "color": palette.MUTED},
            hoverinfo="skip",
            showlegend=False,
            name=NOT_MEASURED,
        )
    )


def time_range(drawn: Sequence[Remedy]) -> tuple[float, float]:
    """The ends of the axis of times, as far from 1 to both sides: beyond any time, and beyond twice and half."""
    off = [abs(math.log(end)) for one in drawn if one.cost for end in (one.cost.least, one.cost.most)]
    far = math.exp(max([*off, math.log(2)])) * 1.4
    return 1 / far, far


def _lay(figure: go.Figure, labels: Sequence[str], times: tuple[float, float] | None) -> None:
    domain = [0.0, 1.0] if times is None else list(_ROWS)
    figure.update_xaxes(
        **axis("rows that keep every winner, %", range=[-3, 104], domain=domain, tickvals=[0, 25, 50, 75, 100])
    )
    if times is not None:
        _lay_times(figure, times)
    figure.update_yaxes(
        **axis(
            "",
            range=[0.4 - len(labels), 0.6],
            tickvals=[-lane for lane in range(len(labels))],
            ticktext=list(map(plain, labels)),
            showgrid=False,
        )
    )
    figure.update_layout(
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + _LEGEND / (_LANE * len(labels)),
            "yanchor": "bottom",
            "itemclick": False,
            "itemdoubleclick": False,
            "font": {"size": 12.5},
        },
        clickmode="event+select",
        dragmode=False,
        hovermode="closest",
        hoverdistance=-1,
    )


def _lay_times(figure: go.Figure, times: tuple[float, float]) -> None:
    near = next(ticks for far, ticks in TICKS.items() if times[1] < far)
    ticks = [tick for tick in near if times[0] <= tick <= times[1]]
    figure.update_layout(
        xaxis2=axis(
            "time, × that of now (log)",
            type="log",
            range=[math.log10(end) for end in times],
            domain=list(_TIME),
            anchor="y",
            tickvals=ticks,
            ticktext=[f"×{tick:g}" for tick in ticks],
        )
    )


def holds_for(remedy: Remedy) -> str:
    """Of which rows winners are kept, by their lengths; an en dash where none are."""
    return HOLDS[remedy.lossless] if remedy.rows.safe else "–"


def label_of(remedy: Remedy, most: int = _LABEL) -> str:
    """A remedy in a few words; where they are too many, the releases stay whole, which tell it from its neighbours.

    Args:
        most: characters.
    """
    text = remedy.what
    for flag in _FLAGS:
        text = text.replace(flag, "backend")
    name, dot, releases = _RELEASES.sub(r" · \1", text).partition(" · ")
    room = most - len(dot + releases)
    return (name if len(name) <= room else name[: room - 1] + "…") + dot + releases


def _told(remedy: Remedy) -> str:
    lines = [remedy.what, f"{remedy.state}: {count(remedy.rows.safe)} of {plural(remedy.rows.rows, 'row')}"]
    if stands := stands_text(remedy.rows):
        lines.append(stands)
    lines += [f"evidence: {evidence_text(remedy)}", f"time: {cost_text(remedy.cost)}"]
    return "<br>".join(plain(line) for line in lines)


def remedies_table(part: Part) -> pd.DataFrame:
    """One line a remedy, the best first, as texts."""
    import pandas as pd

    return pd.DataFrame(
        {
            "remedy": [one.what for one in part.remedies],
            "kind": [one.kind for one in part.remedies],
            "state": [one.state for one in part.remedies],
            "rows kept": [f"{count(one.rows.safe)} of {count(one.rows.rows)}" for one in part.remedies],
            "the others": [stands_text(one.rows) or "–" for one in part.remedies],
            "holds for": [holds_for(one) for one in part.remedies],
            "evidence": [evidence_text(one) for one in part.remedies],
            "time": [cost_text(one.cost) for one in part.remedies],
        }
    )
