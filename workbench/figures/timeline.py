"""Where compared runs part: steps by layers, each point by its state, and the tokens beneath."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.divergence.states import STATES, State
from workbench.analysis.divergence.tokens import PARTING_TOKENS, TokenStep
from workbench.figures import palette
from workbench.figures.frame import axis, new_figure
from workbench.figures.words import count, plural, value
from workbench.runs.divergence import Comparison, Point

if TYPE_CHECKING:
    import plotly.graph_objects as go

# What a cell of several points shows: what accuses the selector, then what cannot follow from an earlier point.
GRAVITY: tuple[State, ...] = tuple(palette.STATES)  # type: ignore[arg-type]
assert set(GRAVITY) == set(STATES)
COLUMNS, LANES, CELLS = 240, 128, 7500  # of a picture at most; beyond that neighbours share a cell
_WIDTH, _TALL = 1000, 440  # pixels that the cells are laid out for
_LEGEND = 150  # pixels that an entry of the legend takes at most
_TOLD = 4  # states of a cell that are named
_LABELS = 24  # at an axis at most
UNKNOWN = "unknown"


class All(Enum):
    """What is said for points of whatever rank or request."""

    ALL = "all"


ALL = All.ALL


@dataclass(frozen=True)
class Cell:
    """One place of the picture: points of a layer at a step, or of several of either.

    Attributes:
        state: the gravest of its points. counts: of each state in it, the gravest first. point: the first point of the
            gravest state, by its number in the comparison.
    """

    column: int
    lane: int
    state: State
    counts: tuple[tuple[State, int], ...]
    point: int


@dataclass(frozen=True)
class TokenCell:
    """The tokens of a column: a mark of ``palette.TOKENS``, and what happened in words."""

    column: int
    mark: str
    text: str


@dataclass(frozen=True, eq=False)
class Timeline:
    """A comparison laid out for a picture.

    Attributes:
        columns, lanes: labels of the steps and layers. cells: those that hold points. tokens: beneath them.
        first: the number of the first point at which the runs part, ``None`` if none is shown.
        steps: whether columns are steps; else they are calls in the order of the run.
        layers: whether lanes are layers; else there is one for all.
        notes: what is drawn together, in words; empty if every step and layer has a place of its own.
        places: (column, lane) of every point shown, by its number.
    """

    columns: tuple[str, ...]
    lanes: tuple[str, ...]
    cells: tuple[Cell, ...]
    tokens: tuple[TokenCell, ...]
    first: int | None
    steps: bool
    layers: bool
    notes: tuple[str, ...]
    places: Mapping[int, tuple[int, int]]

    def point_at(self, x: float, y: float) -> int | None:
        """The number of the point that a place of the picture stands for; ``None`` where there is none."""
        place = (round(x), round(-y))
        return next((cell.point for cell in self.cells if (cell.column, cell.lane) == place), None)

    def sharing(self, number: int) -> list[int]:
        """The numbers of all points in the cell of one, in execution order."""
        place = self.places.get(number)
        return [other for other, where in self.places.items() if where == place] if place is not None else []


def timeline(comparison: Comparison, *, rank: int | All | None = ALL, request: str | All | None = ALL) -> Timeline:
    """Lay out a comparison, or the points and tokens of one rank or request.

    A cell of several points shows the gravest state: values vary, then calls that have no partner, ties, order, and
    last an input that differs, since that may follow from an earlier point.

    Args:
        rank, request: which to show, ``None`` for those that do not say; by default all.
    """
    chosen = [
        (number, point)
        for number, point in enumerate(comparison.points)
        if rank in (ALL, point.rank) and request in (ALL, point.request)
    ]
    tokens = [token for token in comparison.tokens if request in (ALL, token.request)]
    steps = any(point.step is not None for _, point in chosen) or (not chosen and bool(tokens))
    layers = any(point.layer is not None for _, point in chosen)
    keys = [point.step if steps else _call(point) for _, point in chosen]
    across = _ordered([*keys, *(token.step for token in tokens if steps)], sort=steps)
    down = _ordered([point.layer for _, point in chosen], sort=True)
    per_lane = math.ceil(len(down) / LANES) or 1
    lanes = math.ceil(len(down) / per_lane)
    per_column = math.ceil(len(across) / min(COLUMNS, max(1, CELLS // max(1, lanes)))) or 1
    column_of = {key: at // per_column for at, key in enumerate(across)}
    lane_of = {key: at // per_lane for at, key in enumerate(down)}
    places = {number: (column_of[key], lane_of[point.layer]) for key, (number, point) in zip(keys, chosen, strict=True)}
    return Timeline(
        columns=_labels(across if steps else range(1, len(across) + 1), per_column),
        lanes=_labels(down, per_lane) if layers else ("",) * bool(down),
        cells=tuple(_cells(comparison.points, places)),
        tokens=tuple(_token_cells(tokens, column_of)) if steps else (),
        first=next((number for number, point in chosen if point.parts), None),
        steps=steps,
        layers=layers,
        notes=tuple(_notes(per_column, per_lane, steps, len(tokens))),
        places=places,
    )


def _call(point: Point) -> Hashable:
    stored = point.a if point.a is not None else point.b
    assert stored is not None
    return point.a is None, stored.file, stored.call


def _ordered(keys: Iterable[Hashable], *, sort: bool) -> list[Hashable]:
    """Different keys in their order, unknown ones last."""
    found = list(dict.fromkeys(keys))
    return sorted(found, key=lambda key: math.inf if key is None else float(key)) if sort else found  # type: ignore[arg-type]


def _labels(keys: Sequence[Hashable] | range, per: int) -> tuple[str, ...]:
    texts = [UNKNOWN if key is None else f"{key}" for key in keys]
    groups = [texts[at : at + per] for at in range(0, len(texts), per)]
    return tuple(group[0] if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in groups)


def _cells(points: Sequence[Point], places: Mapping[int, tuple[int, int]]) -> Iterable[Cell]:
    held: dict[tuple[int, int], Counter[State]] = {}
    first: dict[tuple[tuple[int, int], State], int] = {}
    for number, place in places.items():
        state = points[number].state
        held.setdefault(place, Counter())[state] += 1
        first.setdefault((place, state), number)
    for place, counts in held.items():
        ordered = tuple((state, counts[state]) for state in GRAVITY if counts[state])
        yield Cell(*place, ordered[0][0], ordered, first[place, ordered[0][0]])


def _token_cells(tokens: Iterable[TokenStep], column_of: Mapping[Hashable, int]) -> Iterable[TokenCell]:
    held: dict[int, list[TokenStep]] = {}
    for token in tokens:
        held.setdefault(column_of[token.step], []).append(token)
    for column, several in held.items():
        marks = Counter(token_mark(token) for token in several)
        gravest = next(mark for mark in palette.TOKENS if marks[mark])
        if len(several) == 1:
            yield TokenCell(column, gravest, token_text(several[0]))
        else:
            told = [f"{count(marks[mark])} {mark}" for mark in palette.TOKENS if marks[mark]]
            yield TokenCell(column, gravest, f"{plural(len(several), 'token')}: {', '.join(told)}")


def token_mark(token: TokenStep) -> str:
    """How a token is drawn: its state, and where tokens differ whether a tie or near-tie explains it."""
    close = token.state == "token differs" and token.cause in ("tie", "near-tie") and not token.not_greedy
    return "token differs by a tie or near-tie" if close else token.state


def token_text(token: TokenStep) -> str:
    """A token of two runs in a few words, with the margin of the two best logits where it is known."""
    if token.state == "token differs":
        text = f"token {token.token_a} against {token.token_b}"
    elif token.state in PARTING_TOKENS or token.state == "not comparable":
        text = token.state
    else:
        text = f"token {token.token_a}, the same" if token.token_a is not None else "the same"
    if token.flip_ulps is not None:
        return f"{text}; their logits up to {plural(token.flip_ulps, 'ULP')} apart"
    margins = [margin for margin in (token.a, token.b) if margin is not None and not math.isnan(margin.margin)]
    least = min(margins, key=lambda margin: margin.margin, default=None)
    return text if least is None else f"{text}; margin {value(least.margin, 3)}"


def _notes(per_column: int, per_lane: int, steps: bool, tokens: int) -> Iterable[str]:
    gravest = "a mark shows the gravest state in it"
    what = "steps" if steps else "calls"
    if per_column > 1:
        yield f"each column holds {per_column} {what}; {gravest}"
    if per_lane > 1:
        yield f"each line holds {per_lane} layers; {gravest}"
    if not steps:
        yield "the captures do not say steps: columns are calls in the order of the run"
        if tokens:
            yield "tokens have no place here, since the points name no step"


def timeline_figure(laid: Timeline, chosen: int | None = None) -> go.Figure:
    """Steps to the right, layers downwards as they are executed, tokens beneath; each state by colour and symbol.

    Args:
        laid: what is drawn. chosen: the number of a point to outline.

    Returns:
        A figure whose marks stand at (column, -lane); ``laid.point_at`` turns a clicked place into a point.
    """
    import plotly.graph_objects as go

    columns, lanes = max(1, len(laid.columns)), max(1, len(laid.lanes))
    high = min(26.0, max(4.4, _TALL / lanes))
    size = max(4.0, min(14.0, high - 2, _WIDTH / columns - 1))
    gap = max(1.5, 14 / high)
    below = -(lanes - 1) - gap
    states = [state for state in GRAVITY if any(cell.state == state for cell in laid.cells)]
    marks = [mark for mark in palette.TOKENS if any(cell.mark == mark for cell in laid.tokens)]
    entries = len(states) + len(marks) + (laid.first is not None) + 1
    legend = 24 * math.ceil(entries / (_WIDTH // _LEGEND)) + 12
    bottom = below if laid.tokens else -(lanes - 1)
    low, top = bottom - 12 / high, 12 / high
    figure = new_figure(int(legend + high * (top - low)) + 62, top=legend, bottom=62, left=76)
    _grounds(figure, [(cell.column, cell.lane, cell.state) for cell in laid.cells], palette.STATES, columns, lanes)
    for state in states:
        cells = [cell for cell in laid.cells if cell.state == state]
        _marks(figure, [(cell.column, -cell.lane, _told(laid, cell)) for cell in cells], state, palette.STATES, size)
    if laid.tokens:
        _grounds(figure, [(cell.column, 0, cell.mark) for cell in laid.tokens], palette.TOKENS, columns, 1, below)
    for mark in marks:
        told = [
            (cell.column, below, f"{_column(laid, cell.column)}<br>{cell.text}")
            for cell in laid.tokens
            if cell.mark == mark
        ]
        _marks(figure, told, mark, palette.TOKENS, size, f"token: {mark.removeprefix('token ')}")
    for name, number, symbol, colour in (
        ("first point at which they part", laid.first, "circle-open", palette.TEXT),
        ("shown below", chosen, "square-open", palette.THRESHOLD),
    ):
        place = None if number is None else laid.places.get(number)
        if place is not None:
            outline = {"symbol": symbol, "size": size + 7, "color": colour, "line": {"width": 2.5}}
            calm = {"marker": {"opacity": 1}}
            figure.add_trace(
                go.Scatter(
                    x=[place[0]],
                    y=[-place[1]],
                    mode="markers",
                    name=name,
                    marker=outline,
                    hoverinfo="skip",
                    unselected=calm,
                )
            )
    pad = max(0.5, 14 * columns / _WIDTH)
    figure.update_xaxes(
        **axis(
            "step" if laid.steps else "call, in the order of the run",
            range=[-pad, columns - 1 + pad],
            tickvals=(ticks := _ticks(laid.columns, max(map(len, laid.columns), default=1))),
            ticktext=[laid.columns[at] for at in ticks],
            showgrid=False,
            ticks="outside",
            ticklen=4,
        )
    )
    rows = _ticks(laid.lanes, 1, int(_TALL / 13) if high < 13 else 1000)
    names = [laid.lanes[at] for at in rows]
    figure.update_yaxes(
        **axis(
            "layer" if laid.layers else "",
            range=[low, top],
            tickvals=[*(-at for at in rows), *([below] if laid.tokens else [])],
            ticktext=[*names, *(["token"] if laid.tokens else [])],
            showgrid=False,
        )
    )
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
        hoverdistance=-1,  # the mark of the cell under the pointer, wherever in the cell it is
    )
    return figure


def _grounds(
    figure: go.Figure,
    cells: list[tuple[int, int, str]],
    marks: Mapping[str, tuple[str, str]],
    columns: int,
    lanes: int,
    top: float = 0,
) -> None:
    """A tint behind each mark, so that states are seen from afar. Cells: (column, lane, mark)."""
    import plotly.graph_objects as go

    names = list(marks)
    grid = np.zeros((lanes, columns), dtype=np.int8)
    for column, lane, mark in cells:
        grid[lane, column] = names.index(mark) + 1
    colours = [palette.PAPER, *(_tint(marks[name][0]) for name in names)]
    steps = [(at / len(colours), (at + 1) / len(colours)) for at in range(len(colours))]
    figure.add_trace(
        go.Heatmap(
            z=grid,
            x=np.arange(columns, dtype=np.int32),
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


def _tint(colour: str, share: float = 0.28) -> str:
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02X}" for part in parts)


def _marks(
    figure: go.Figure,
    told: list[tuple[int, float, str]],
    name: str,
    marks: Mapping[str, tuple[str, str]],
    size: float,
    title: str = "",
) -> None:
    import plotly.graph_objects as go

    colour, symbol = marks[name]
    small = name == "same"
    open_ = symbol.endswith("-open")
    figure.add_trace(
        go.Scatter(
            x=np.array([x for x, _, _ in told], dtype=np.int32),
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


def _column(laid: Timeline, column: int) -> str:
    label = laid.columns[column]
    return f"{'step' if laid.steps else 'call'}{'s' if '–' in label else ''} {label}"


def _told(laid: Timeline, cell: Cell) -> str:
    where = _column(laid, cell.column)
    if laid.layers:
        label = laid.lanes[cell.lane]
        where += f", layer{'s' if '–' in label else ''} {label}"
    told = [f"{count(number)} {state}" for state, number in cell.counts[:_TOLD]]
    others = sum(number for _, number in cell.counts[_TOLD:])
    return f"{where}<br>{', '.join(told)}" + (f", {count(others)} others" if others else "")


def _ticks(labels: Sequence[str], characters: int, most: int | None = None) -> list[int]:
    """Places that are labelled, evenly spaced, so that labels do not touch."""
    most = min(_LABELS, int(_WIDTH / (9 * characters + 14))) if most is None else most
    every = math.ceil(len(labels) / max(1, most)) or 1
    if every > 1:  # a round number of steps between labels
        power = 10 ** int(math.log10(every))
        every = next(power * round_ for round_ in (1, 2, 5, 10) if power * round_ >= every)
    return list(range(0, len(labels), every))
