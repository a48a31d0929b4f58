"""Where text breaks: columns fitted to a width, and paragraphs. Numbers are never cut."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, chop_cells

LEAST_FOLDED = 24  # a column of text is made narrower than its longest word, but not narrower than this
LEAST_TITLE = 4  # a title is cut into pieces of so many letters, or more
_SPACES = re.compile(r"\S+\s*|\s+")
_DOTS = re.compile(r"[^\s.]+\.?\s*|\.\s*|\s+")


@dataclass(frozen=True)
class Column:
    """A column of a table. Numbers stand right, words and text left.

    Text wraps at spaces; words do where the table would not fit, at worst after a dot; then even numbers such as
    ``5000 / 4096`` wrap between the two, and never within one.
    """

    title: str
    kind: Literal["number", "word", "text"] = "number"


def wrap(text: str, width: int, *, dots: bool = False, fold: bool = True) -> list[str]:
    """Lines of at most ``width`` cells.

    Args:
        dots: whether a line may also end after a dot. fold: whether a longer piece is cut; otherwise it stands out.
    """
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for piece in (_DOTS if dots else _SPACES).findall(text):
        if cell_len(lines[-1] + piece.rstrip()) <= width:
            lines[-1] += piece
            continue
        if lines[-1].strip():
            lines.append("")
        if not fold or cell_len(piece.rstrip()) <= width:
            lines[-1] += piece
        else:
            lines[-1:] = chop_cells(piece.rstrip(), max(width, 1))
            lines[-1] += " " * (len(piece) - len(piece.rstrip()))
    return [line.rstrip() for line in lines]


@dataclass(frozen=True)
class Fitted:
    """A table as it is printed: cells between columns, each column's width, and the lines of titles and cells."""

    gap: int
    widths: list[int]
    titles: list[list[str]]
    rows: list[list[list[str]]]


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Fitted:
    """Fit a table to ``width`` cells: the first of wide gaps, narrow gaps, wrapped words, wrapped numbers, titles in
    pieces that does.

    A table whose numbers and words alone need more gets it.
    """
    texts = [Counter(row[at] for row in rows) for at in range(len(columns))]
    for gap, level in ((2, 0), (1, 0), (1, 1), (1, 2), (1, 3)):
        room = width - gap * (len(columns) - 1)
        fitted = [_Column(column, text, level, width) for column, text in zip(columns, texts, strict=True)]
        if sum(column.least for column in fitted) <= room:
            break
    while sum(column.width for column in fitted) > room:
        spare = [column for column in fitted if column.width > column.least]
        if not spare:
            break
        min(spare, key=_Column.reluctance).narrow()
    titles = [
        [line for part in column.title.split("\n") for line in wrap(part, made.width)]
        for column, made in zip(columns, fitted, strict=True)
    ]
    return Fitted(
        gap,
        [column.width for column in fitted],
        titles,
        [[column.wrapped(text) for column, text in zip(fitted, row, strict=True)] for row in rows],
    )


class _Column:
    """A column while it is fitted.

    Args:
        texts: its cells, and how often each occurs. level: 1 to wrap words, 2 numbers too, 3 to cut titles.
        widest: more is never tried.
    """

    def __init__(self, column: Column, texts: Counter[str], level: int, widest: int) -> None:
        self.kind, self._texts = column.kind, texts
        self._dots = level > 1 and column.kind == "word"
        wraps = column.kind == "text" or level > (0 if column.kind == "word" else 1)
        title = max(map(cell_len, column.title.split() if wraps else column.title.split("\n")), default=0)
        title = min(title, LEAST_TITLE) if level > 2 else title
        longest = max(map(cell_len, texts), default=0)
        self.width = max(*map(cell_len, column.title.split("\n")), longest)
        pieces = [piece for text in texts for piece in (_DOTS if self._dots else _SPACES).findall(text)]
        self.least = max(title, max((cell_len(piece.rstrip()) for piece in pieces), default=0) if wraps else longest)
        if self.kind == "text":
            self.least = max(title, min(self.least, LEAST_FOLDED))
            self.width = max(self.least, min(self.width, widest))

    def wrapped(self, text: str) -> list[str]:
        """The lines of a cell."""
        return wrap(text, self.width, dots=self._dots)

    def reluctance(self) -> tuple[int, float]:
        """What speaks against making it narrower: its kind, then the lines that each cell of width saved would add."""
        narrower = self._narrower()
        more = sum(
            count * (len(wrap(text, narrower, dots=self._dots)) - len(self.wrapped(text)))
            for text, count in self._texts.items()
        )
        return ("text", "word", "number").index(self.kind), more / (self.width - narrower)

    def narrow(self) -> None:
        """Make it so narrow that a line must break which did not before."""
        self.width = self._narrower()

    def _narrower(self) -> int:
        """The next width at which lines are filled; lines broken at spaces seldom fill theirs."""
        lines = (line for text in self._texts for line in wrap(text, self.width - 1, dots=self._dots))
        return max(self.least, max(map(cell_len, lines), default=0))
