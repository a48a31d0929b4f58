"""The exact top-k beside a selection: what was lost, what was kept instead, and where in the sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.analysis.diff import cutoff
from workbench.analysis.verdict import Verdict
from workbench.figures import palette
from workbench.figures.files import csv_bytes
from workbench.figures.frame import axis, new_figure
from workbench.figures.words import count
from workbench.numeric.keys import value_keys

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

LOST, KEPT, SAME = "lost", "wrongly kept", "same index"
LEFT_OUT, OTHER = "left out (equal)", "other member taken"
DRAWN = 4096  # marks a lane at most


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the comparison: lost or wrongly kept first, then equal scores at other indices, each best first.

    Attributes:
        index: int64 [n], positions relative to the row's start. rank: int64 [n], place in the whole row from 1, equal
            values share the best place. score: float64 [n]. gap: float64 [n], score minus the k-th best score.
        status: of the exact side ``lost``, ``left out (equal)`` (the selection holds an equal score in its place) or
            ``same index``; of the selection's ``wrongly kept``, ``other member taken`` or ``same index``.
        different: how many come first as lost or wrongly kept. equal: how many follow as equal scores elsewhere.
    """

    index: np.ndarray
    rank: np.ndarray
    score: np.ndarray
    gap: np.ndarray
    status: np.ndarray
    different: int
    equal: int

    def table(self, limit: int | None = None) -> pd.DataFrame:
        """The first ``limit`` entries as a table."""
        import pandas as pd

        columns = {name: getattr(self, name)[:limit] for name in ("status", "rank", "index", "score", "gap")}
        return pd.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The exact top-k and a selection, side by side. ``length`` is that of the row."""

    exact: Side
    selection: Side
    length: int

    def table(self, **origin: str | int | None) -> pd.DataFrame:
        """Every entry of both sides; ``origin``: columns that say what was selected how."""
        import pandas as pd

        sides = [("exact", self.exact.table()), ("selection", self.selection.table())]
        whole = pd.concat([table.assign(side=side, **origin) for side, table in sides])
        return whole[[*origin, "side", "status", "rank", "index", "score", "gap"]]

    def csv(self, **origin: str | int | None) -> str:
        """The same as comma-separated values; what is unknown is empty."""
        return csv_bytes(self.table(**origin)).decode()


def compare(scores: torch.Tensor, exact: torch.Tensor, indices: torch.Tensor, verdict: Verdict) -> Comparison:
    """Compare a selection with the exact one; slots that hold no index of the row are left out.

    Args:
        scores: [length], the valid scores. exact, indices: int [k], -1 padded. verdict: of the selection.
    """
    length = scores.numel()
    slots = indices.to(torch.int64)
    held = torch.unique(slots[(slots >= 0) & (slots < length)])
    best = exact[exact >= 0].to(torch.int64)
    keys = value_keys(scores)
    ordered = keys.sort().values
    cut = cutoff(scores, exact)

    def side(mine: torch.Tensor, other: torch.Tensor, different: torch.Tensor, word: str, equal: str) -> Side:
        unlike, shared = torch.isin(mine, different), torch.isin(mine, other)
        kind = torch.where(unlike, 0, torch.where(shared, 2, 1))
        order = torch.sort(mine).indices
        order = order[torch.sort(keys[mine[order]], descending=True, stable=True).indices]
        order = order[torch.sort(kind[order], stable=True).indices]
        index = mine[order]
        status = np.array([word, equal, SAME])[kind[order].cpu().numpy()]
        rank = length - torch.searchsorted(ordered, keys[index], right=True) + 1
        score = scores[index].to(torch.float64)
        gap = torch.where(score == cut, 0.0, score - cut) if cut is not None else torch.zeros_like(score)
        index_, rank_, score_, gap_ = (part.cpu().numpy() for part in (index, rank, score, gap))
        return Side(index_, rank_, score_, gap_, status, int(unlike.sum()), int((kind == 1).sum()))

    return Comparison(
        side(best, held, verdict.difference.lost, LOST, LEFT_OUT),
        side(held, best, verdict.difference.kept, KEPT, OTHER),
        length,
    )


def diff_figure(comparison: Comparison) -> go.Figure:
    """Where in the sequence the winners, the lost ones and the wrongly kept ones sit, and equal scores held elsewhere.

    Args:
        comparison: of one row; at most 4096 marks a lane are drawn, evenly thinned, and the label says so.
    """
    import plotly.graph_objects as go

    exact, selection = comparison.exact, comparison.selection
    everything = np.arange(exact.index.size)
    lanes = [
        ("exact top-k", exact, everything, palette.REFUSED_TEXT),
        (LOST, exact, everything[: exact.different], palette.LOSSY_TEXT),
        (KEPT, selection, np.arange(selection.different), palette.THRESHOLD),
    ]
    for name, side, colour in ((LEFT_OUT, exact, palette.AT_RISK_TEXT), (OTHER, selection, palette.TIES_TEXT)):
        if side.equal:
            lanes.append((name, side, side.different + np.arange(side.equal), colour))
    figure = new_figure(80 + 52 * len(lanes), left=24, top=14, bottom=56)
    labels = []
    for lane, (name, side, chosen, colour) in enumerate(lanes):
        total = chosen.size
        if total > DRAWN:
            chosen = chosen[np.linspace(0, total - 1, DRAWN).astype(int)]
        drawn = "" if chosen.size == total else f"<br>{count(chosen.size)} drawn"
        labels.append(f"{name}: {count(total)}{drawn}")
        figure.add_trace(
            go.Scatter(
                x=side.index[chosen].astype(np.int32 if comparison.length < 2**31 else np.int64),
                y=np.full(chosen.size, -lane),
                mode="markers",
                name=name,
                marker={
                    "symbol": "line-ns",
                    "size": 30,
                    "opacity": 1 if chosen.size <= 100 else palette.SHEER,
                    "line": {"width": 1.5 if chosen.size <= 500 else 1, "color": colour},
                },
                customdata=np.stack([side.rank[chosen], side.score[chosen], side.gap[chosen]], axis=-1),
                hovertemplate=(
                    f"{name}<br>index %{{x:,d}}<br>rank %{{customdata[0]:,d}}"
                    "<br>score %{customdata[1]:.9g}<br>gap %{customdata[2]:.3g}<extra></extra>"
                ),
            )
        )
    pad = 0.01 * comparison.length
    figure.update_xaxes(
        **axis(
            "index in the row (position in the sequence)",
            range=[-pad - 0.5, max(comparison.length, 1) - 0.5 + pad],
            tickvals=list(range(comparison.length)) if comparison.length <= 10 else None,
            tickformat=",d",
            ticks="outside",
            ticklen=4,
        )
    )
    figure.update_yaxes(
        **axis(
            "",
            tickvals=[-lane for lane in range(len(lanes))],
            ticktext=labels,
            range=[0.4 - len(lanes), 0.6],
            showgrid=False,
            automargin=True,
        )
    )
    return figure
