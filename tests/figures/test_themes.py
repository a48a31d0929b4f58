"""Figures in the colours of a dark page: colours are exchanged, and nothing else."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from workbench.figures import palette, themes
from workbench.figures.frame import axis, new_figure
from workbench.figures.palette import tint


def test_every_colour_is_exchanged_and_the_figure_itself_stays() -> None:
    figure = new_figure(100)
    figure.update_xaxes(**axis("rows"))
    colours = np.array([palette.CERTAIN, palette.PAPER], dtype=object)
    figure.add_trace(go.Bar(x=[1, 2], y=[3, 4], marker={"color": colours}))
    figure.add_trace(go.Heatmap(z=[[0, 1]], colorscale=[(0, palette.PAPER), (1, tint(palette.SAFE))]))
    figure.add_annotation(text=f"<span style='color:{palette.MUTED}'>none</span>", bgcolor=palette.PAPER)
    before = figure.to_json()
    dark = themes.darkened(figure)
    assert figure.to_json() == before
    assert dark.layout.paper_bgcolor == dark.layout.plot_bgcolor == palette.DARK_PAPER
    assert dark.layout.font.color == palette.DARK_TEXT
    assert dark.layout.xaxis.gridcolor == palette.DARK[palette.GRID]
    assert list(dark.data[0].marker.color) == [palette.DARK[palette.CERTAIN], palette.DARK_PAPER]
    pale = tint(palette.DARK[palette.SAFE], paper=palette.DARK_PAPER)
    assert [colour for _, colour in dark.data[1].colorscale] == [palette.DARK_PAPER, pale]
    assert dark.layout.annotations[0].text == f"<span style='color:{palette.DARK[palette.MUTED]}'>none</span>"
    assert dark.layout.annotations[0].bgcolor == palette.DARK_PAPER
    assert [*dark.data[0].x] == [1, 2]
    assert [*dark.data[0].y] == [3, 4]


def test_names_that_look_as_colours_stay() -> None:
    figure = new_figure(100)
    name = palette.PAPER
    figure.add_trace(go.Bar(x=[name], y=[1], name=name, text=[name], hovertext=[name], customdata=[name]))
    held = themes.darkened(figure).data[0]
    assert (held.name, *held.x, *held.text, *held.hovertext, *held.customdata) == (name,) * 5
