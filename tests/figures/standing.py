"""What a figure draws, and what each of it stands on: letters, marks and lines with the colours beneath them.

Places are worked out in pixels, as plotly lays a figure out that is 1000 pixels wide; letters are taken to be 0.55 of
their size wide. Hairlines of grids and what cannot be seen (no width, no opacity) are left out.
"""

from __future__ import annotations

import itertools
import math
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from workbench.figures import palette

WIDTH = 1000
LETTER, LINE = 0.55, 1.3  # of the size of letters: their width, and the height of a line
SAMPLES = 9  # places looked at along the sides of a text, and along a line
_SPAN = re.compile(r"<span style='color:(#[0-9A-F]{6})'>")
Box = tuple[float, float, float, float]  # left, right, top and bottom, pixels from the left and the top


@dataclass(frozen=True)
class Drawn:
    """Something of a figure, by its colour and the one it stands on; sheer marks let some of that through.

    ``what``: to find it by.
    """

    kind: Literal["letters", "mark", "sheer mark"]
    ink: str
    ground: str
    what: str = field(compare=False)


def drawn(figure: go.Figure) -> set[Drawn]:
    """All letters, marks and lines that carry meaning, each with every colour it stands on."""
    return set(Laid(figure).everything())


def text_boxes(figure: go.Figure, width: int = WIDTH) -> list[tuple[str, Box]]:
    """The texts that stand in the picture, with the places they take."""
    return [(text, box) for text, box, *_ in Laid(figure, width).texts()]


def _decoded(part: Any) -> Any:
    """What plotly sends of a figure, with the numbers in it that it sends as bytes."""
    if isinstance(part, dict) and "bdata" in part:
        numbers = np.frombuffer(b64decode(part["bdata"]), dtype=part["dtype"])
        return numbers.reshape([int(one) for one in str(part["shape"]).split(",")]) if "shape" in part else numbers
    if isinstance(part, dict):
        return {name: _decoded(held) for name, held in part.items()}
    return [_decoded(held) for held in part] if isinstance(part, list | tuple) else part


@dataclass
class _Axis:
    """An axis: where its values stand, in pixels."""

    log: bool
    low: float
    high: float
    start: float
    end: float

    def at(self, value: Any, taken: bool = False) -> Any:
        """Pixels of values; ``taken``: they are logarithms already, where the axis has them."""
        number = np.asarray(value, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            number = np.log10(number) if self.log and not taken else number
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)


class Laid:
    """A figure with the places of what it draws."""

    def __init__(self, drawn: go.Figure, width: int = WIDTH) -> None:
        figure = _decoded(drawn.to_dict())
        self.data: list[dict[str, Any]] = figure["data"]
        self.layout: dict[str, Any] = figure["layout"]
        margin = self.layout["margin"]
        self.left, self.right = margin["l"], width - margin["r"]
        self.top, self.bottom = margin["t"], self.layout["height"] - margin["b"]
        self.paper: str = self.layout["plot_bgcolor"]
        self.ink: str = self.layout["font"]["color"]
        assert self.paper == self.layout["paper_bgcolor"]
        self.axes = {name: self._axis(name) for name in self._names()}
        self.fills: list[tuple[np.ndarray, list[str]]] = list(self._fills())

    def _names(self) -> set[str]:
        used = {one.get(f"{side}axis", side) for one in self.data for side in "xy"}
        kept = {name.replace("axis", "") for name in self.layout if re.fullmatch(r"[xy]axis\d*", name)}
        return used | kept | {"x", "y"}

    def _axis(self, name: str) -> _Axis:
        told = self.layout.get(f"{name[0]}axis{name[1:]}", {})
        log = told.get("type") == "log"
        ends = told.get("range") or self._extent(name, log)
        if told.get("autorange") == "reversed":
            ends = ends[::-1]
        first, last = told.get("domain") or (0.0, 1.0)
        if name[0] == "x":
            start, end = (self.left + share * (self.right - self.left) for share in (first, last))
        else:
            start, end = (self.bottom - share * (self.bottom - self.top) for share in (first, last))
        return _Axis(log, *map(float, ends), start, end)

    def _extent(self, name: str, log: bool) -> list[float]:
        held = [
            np.asarray(one[name[0]], dtype=float) for one in self.data if one.get(f"{name[0]}axis", name[0]) == name
        ]
        numbers = np.concatenate([[0.0], *held]) if not held else np.concatenate(held)
        if log:
            numbers = np.log10(numbers[numbers > 0]) if (numbers > 0).any() else np.array([0.0, 1.0])
            margin = 0.05 * float(np.ptp(numbers))
        else:
            margin = 0.5
        return [float(np.nanmin(numbers)) - margin, float(np.nanmax(numbers)) + margin]

    def of(self, one: dict[str, Any]) -> tuple[_Axis, _Axis]:
        return self.axes[one.get("xaxis", "x")], self.axes[one.get("yaxis", "y")]

    # What is filled, the lowest first: boxes [n, 4] and their colours.

    def _fills(self) -> Iterator[tuple[np.ndarray, list[str]]]:
        for shape in self.layout.get("shapes", []):
            if shape.get("fillcolor"):
                assert shape.get("layer") == "below"
                yield np.array([self._shape_box(shape)]), [shape["fillcolor"]]
        for kind in ("heatmap", "filled", "bar"):
            for one in self.data:
                if kind == ("filled" if one.get("fill") else one["type"]):
                    yield getattr(self, f"_{kind}")(one)

    def _shape_box(self, shape: dict[str, Any]) -> Box:
        x = sorted(self._spot(shape.get("xref", "x"), shape[end], log=False) for end in ("x0", "x1"))
        y = sorted(self._spot(shape.get("yref", "y"), shape[end], log=False) for end in ("y0", "y1"))
        return x[0], x[1], y[0], y[1]

    def _spot(self, ref: str, value: float, log: bool, side: str = "") -> float:
        """Pixels of a place of a shape or an annotation."""
        if ref == "paper" or ref.endswith("domain"):
            axis = self.axes.get(ref.split()[0])
            if axis is not None:
                return float(axis.start + value * (axis.end - axis.start))
            ends = (self.left, self.right) if side == "x" else (self.bottom, self.top)
            return float(ends[0] + value * (ends[1] - ends[0]))
        return float(self.axes[ref].at(value, taken=log))

    def _heatmap(self, one: dict[str, Any]) -> tuple[np.ndarray, list[str]]:
        across, down = self.of(one)
        z = np.asarray(one["z"], dtype=float)
        steps = [np.diff(np.asarray(one[side], float))[:1] for side in "xy"]
        wide, high = (float(step[0]) if step.size else 1.0 for step in steps)
        boxes, colours = [], []
        scale = one["colorscale"]
        for row, y in enumerate(np.asarray(one["y"], float)):
            for column, x in enumerate(np.asarray(one["x"], float)):
                if math.isnan(z[row, column]):
                    continue
                share = (z[row, column] - one["zmin"]) / (one["zmax"] - one["zmin"])
                ends = sorted(down.at(np.array([y - high / 2, y + high / 2])))
                boxes.append((*sorted(across.at(np.array([x - wide / 2, x + wide / 2]))), *ends))
                colours.append(next(colour for at, colour in reversed(scale) if share >= at - 1e-9))
        return np.array(boxes).reshape(-1, 4), colours

    def _filled(self, one: dict[str, Any]) -> tuple[np.ndarray, list[str]]:
        across, down = self.of(one)
        x, y = across.at(one["x"]), down.at(one["y"])
        return np.array([[x.min(), x.max(), y.min(), y.max()]]), [one["fillcolor"]]

    def _bar(self, one: dict[str, Any]) -> tuple[np.ndarray, list[str]]:
        across, down = self.of(one)
        lying = one.get("orientation") == "h"
        far, place = (np.asarray(one[side], float) for side in ("xy" if lying else "yx"))
        base = np.broadcast_to(np.asarray(one.get("base", 0.0), dtype=float), far.shape)
        wide = np.broadcast_to(np.asarray(one.get("width", 0.8), dtype=float), far.shape)
        along, beside = (across, down) if lying else (down, across)
        floor = along.start  # where a log axis has nothing
        ends = np.stack([np.nan_to_num(along.at(base), neginf=floor), along.at(base + far)])
        sides = np.stack([beside.at(place - wide / 2), beside.at(place + wide / 2)])
        pair = [np.sort(ends, axis=0), np.sort(sides, axis=0)]
        boxes = np.concatenate(pair if lying else pair[::-1]).T
        return boxes, _each(one["marker"]["color"], len(far))

    def beneath(self, points: np.ndarray) -> list[str]:
        """The colour that is on top at each of the points [n, 2]."""
        found = [self.paper] * len(points)
        for boxes, colours in self.fills:
            inside = (points[:, None, 0] > boxes[None, :, 0]) & (points[:, None, 0] < boxes[None, :, 1])
            inside &= (points[:, None, 1] > boxes[None, :, 2]) & (points[:, None, 1] < boxes[None, :, 3])
            for at in np.flatnonzero(inside.any(axis=1)):
                found[at] = colours[int(np.flatnonzero(inside[at])[-1])]
        return found

    # What is drawn.

    def everything(self) -> Iterator[Drawn]:
        yield from self._outside()
        for text, box, ink, ground in self.texts():
            for under in [ground] if ground else set(self.beneath(_within(box))):
                yield Drawn("letters", ink, under, text)
        for shape in self.layout.get("shapes", []):
            yield from self._of_shape(shape)
        for one in self.layout.get("annotations", []):
            if one.get("arrowcolor") and one.get("showarrow") is not False:
                yield Drawn("mark", one["arrowcolor"], self.paper, "arrow")
        for one in self.data:
            yield from getattr(self, f"_of_{one['type']}")(one)

    def _outside(self) -> Iterator[Drawn]:
        """Axes, legends, and what a hand over a mark reads."""
        for name in self.axes:
            told = self.layout.get(f"{name[0]}axis{name[1:]}", {})
            if told.get("visible") is not False:
                yield Drawn("letters", told.get("tickfont", {}).get("color", self.ink), self.paper, "ticks")
                title = told.get("title", {})
                if title.get("text"):
                    yield Drawn("letters", title.get("font", {}).get("color", self.ink), self.paper, title["text"])
        if self.layout.get("showlegend"):
            yield Drawn("letters", self.layout["legend"].get("font", {}).get("color", self.ink), self.paper, "legend")
        hover = self.layout["hoverlabel"]
        yield Drawn("letters", hover["font"]["color"], hover["bgcolor"], "hover")
        bar = self.layout["modebar"]
        yield Drawn("mark", bar["color"], bar["bgcolor"], "tools")
        yield Drawn("mark", bar["activecolor"], bar["bgcolor"], "tools")

    def texts(self) -> Iterator[tuple[str, Box, str, str | None]]:
        """Texts within the picture: place, colour, and the colour of their own ground."""
        for one in self.layout.get("annotations", []):
            if one.get("text"):
                font = one.get("font", {})
                inner = _SPAN.findall(one["text"])
                ink = inner[0] if inner else font.get("color", self.ink)
                yield _plain(one["text"]), self._annotation_box(one, font.get("size", 13)), ink, one.get("bgcolor")
        for one in self.data:
            if one["type"] == "scatter" and "text" in one.get("mode", "") and one.get("text") is not None:
                across, down = self.of(one)
                font, reach = one.get("textfont", {}), 8 if "markers" in one["mode"] else 0
                for x, y, text in zip(across.at(one["x"]), down.at(one["y"]), one["text"], strict=True):
                    if text:
                        box = _text_box(
                            _plain(text), x, y, font["size"], one.get("textposition", "middle center"), reach
                        )
                        yield _plain(text), box, font.get("color", self.ink), None

    def _annotation_box(self, one: dict[str, Any], size: float) -> Box:
        lifted = one.get("showarrow") is not False and one.get("ay") is not None and one.get("ayref") == "y"
        x = self._spot(one.get("xref", "x"), one["x"], log=True, side="x") + one.get("xshift", 0)
        y = self._spot(one.get("yref", "y"), one["ay"] if lifted else one["y"], log=True, side="y")
        named = one.get("yanchor", "middle")
        over = {"bottom": "top", "top": "bottom"}.get(named, "middle")
        aside = {"left": "right", "right": "left"}.get(one.get("xanchor", "center"), "center")
        return _text_box(_plain(one["text"]), x, y - one.get("yshift", 0), size, f"{over} {aside}", 0)

    def _of_shape(self, shape: dict[str, Any]) -> Iterator[Drawn]:
        line = shape.get("line", {})
        if shape["type"] == "path":
            yield Drawn("mark", line["color"], self.paper, "path")
        elif shape.get("fillcolor"):
            ink = line["color"] if shape["fillcolor"] == self.paper else shape["fillcolor"]
            yield Drawn("mark", ink, self.paper, "box")
        elif line["color"] != self.paper:  # else the ground of the line that follows
            x = [self._spot(shape.get("xref", "x"), shape[end], log=False, side="x") for end in ("x0", "x1")]
            y = [self._spot(shape.get("yref", "y"), shape[end], log=False, side="y") for end in ("y0", "y1")]
            points = np.stack([np.linspace(*x, 400), np.linspace(*y, 400)], axis=1)
            hidden = shape.get("layer") == "below"  # where bars are
            for under in {self.paper} if hidden or self._cased(shape) else set(self.beneath(points)):
                yield Drawn("mark", line["color"], under, "line")

    def _cased(self, shape: dict[str, Any]) -> bool:
        """Whether a line lies upon a wider one in the colour of the paper."""
        ends = [shape.get(name) for name in ("x0", "x1", "y0", "y1", "xref", "yref", "layer")]
        return any(
            other.get("line", {}).get("color") == self.paper
            and other["line"]["width"] >= shape["line"]["width"] + 2
            and [other.get(name) for name in ("x0", "x1", "y0", "y1", "xref", "yref", "layer")] == ends
            for other in self.layout["shapes"]
        )

    def _of_heatmap(self, one: dict[str, Any]) -> Iterator[Drawn]:
        """Cells alone tell something only where a scale says what."""
        if one.get("showscale"):
            (_, ground), *others = one["colorscale"]
            for _, colour in others:
                yield Drawn("mark", colour, ground, "cell")

    def _of_bar(self, one: dict[str, Any]) -> Iterator[Drawn]:
        marker = one["marker"]
        hatch = marker.get("pattern", {})
        for colour in set(_each(marker["color"], len(one["x"]))):
            yield Drawn("mark", colour, self.paper, one.get("name", "bar"))
            if hatch.get("shape"):
                yield Drawn("mark", hatch["fgcolor"], colour, "hatch")
            if one.get("text") is not None:
                yield Drawn("letters", one["textfont"]["color"], colour, "bar")
                assert not hatch.get("shape"), "letters upon a hatch"
        line = marker.get("line", {})
        if np.max(line.get("width", 0)) > 1:
            for colour in set(_each(line["color"], len(one["x"]))):
                yield Drawn("mark", colour, self.paper, "outline")

    def _of_scatter(self, one: dict[str, Any]) -> Iterator[Drawn]:
        across, down = self.of(one)
        points = np.stack([across.at(_numbers(one["x"])), down.at(_numbers(one["y"]))], axis=1)
        whole = points[~np.isnan(points).any(axis=1)]
        name = one.get("name") or ""
        if "markers" in one["mode"]:
            yield from self._markers(one, points, name)
        if "lines" in one["mode"] and one["line"].get("width"):
            parts = [np.linspace(a, b, 60) for a, b in itertools.pairwise(points)]
            along = np.concatenate([whole, *(part for part in parts if not np.isnan(part).any())])
            for under in set(self.beneath(along)):
                yield Drawn("mark", one["line"]["color"], under, f"line {name}")

    def _markers(self, one: dict[str, Any], points: np.ndarray, name: str) -> Iterator[Drawn]:
        marker, number = one["marker"], len(points)
        opacity = marker.get("opacity", 1)
        if not opacity:
            return
        symbols = _each(marker.get("symbol", "circle"), number)
        edges = _each(marker.get("line", {}).get("color", self.paper), number)
        fills = _each(marker["color"], number) if "color" in marker else edges
        inks = [
            edge if symbol in ("line-ns", "line-ew") or fill == self.paper else fill
            for symbol, edge, fill in zip(symbols, edges, fills, strict=True)
        ]
        assert opacity in (1, palette.SHEER)
        for ink, under in {*zip(inks, self.beneath(points), strict=True), *((ink, self.paper) for ink in inks)}:
            yield Drawn("mark" if opacity == 1 else "sheer mark", ink, under, f"marks {name}")


def _each(held: Any, number: int) -> list[Any]:
    return [held] * number if isinstance(held, str) else list(held)


def _numbers(held: Any) -> np.ndarray:
    return np.array([np.nan if one is None else one for one in held], dtype=float)


def _plain(text: str) -> str:
    return re.sub(r"<(?!br)[^>]*>", "", text).replace("&lt;", "<")


def _within(box: Box) -> np.ndarray:
    left, right, top, bottom = box
    x, y = np.meshgrid(np.linspace(left, right, SAMPLES), np.linspace(top, bottom, SAMPLES))
    return np.stack([x.ravel(), y.ravel()], axis=1)


def _text_box(text: str, x: float, y: float, size: float, position: str, reach: float) -> Box:
    """The place of a text that stands ``position`` (as "top right") of a point."""
    lines: Sequence[str] = text.split("<br>")
    wide, high = LETTER * size * max(map(len, lines)), LINE * size * len(lines)
    over, aside = position.split()
    left = {"left": x - wide - reach, "right": x + reach, "center": x - wide / 2}[aside]
    top = {"top": y - high - reach, "bottom": y + reach, "middle": y - high / 2}[over]
    return left, left + wide, top, top + high
