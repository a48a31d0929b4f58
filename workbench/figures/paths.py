"""How a path works, as a picture drawn from its steps: no path has a drawing of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from workbench.figures import palette
from workbench.figures.frame import casing, new_figure
from workbench.figures.words import plain
from workbench.paths.steps import Kind, Step

if TYPE_CHECKING:
    import plotly.graph_objects as go


class _Drawing:
    """Shapes and texts of a figure, put into it at once: one by one each would cost as much as all before it."""

    def __init__(self) -> None:
        self.shapes: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def add_shape(self, **shape: Any) -> None:
        self.shapes.append(shape)

    def add_annotation(self, **annotation: Any) -> None:
        self.annotations.append(annotation)


TITLES: dict[Kind, str] = {
    "row": "scores",
    "sample": "sample",
    "stream": "running threshold",
    "prefix": "exact prefix",
    "key": "coarse key",
    "bins": "bins",
    "digits": "refinement",
    "buffer": "buffer",
    "out": "out",
}
_WIDE, _APART = 1.0, 0.24  # of a box, and between two
_LEAST_BOXES = 6
_TOP, _BOTTOM = 92.0, 26.0  # of a box
_LINE = 5.1  # of text
_LETTERS = 25  # of a line in a box
_PIXELS = 3.05  # a unit of the vertical axis
_NOTE = 30  # letters of a line below a box
_RANKS = 16  # blocks drawn of a cluster


def pipeline_figure(steps: Sequence[Step], note: str = "") -> go.Figure:
    """The steps of a variant from left to right, each with its numbers, and the one where winners can be lost.

    Args:
        steps: two at least, as ``steps_of`` has them. note: of the variant, told where winners are lost.

    Returns:
        A figure with a trace ``steps`` of one mark a box, which holds its facts as hover text, and a trace ``loses`` of
        a mark where winners can be lost, if there is such a step.
    """
    import plotly.graph_objects as go

    figure = new_figure(356, left=8, right=8, top=6, bottom=6)
    places = [at * (_WIDE + _APART) for at in range(len(steps))]
    span = max(len(steps), _LEAST_BOXES) * (_WIDE + _APART)
    figure.update_xaxes(range=[-0.04, span - _APART + 0.04], visible=False, fixedrange=True)
    low = _BOTTOM - 11 - _LINE * max(2, *(len(_below(step, note)) for step in steps))
    figure.update_yaxes(range=[low, 112], visible=False, fixedrange=True)
    figure.update_layout(height=round((112 - low) * _PIXELS) + 12)
    drawing = _Drawing()
    for place, step in zip(places, steps, strict=True):
        _box(drawing, place, step)
    for place in places[1:]:
        _arrow(drawing, place - _APART, place)
    _above(drawing, steps, places)
    figure.add_trace(
        go.Scatter(
            x=[place + _WIDE / 2 for place in places],
            y=[(_TOP + _BOTTOM) / 2] * len(places),
            mode="markers",
            name="steps",
            marker={"size": 60, "opacity": 0},
            customdata=[step.kind for step in steps],
            hovertext=[_told(step) for step in steps],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    )
    _loss(figure, drawing, steps, places, note)
    figure.update_layout(shapes=drawing.shapes, annotations=drawing.annotations)
    figure.update_layout(hovermode="closest", dragmode=False)
    return figure


def _told(step: Step) -> str:
    return f"<b>{TITLES[step.kind]}</b><br>{'<br>'.join(plain(one) for one in step.facts)}"


def _box(drawing: _Drawing, place: float, step: Step) -> None:
    edge = palette.LOSSY if step.loses else palette.MUTED
    _rectangle(drawing, place, place + _WIDE, _BOTTOM, _TOP, edge, palette.PAPER, 2.5 if step.loses else 1.2)
    _text(drawing, place + _WIDE / 2, _TOP - 2, f"<b>{TITLES[step.kind]}</b>", size=13.5)
    _DRAWN[step.kind](drawing, place, step)
    _text(drawing, place + _WIDE / 2, 58, _lines(step.facts, _LETTERS))


def _lines(texts: Sequence[str], letters: int) -> str:
    return "<br>".join(plain(line) for text in texts for line in wrap(text, letters))


def _text(
    drawing: _Drawing, x: float, y: float, text: str, colour: str = palette.TEXT, size: float = 12, name: str = ""
) -> None:
    drawing.add_annotation(
        x=x,
        y=y,
        yanchor="top",
        text=text,
        showarrow=False,
        font={"size": size, "color": colour},
        align="center",
        name=name or None,
    )


def _rectangle(
    drawing: _Drawing, x0: float, x1: float, y0: float, y1: float, edge: str, fill: str, width: float = 1
) -> None:
    drawing.add_shape(
        type="rect", x0=x0, x1=x1, y0=y0, y1=y1, line={"color": edge, "width": width}, fillcolor=fill, layer="below"
    )


def _arrow(drawing: _Drawing, x0: float, x1: float, y: float = 72) -> None:
    drawing.add_annotation(
        x=x1,
        y=y,
        ax=x0,
        ay=y,
        xref="x",
        yref="y",
        axref="x",
        ayref="y",
        text="",
        arrowhead=2,
        arrowwidth=1.6,
        arrowcolor=palette.MUTED,
    )


def _above(drawing: _Drawing, steps: Sequence[Step], places: Sequence[float]) -> None:
    """What lies above the threshold bin goes past all that follows."""
    start = next((at for at, step in enumerate(steps) if step.kind in ("bins", "prefix", "sample")), None)
    if start is None or start + 2 >= len(steps) or steps[start].kind == "sample":
        return
    x0, x1 = places[start] + _WIDE * 0.8, places[-1] + _WIDE / 2
    line = {"color": palette.SAFE_TEXT, "width": 1.8}
    drawing.add_shape(type="path", path=f"M {x0},{_TOP} L {x0},101 L {x1},101", line=line, layer="below")
    drawing.add_annotation(
        x=x1,
        y=_TOP,
        ax=x1,
        ay=101,
        xref="x",
        yref="y",
        axref="x",
        ayref="y",
        text="",
        arrowhead=2,
        arrowwidth=1.8,
        arrowcolor=palette.SAFE_TEXT,
    )
    _text(drawing, (x0 + x1) / 2, 109, "above the threshold bin: winners at once", palette.SAFE_TEXT)


def _loss(figure: go.Figure, drawing: _Drawing, steps: Sequence[Step], places: Sequence[float], note: str) -> None:
    """Where winners can be lost, by a mark of its own shape and in words; or what saves those that do not fit."""
    import plotly.graph_objects as go

    for place, step in zip(places, steps, strict=True):
        middle = place + _WIDE / 2
        if step.loses:
            figure.add_trace(
                go.Scatter(
                    x=[middle],
                    y=[_BOTTOM],
                    mode="markers",
                    name="loses",
                    marker={"symbol": "x", "size": 15, "color": palette.LOSSY},
                    customdata=[step.kind],
                    hovertext=["<br>".join(plain(line) for line in wrap(f"winners can be lost here: {note}", 60))],
                    hovertemplate="%{hovertext}<extra></extra>",
                )
            )
            said = "<br>".join(_below(step, note))
            told = f"<b>winners can be lost</b><br>{said}"
            _text(drawing, middle, _BOTTOM - 5, told, palette.LOSSY_TEXT, name="loses")
        elif step.overflow:
            _text(drawing, middle, _BOTTOM - 3, "<br>".join(_below(step, note)), palette.SAFE_TEXT, name="overflow")


def _below(step: Step, note: str) -> list[str]:
    """What is said below a box, in lines."""
    return [plain(line) for line in wrap(note if step.loses else step.overflow, _NOTE)]


def _scores(drawing: _Drawing, place: float, step: Step) -> None:
    heights = (5, 9, 4, 12, 7, 15, 6, 10, 3, 13, 8, 5)
    for at, height in enumerate(heights):
        x0 = place + 0.14 + at * 0.06
        _rectangle(drawing, x0, x0 + 0.04, 63, 63 + height, palette.BIN, palette.BIN)


def _bits(drawing: _Drawing, place: float, step: Step) -> None:
    """The bits of the key from the left, those of each digit in one shade, the others hollow."""
    width, shades = 0.84 / step.of, (palette.THRESHOLD, palette.TIES)
    filled = [palette.PAPER] * step.first
    for number, bits in enumerate(step.bits):
        filled += [shades[number % 2]] * bits
    filled += [palette.PAPER] * (step.of - len(filled))
    for at, fill in enumerate(filled):
        x0 = place + 0.08 + at * width
        _rectangle(drawing, x0, x0 + width, 66, 74, palette.MUTED, fill, 0.7)


def _bins(drawing: _Drawing, place: float, step: Step) -> None:
    """Below, the threshold bin, and above it."""
    for at, height in enumerate((3, 5, 8, 11, 15, 7, 4, 2)):
        x0 = place + 0.14 + at * 0.09
        colour = palette.THRESHOLD if at == 4 else palette.SAFE if at > 4 else palette.BIN
        _rectangle(drawing, x0, x0 + 0.075, 63, 63 + height, colour, colour)


def _buffer(drawing: _Drawing, place: float, step: Step) -> None:
    """Slots, a lane for each block, and what does not fit past them."""
    lanes = min(step.parts, _RANKS)
    high = 14 / lanes
    end = 0.68 if step.drops else 0.86
    for lane in range(lanes):
        y0 = 63 + lane * high
        gap = 0.2 * high if lanes > 1 else 0
        _rectangle(drawing, place + 0.12, place + end, y0, y0 + high - gap, palette.MUTED, palette.THRESHOLD, 0.7)
        if step.drops:
            _rectangle(drawing, place + end, place + 0.9, y0, y0 + high - gap, palette.OVERFLOW, palette.OVERFLOW, 0.7)
    x = place + end
    drawing.add_shape(
        type="line",
        x0=x,
        x1=x,
        y0=61,
        y1=79,
        line={"color": palette.CAPACITY, "width": 2, "dash": "dash"},
        layer="below",
    )


def _out(drawing: _Drawing, place: float, step: Step) -> None:
    for at in range(8):
        x0 = place + 0.14 + at * 0.09
        _rectangle(drawing, x0, x0 + 0.07, 66, 73, palette.SAFE, palette.SAFE)


def _threshold(drawing: _Drawing, place: float, step: Step) -> None:
    _scores(drawing, place, step)
    line = {"color": palette.THRESHOLD, "width": 2, "dash": "dot"}
    for one in (casing(line), line):
        drawing.add_shape(type="line", x0=place + 0.1, x1=place + 0.9, y0=72, y1=72, line=one)


_DRAWN: dict[Kind, Callable[[_Drawing, float, Step], None]] = {
    "row": _scores,
    "sample": _threshold,
    "stream": _threshold,
    "prefix": _bits,
    "key": _bits,
    "bins": _bins,
    "digits": _bits,
    "buffer": _buffer,
    "out": _out,
}
