"""The matrix row × release: releases to the right, rows downwards, each cell by where the row stands in the release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.frame import new_figure
from workbench.figures.grid import clickable, grounds, label_axes, marks_of, outline
from workbench.figures.words import count, plain, value, wrapped
from workbench.runs.matrix import Cell, Matrix, MatrixRow

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_ROWS, MOST_RELEASES = 40, 60  # of a picture
_TALL, _LEAST, _MOST = 520, 13, 42  # pixels of all rows, and of one
_NUMBERED = 38  # pixels of a row from which values missing are written into its cells
_BELOW = 13  # pixels from a mark to its number, so that an outline passes between the two
_NARROW = 1000 / 30  # pixels of a column below which they are not


def places_shown(matrix: Matrix) -> tuple[list[int], list[int]]:
    """The places of the rows in a picture, the worst ones where not all are, and of its releases, the newest."""
    return list(matrix.worst_first[:MOST_ROWS]), list(range(len(matrix.releases)))[-MOST_RELEASES:]


def is_numbered(matrix: Matrix) -> bool:
    """Whether there is room for the values missing in the cells of the picture."""
    rows, releases = places_shown(matrix)
    return _row_height(len(rows)) >= _NUMBERED and 1000 / len(releases) >= _NARROW


def _row_height(rows: int) -> float:
    return min(_MOST, max(_LEAST, _TALL / rows))


def cell_at(matrix: Matrix, x: float, y: float) -> tuple[int, int] | None:
    """(row, release) as places in the matrix of a clicked place of its picture; ``None`` where there is none."""
    rows, releases = places_shown(matrix)
    column, lane = round(x), round(-y)
    return (rows[lane], releases[column]) if 0 <= lane < len(rows) and 0 <= column < len(releases) else None


def releases_figure(matrix: Matrix, chosen: tuple[int, int] | None = None) -> go.Figure:
    """Releases to the right, rows downwards, the worst first; each standing by colour and symbol.

    Args:
        matrix: with a row and a release at least. chosen: (row, release) to outline, as places in the matrix.

    Returns:
        A figure whose marks stand near (column, -lane); ``cell_at`` turns a clicked place into a cell.
    """
    rows, releases = places_shown(matrix)
    lanes, columns = len(rows), len(releases)
    high = _row_height(lanes)
    cells: list[tuple[int, int, Cell]] = [
        (column, lane, matrix.cells[at][release])
        for lane, at in enumerate(rows)
        for column, release in enumerate(releases)
    ]
    states = [state for state in palette.STANDINGS if any(cell.state == state for _, _, cell in cells)]
    packages = [package for package, places in matrix.of_package().items() if set(places) & set(releases)]
    names = [_short(matrix.releases[at], several=len(packages) > 1) for at in releases]
    turned = columns * max(map(len, names)) * 7 > 900
    bottom = 44 + (int(5.6 * max(map(len, names))) if turned else 16)
    labels = [brief(matrix.row_name(at), 36) for at in rows]
    left = 40 + 7 * max(map(len, labels))
    figure = new_figure(int(36 + high * lanes + 12 + bottom), top=36, bottom=bottom, left=left)
    grounds(figure, [(x, y, str(cell.state)) for x, y, cell in cells], palette.STANDINGS, columns, lanes)
    size = max(6.0, min(13.0, high - 6))
    numbered = is_numbered(matrix)
    up = 7 / high if numbered else 0.0  # makes room for the number below the mark
    for state in states:
        told: list[tuple[int, float, str]] = [
            (x, up - y, _told(matrix.row_name(rows[y]), matrix.rows[rows[y]], cell))
            for x, y, cell in cells
            if cell.state == state
        ]
        marks_of(figure, told, state, palette.STANDINGS, size, state)
    if numbered:
        _numbers(figure, [(x, up - y - _BELOW / high, cell.missing_mean) for x, y, cell in cells if cell.missing_mean])
    if chosen is not None and chosen[0] in rows and chosen[1] in releases:
        outline(figure, releases.index(chosen[1]), up - rows.index(chosen[0]), size + 7)
    label_axes(
        figure,
        f"release of {packages[0]}, oldest first" if len(packages) == 1 else "release",
        list(map(plain, names)),
        list(map(plain, labels)),
        turned=turned,
    )
    clickable(figure)
    return figure


def _numbers(figure: go.Figure, numbers: Sequence[tuple[int, float, float | None]]) -> None:
    """Values missing on average, below the marks of cells that lost some."""
    import plotly.graph_objects as go

    figure.add_trace(
        go.Scatter(
            x=[x for x, _, _ in numbers],
            y=[y for _, y, _ in numbers],
            mode="text",
            text=[missing_text(missing) for _, _, missing in numbers],
            textposition="bottom center",
            textfont={"size": 11, "color": palette.TEXT},
            hoverinfo="skip",
            showlegend=False,
        )
    )


def missing_text(missing: float | None) -> str:
    """Values missing on average, in three digits or as a whole number."""
    return "" if missing is None else count(round(missing)) if missing >= 100 else value(missing, 3)


def brief(text: str, most: int) -> str:
    """Text cut short."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _short(release: str, several: bool) -> str:
    return release if several else release.partition("==")[2]


def _told(name: str, row: MatrixRow, cell: Cell) -> str:
    of = max(0, min(row.k, row.length))
    told = [f"{name} in {cell.release}: {cell.state}"]
    if cell.path:
        told.append(f"{cell.path} ({cell.variant})")
    if cell.calls:
        told.append(f"{cell.verdict}: {count(cell.lost_calls)} of {count(cell.calls)} calls lost winners")
        told.append(f"{missing_text(cell.missing_mean) or 0} of {count(of)} missing a call, on average")
    if cell.why:
        told += wrapped(cell.why)
    return "<br>".join(plain(text) for text in told)
