"""Many calls on one row: what every call selects, what comes and goes, and what each call lacked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.repeatability import Held, Member, Repeatability
from workbench.figures import palette
from workbench.figures.frame import axis, new_figure, whole_ticks
from workbench.figures.words import count, value

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

DRAWN = 4096  # marks at most
BARS = 1000  # calls at most that have a bar of their own
SHOWN = 2000  # lines of the table
ABOVE, TIES, BELOW = "winner, above the cut", "at the cut", "loser, below the cut"
SIDES: dict[str, tuple[str, str]] = {
    ABOVE: (palette.LOSSY_TEXT, "circle"),
    TIES: (palette.TIES_TEXT, "diamond"),
    BELOW: (palette.INVALID_TEXT, "x"),
}
EVERY, SOME, NONE = "in every call", "in some calls", "in no call"
_WIDTH, _LETTER = 640, 7  # pixels that bars have where a page is narrow, and that a digit takes
_HATCH = {"fillmode": "overlay", "fgcolor": palette.PAPER, "size": 6, "solidity": 0.15}
_PARTS = {EVERY: (palette.SAFE_TEXT, ""), SOME: (palette.AT_RISK, "/"), NONE: (palette.CERTAIN, "x")}


def side_of(member: Member) -> str:
    """On which side of the k-th best score an index stands."""
    if member.gap != member.gap:  # of NaN no gap is known: it is above every number
        return ABOVE if member.score != member.score else BELOW
    return ABOVE if member.gap > 0 else TIES if member.gap == 0 else BELOW


def held_figure(found: Repeatability) -> go.Figure:
    """Winners, ties and losers as bars: how many indices every call selects, some calls, and none.

    A k-th best score that no other one equals is a winner. Losers that no call selects are not drawn: they are the rest
    of the row.
    """
    import plotly.graph_objects as go

    above, ties, below = found.above, found.ties, found.below
    if ties.every + ties.some + ties.none > 1:
        lanes = [("winners above the cut", above), ("ties at the cut", ties)]
    else:
        lanes = [("winners", Held(above.every + ties.every, above.some + ties.some, above.none + ties.none))]
    lanes += [("losers selected", replace(below, none=0))] if below.every + below.some else []
    figure = new_figure(96 + 34 * len(lanes), left=150, top=34, bottom=46)
    whole = max(1, *(held.every + held.some + held.none for _, held in lanes))
    before = np.zeros(len(lanes), dtype=np.int64)
    for part, field in ((EVERY, "every"), (SOME, "some"), (NONE, "none")):
        numbers = np.array([getattr(held, field) for _, held in lanes])
        colour, hatch = _PARTS[part]
        if numbers.any():
            figure.add_trace(
                go.Bar(
                    orientation="h",
                    y=-np.arange(len(lanes)),
                    x=numbers,
                    base=before.copy(),
                    width=0.62,
                    name=part,
                    marker={"color": colour, "pattern": {"shape": hatch, **_HATCH}},
                    hovertemplate=f"%{{x:,d}} {part}<extra></extra>",
                )
            )
            _numbers(figure, numbers, before, whole)
        before += numbers
    figure.update_xaxes(**axis("indices", range=[0, 1.02 * whole], **whole_ticks(whole)))
    figure.update_yaxes(
        **axis(
            "",
            tickvals=[-at for at in range(len(lanes))],
            ticktext=[name for name, _ in lanes],
            range=[0.5 - len(lanes), 0.5],
            showgrid=False,
        )
    )
    figure.update_layout(barmode="overlay", dragmode=False, **_legend())
    return figure


def _numbers(figure: go.Figure, numbers: np.ndarray, before: np.ndarray, whole: int) -> None:
    """How many a bar stands for, on paper of its own, since a hatch is no ground for letters; of bars that are wide
    enough."""
    for lane, (number, start) in enumerate(zip(numbers.tolist(), before.tolist(), strict=True)):
        text = count(number)
        if number and _WIDTH * number / whole > _LETTER * len(text) + 12:
            figure.add_annotation(
                x=start + number / 2,
                y=-lane,
                text=text,
                showarrow=False,
                font={"size": 12, "color": palette.TEXT},
                bgcolor=palette.PAPER,
                borderpad=1,
            )


def frequency_figure(found: Repeatability, k: int) -> go.Figure:
    """Of each index that comes and goes, the share of the calls that select it, over its rank in the row.

    Args:
        found: with at least one such index; at most 4096 are drawn, evenly thinned. k: winners wanted.

    Returns:
        A figure in which the cut is marked: behind rank k the reference takes none.
    """
    import plotly.graph_objects as go

    members = drawn(found)
    figure = new_figure(330, left=76, top=34, bottom=58)
    for side, (colour, symbol) in SIDES.items():
        mine = [member for member in members if side_of(member) == side]
        if mine:
            figure.add_trace(
                go.Scatter(
                    x=np.array([member.rank for member in mine], dtype=np.int32),
                    y=np.array([100 * member.share for member in mine], dtype=np.float32),
                    mode="markers",
                    name=side,
                    marker={
                        "symbol": symbol,
                        "size": 7 if len(members) < 500 else 5,
                        "color": colour,
                        "opacity": palette.SHEER,
                    },
                    customdata=np.array([[member.index, member.held, member.gap] for member in mine]),
                    hovertemplate=(
                        f"{side}<br>index %{{customdata[0]:,d}}, rank %{{x:,d}}<br>in %{{customdata[1]:,d}} of "
                        f"{count(found.calls)} calls<br>%{{customdata[2]:.3g}} from the cut<extra></extra>"
                    ),
                )
            )
    ranks = [member.rank for member in members]
    low, high = min([*ranks, k]), max([*ranks, k])
    pad = max(1.0, 0.03 * (high - low))
    at = (k + 0.5 - low + pad) / (high - low + 2 * pad)
    figure.add_vline(x=k + 0.5, line={"color": palette.THRESHOLD, "width": 2, "dash": "dash"})
    figure.add_annotation(
        x=k + 0.5,
        xanchor="left" if at < 0.2 else "right" if at > 0.8 else "center",
        y=104,
        yanchor="bottom",
        text=f"the cut, k = {count(k)}",
        showarrow=False,
        font={"size": 12, "color": palette.THRESHOLD},
    )
    figure.update_xaxes(
        **axis("rank of the score in the row, 1 the best", range=[low - pad, high + pad], **whole_ticks(high - low))
    )
    figure.update_yaxes(**axis("calls that select it, %", range=[-4, 104], tickvals=[0, 25, 50, 75, 100]))
    figure.update_layout(hovermode="closest", **_legend(1.08))
    return figure


def drawn(found: Repeatability) -> Sequence[Member]:
    """The indices that a picture draws: all, or evenly thinned."""
    if len(found.members) <= DRAWN:
        return found.members
    return [found.members[at] for at in np.linspace(0, len(found.members) - 1, DRAWN).astype(int)]


def missing_figure(missing: Sequence[int], of: int) -> go.Figure:
    """Values of the exact top-k that each call lacked; of more than 1000 calls, the most in as many runs of them.

    Args:
        missing: of each call, in their order; at least one. of: values of the exact top-k.
    """
    import plotly.graph_objects as go

    numbers = np.array(missing)
    each = -(-len(numbers) // BARS)
    firsts = np.arange(0, len(numbers), each)
    most = np.maximum.reduceat(numbers, firsts)
    figure = new_figure(230, left=76, top=14, bottom=56, right=98)
    figure.add_trace(
        go.Bar(
            x=firsts + (each + 1) / 2,
            y=most,
            marker={"color": palette.LOSSY, "line": {"width": 0}},
            hovertemplate=f"call %{{x:,d}}: %{{y:,d}} of {count(of)} missing<extra></extra>",
        )
    )
    mean = float(numbers.mean())
    figure.add_hline(y=mean, line={"color": palette.TEXT, "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        xref="paper",
        x=1,
        xanchor="left",
        xshift=6,
        y=mean,
        text=f"mean {value(mean, 4)}",
        showarrow=False,
        font={"size": 12, "color": palette.TEXT},
    )
    whole = {"dtick": 1} if len(numbers) <= 12 else {}
    title = "call" if each == 1 else f"call, the most of {each} at a time"
    figure.update_xaxes(**axis(title, range=[0.4, len(numbers) + 0.6], tickformat=",d", showgrid=False, **whole))
    top = int(numbers.max())
    figure.update_yaxes(
        **axis(
            f"missing, of {count(of)}",
            range=[0, 1.15 * max(1, top)],
            **whole_ticks(top),
        )
    )
    figure.update_layout(bargap=0.15, dragmode=False)
    return figure


def missing_table(missing: Sequence[int]) -> pd.DataFrame:
    """A line a call, in their order: how many values of the exact top-k it lacked."""
    import pandas as pd

    return pd.DataFrame({"call": range(1, len(missing) + 1), "missing": missing}, dtype="int64")


def _legend(y: float = 1.0) -> dict[str, object]:
    place: dict[str, object] = {"orientation": "h", "x": 0, "xanchor": "left", "y": y, "yanchor": "bottom"}
    still: dict[str, object] = {"itemclick": False, "itemdoubleclick": False, "itemsizing": "constant"}
    return {"showlegend": True, "legend": {**place, **still, "font": {"size": 12.5}}}


def members_table(found: Repeatability, most: int | None = SHOWN) -> pd.DataFrame:
    """A line for each index that comes and goes: the ``most`` nearest to the cut, the nearest first; all of them, the
    best score first, where ``most`` is ``None``."""
    import pandas as pd

    members: Sequence[Member] = found.members
    if most is not None:
        members = sorted(members, key=lambda member: (math.isnan(member.gap), abs(member.gap)))[:most]
    return pd.DataFrame(
        {
            "index": [member.index for member in members],
            "rank": [member.rank for member in members],
            "side": [side_of(member) for member in members],
            "score": [member.score for member in members],
            "from the cut": [member.gap for member in members],
            "in ULPs": pd.array([member.ulps for member in members], dtype="Int64"),
            "selected by": [member.held for member in members],
            "share": [member.share for member in members],
        }
    )
