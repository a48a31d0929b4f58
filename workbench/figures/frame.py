"""What all figures share: fonts, margins, colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.figures import palette

if TYPE_CHECKING:
    import plotly.graph_objects as go


def new_figure(height: int, *, left: int = 70, right: int = 24, top: int = 30, bottom: int = 64) -> go.Figure:
    """An empty figure in the workbench's style; sizes in pixels."""
    import plotly.graph_objects as go

    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": left, "r": right, "t": top, "b": bottom},
            "font": {"family": palette.FONT, "size": 13, "color": palette.TEXT},
            "paper_bgcolor": palette.PAPER,
            "plot_bgcolor": palette.PAPER,
            "showlegend": False,
            "hoverlabel": {
                "font": {"family": palette.FONT, "size": 13, "color": palette.TEXT},
                "bgcolor": palette.PAPER,
                "bordercolor": palette.MUTED,
                "align": "left",
            },
            "modebar": {"color": palette.MUTED, "activecolor": palette.TEXT, "bgcolor": palette.PAPER},
            "dragmode": "zoom",
        }
    )


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis in the workbench's style."""
    return {
        "title": {"text": title, "font": {"size": 13, "color": palette.MUTED}, "standoff": 10},
        "gridcolor": palette.GRID,
        "linecolor": palette.MUTED,
        "tickfont": {"size": 12},
        "zeroline": False,
        **more,
    }


def whole_ticks(span: float) -> dict[str, Any]:
    """What keeps the ticks of whole numbers whole: plotly puts some between them where few are shown, and then writes
    the same number twice."""
    return {"tickformat": ",d", **({"dtick": 1} if span < 8 else {})}


def casing(line: dict[str, Any]) -> dict[str, Any]:
    """The line that goes beneath another one which crosses bars, so that it is seen on them as it is on paper."""
    return {"color": palette.PAPER, "width": line["width"] + 3}
