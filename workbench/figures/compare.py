"""One row on many paths: paths downwards, to the right their variants or engines; or ops, and releases to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.figures import palette
from workbench.figures.frame import new_figure
from workbench.figures.grid import clickable, grounds, label_axes, legend_height, legend_width, marks_of, outline
from workbench.figures.releases import missing_text
from workbench.figures.words import count, plain, probability, wrapped
from workbench.runs.compare import Compared, Place
from workbench.runs.law_words import random_order
from workbench.runs.matrix import Cell

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW, _SIZE = 21, 12  # pixels of a line and of a mark
_PAGE = 780  # pixels of the picture where a page is narrow
_WIDTH = 560  # pixels of all columns where a page is narrow
_NARROW = 14  # pixels of a column, below which marks and turned names meet
_NUMBERED = 54  # pixels of a column from which numbers stand beside its marks
EXPECTED = "≈"  # before a number that the analysis expects, and no call showed
_TITLES = {"variants": "variant", "engines": "engine", "releases": "release"}


def place_at(found: Compared, x: float, y: float) -> Place | None:
    """The cell of a clicked place of the picture; ``None`` where there is none."""
    column, lane = round(x), round(-y)
    if not (0 <= lane < len(found.lines) and 0 <= column < len(found.columns)):
        return None
    place = (found.lines[lane], found.columns[column])
    return place if place in found.cells else None


def is_numbered(found: Compared) -> bool:
    """Whether there is room for values missing beside the marks."""
    return _WIDTH / max(1, len(found.columns)) >= _NUMBERED


def number_text(cell: Cell) -> str:
    """Values missing on average: of the calls, else, with ``≈``, of random arrival orders by the analysis; empty where
    nothing is missing or it is not known."""
    if cell.calls:
        return missing_text(cell.missing_mean) if cell.missing_mean else ""
    return f"{EXPECTED}{missing_text(cell.expected_missing)}" if cell.expected_missing else ""


def least_width(found: Compared) -> int:
    """Pixels of the picture below which its marks, names or legend would meet; at most those of a narrow page."""
    names, turned = _names(found)
    left, right = _margins(found, names, turned)
    each = _NUMBERED if is_numbered(found) else _NARROW if turned else 7 * max(map(len, names)) + 8
    return min(_PAGE, left + right + max(each * len(names), legend_width(_legend(found))))


def _names(found: Compared) -> tuple[list[str], bool]:
    """What stands above the columns, and whether that is turned."""
    names = list(found.columns)
    if found.axis == "releases" and len(_packages(found)) == 1:
        names = [name.partition("==")[2] for name in names]
    return names, len(names) * (7 * max(map(len, names)) + 8) > _WIDTH


def _packages(found: Compared) -> set[str]:
    return {name.partition("==")[0] for name in found.columns}


def _margins(found: Compared, names: list[str], turned: bool) -> tuple[int, int]:
    """Left and right of the columns."""
    return 30 + 7 * max(map(len, found.lines)), 8 + int(3.2 * max(map(len, names))) if turned else 8


def _legend(found: Compared) -> list[str]:
    return [*dict.fromkeys(str(cell.state) for cell in found.cells.values()), "shown below"]


def compared_figure(found: Compared, chosen: Place | None = None) -> go.Figure:
    """Paths downwards, columns to the right; where the row stands by colour and symbol.

    Args:
        found: with a line at least. chosen: (line, column) of the cell to outline.

    Returns:
        A figure whose marks stand at (column, -lane); ``place_at`` turns a clicked place into a cell.
    """
    lanes, columns = len(found.lines), len(found.columns)
    names, turned = _names(found)
    left, right = _margins(found, names, turned)
    top = legend_height(_legend(found), _PAGE - left - right)
    top += int(5.6 * max(map(len, names))) + 10 if turned else 24
    figure = new_figure(top + _ROW * lanes + 8, top=top, bottom=8, left=left, right=right)
    cells = [
        (x, y, found.cells[line, column])
        for y, line in enumerate(found.lines)
        for x, column in enumerate(found.columns)
        if (line, column) in found.cells
    ]
    tints = [(x, y, str(cell.state)) for x, y, cell in cells]
    # Most places are empty: a tint leads the eye from a mark to its names.
    grounds(figure, tints, palette.STANDINGS, columns, lanes, empty=palette.SURFACE)
    for state in palette.STANDINGS:
        told: list[tuple[int, float, str]] = [
            (x, -y, _told(found, (found.lines[y], found.columns[x]))) for x, y, cell in cells if cell.state == state
        ]
        if told:
            marks_of(figure, told, state, palette.STANDINGS, _SIZE, state)
    if is_numbered(found):
        _numbers(figure, [(x, -y, number_text(cell)) for x, y, cell in cells if number_text(cell)])
    if chosen in found.cells and chosen is not None:
        outline(figure, found.columns.index(chosen[1]), -found.lines.index(chosen[0]), _SIZE + 7)
    label_axes(
        figure,
        _TITLES[found.axis]
        + (f" of {_packages(found).pop()}" if found.axis == "releases" and len(_packages(found)) == 1 else ""),
        list(map(plain, names)),
        [f"<b>▸ {plain(line)}</b>" if line == found.reached else plain(line) for line in found.lines],
        turned=turned,
        top=True,
    )
    clickable(figure)
    figure.update_layout(legend={"xref": "container", "x": 0, "yref": "container", "y": 1, "yanchor": "top"})
    return figure


def _numbers(figure: go.Figure, numbers: list[tuple[int, float, str]]) -> None:
    """Values missing on average, to the right of the marks."""
    for x, y, text in numbers:
        figure.add_annotation(
            x=x,
            y=y,
            xanchor="left",
            xshift=_SIZE,
            text=text,
            showarrow=False,
            font={"size": 11, "color": palette.TEXT},
        )


def _told(found: Compared, place: Place) -> str:
    cell = found.cells[place]
    where = f"{cell.path} ({cell.variant})" if cell.path else ""
    if found.axis == "releases":
        told = [f"{place[0]} of {place[1]}: {cell.state}", *filter(None, [where])]
    else:
        told = [f"{where or place[0]}{'' if found.axis == 'variants' else f' · {place[1]}'}: {cell.state}"]
    if cell.calls:
        lost = f"{count(cell.lost_calls)} of {count(cell.calls)} calls lost winners"
        told.append(f"{cell.verdict}: {lost}")
        told.append(f"{missing_text(cell.missing_mean) or 0} of {count(found.of)} missing a call, on average")
    elif cell.expected_missing:
        order = random_order(cell.path, "arrival order")
        told.append(f"{order} loses {missing_text(cell.expected_missing)} of {count(found.of)}")
    if cell.why:
        told += wrapped(cell.why)
    return "<br>".join(plain(text) for text in told)


def shown_texts(cell: Cell) -> tuple[str, str, str]:
    """Of a cell as people read it: values missing a call, p_clean, and values that a random order loses."""
    mean = cell.missing_mean
    missing = "–" if not cell.calls else missing_text(mean) or "0" if mean is not None else span_text(cell)
    expected = "–" if cell.expected_missing is None else missing_text(cell.expected_missing) or "0"
    return missing, probability(cell.p_clean, possible=cell.risk == "at risk"), expected


def span_text(cell: Cell) -> str:
    """Least to most values missing in a call."""
    least, most = cell.missing_least, cell.missing_most
    if least is None or most is None:
        return "–"
    return count(least) if least == most else f"{count(least)} – {count(most)}"
