"""Compared runs laid out for a picture: which points share a place in it, and what the place shows of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from workbench.analysis.divergence.states import STATES, State
from workbench.analysis.divergence.tokens import PARTING_TOKENS, TokenStep
from workbench.figures import palette
from workbench.figures.words import count, plural, value
from workbench.runs.divergence import Comparison, Point
from workbench.words import UNKNOWN

# What a cell of several points shows: what accuses the selector, then what cannot follow from an earlier point.
GRAVITY: tuple[State, ...] = tuple(palette.STATES)  # type: ignore[arg-type]
assert set(GRAVITY) == set(STATES)
COLUMNS, LANES, CELLS = 240, 128, 7500  # of a picture at most; beyond that neighbours share a cell
FEW = 12  # steps that are drawn downwards at most, where there are more layers


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
    """The tokens of a column: a mark of ``palette.TOKENS``, what happened in words, and in a few letters; those are
    empty where there are several."""

    column: int
    mark: str
    text: str
    short: str = ""


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

    @property
    def turned(self) -> bool:
        """Whether steps are drawn downwards and layers to the right: a few steps of many layers then have the width of
        the page, and each step reads as it ran, up to its token."""
        return _turned(len(self.columns), len(self.lanes), self.steps and self.layers)

    def drawn_at(self, column: float, lane: float) -> tuple[float, float]:
        """x and y of a place in the picture."""
        return (lane, -column) if self.turned else (column, -lane)

    def point_at(self, x: float, y: float) -> int | None:
        """The number of the point that a place of the picture stands for; ``None`` where there is none."""
        place = (round(-y), round(x)) if self.turned else (round(x), round(-y))
        return next((cell.point for cell in self.cells if (cell.column, cell.lane) == place), None)

    def sharing(self, number: int) -> list[int]:
        """The numbers of all points in the cell of one, in execution order."""
        place = self.places.get(number)
        return [other for other, where in self.places.items() if where == place] if place is not None else []


def _turned(columns: int, lanes: int, named: bool) -> bool:
    return named and columns <= FEW < lanes


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
        notes=tuple(
            _notes(per_column, per_lane, steps, len(tokens), _turned(len(across), lanes, steps and layers)),
        ),
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
            yield TokenCell(column, gravest, token_text(several[0]), _token_short(several[0]))
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


def _token_short(token: TokenStep) -> str:
    """The tokens of both runs as numbers, once where they are the same."""
    if token.token_a is None or token.token_b is None or token.token_a == token.token_b:
        known = token.token_a if token.token_a is not None else token.token_b
        return "" if known is None else f"{known}"
    return f"{token.token_a} | {token.token_b}"


def _notes(per_column: int, per_lane: int, steps: bool, tokens: int, turned: bool) -> Iterable[str]:
    gravest = "a mark shows the gravest state in it"
    what = "steps" if steps else "calls"
    if per_column > 1:
        yield f"each column holds {per_column} {what}; {gravest}"
    if per_lane > 1:
        yield f"each {'column' if turned else 'line'} holds {per_lane} layers; {gravest}"
    if not steps:
        yield "the captures do not say steps: columns are calls in the order of the run"
        if tokens:
            yield "tokens have no place here, since the points name no step"
