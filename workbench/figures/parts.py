"""What a result is shown as, in parts, the same in a notebook, on a page that is mailed, and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.audit.tables import Cell, Kind, Table
from workbench.figures import palette
from workbench.figures.words import count, probability, value

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

__all__ = [
    "Beside",
    "Cell",
    "Folded",
    "Kind",
    "Note",
    "Part",
    "Picture",
    "Said",
    "Table",
    "cell_text",
    "facts",
    "first_lines",
    "text_table",
]

_SHORT = 26  # letters of a text that is not broken
LINES = 20  # of a table that a notebook shows
_NAMES = ("row", "layer", "step", "rank", "call", "index", "token", "bin", "seed")  # numbers that name something


@dataclass(frozen=True)
class Said:
    """A sentence that stands out. ``colour``: of the finding that it tells."""

    text: str
    colour: str = palette.REFUSED_TEXT


@dataclass(frozen=True)
class Note:
    """What must be said besides."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A figure, drawn when it is needed. ``about``: what is said beneath."""

    title: str
    draw: Callable[[], go.Figure]
    about: str = ""


@dataclass(frozen=True)
class Folded:
    """Parts that are shown on request, beneath a title."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Beside:
    """Small tables beside each other, where there is room."""

    tables: tuple[Table, ...]


Part = Said | Note | Picture | Table | Folded | Beside


def facts(title: str, told: Mapping[str, Cell]) -> Table:
    """Names with their values, one a line; what is ``None`` is shown as unknown."""
    return Table(title, (("", "word"), ("", "text")), tuple((name, _of_fact(name, one)) for name, one in told.items()))


def _of_fact(name: str, one: Cell) -> str:
    return "unknown" if one is None else cell_text(name, one)


def first_lines(
    title: str, columns: Sequence[tuple[str, Kind]], rows: Iterable[Sequence[Cell]], of: int, what: str = "line"
) -> Table:
    """A table of the first lines of many. ``rows``: as many as are shown. ``of``: how many there are."""
    shown = tuple(tuple(row) for row in rows)
    more = f"the first {count(len(shown))} of {count(of)} {what}s" if of > len(shown) else ""
    return Table(title, tuple(columns), shown, more)


def text_table(title: str, frame: pd.DataFrame, kinds: Sequence[Kind] = ()) -> Table:
    """A table of texts, its first lines.

    Args:
        kinds: of the columns; where not given those are words whose texts are short.
    """
    rows = [tuple(str(cell) for cell in line) for line in frame.itertuples(index=False)]
    kinds = kinds or [_kind(column) for column in zip(*rows, strict=True)]
    columns = [(str(name), kind) for name, kind in zip(frame.columns, kinds, strict=True)] if rows else []
    return first_lines(title, columns, rows[:LINES], len(rows))


def _kind(texts: Sequence[str]) -> Kind:
    return "word" if max(map(len, texts)) <= _SHORT else "text"


def cell_text(name: str, cell: Cell) -> str:
    """A cell as people read it; numbers that name something, as a row or a layer, have no separators."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return probability(cell, possible=True) if name in ("p_clean", "p clean") else value(cell, 6)
    if isinstance(cell, int):
        return str(cell) if name in _NAMES else count(cell)
    return cell
