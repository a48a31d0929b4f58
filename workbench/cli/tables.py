"""Text for people: tables that fit 100 columns, plain where there is no terminal, numbers never cut."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from workbench.cli.exits import printable

WIDTH = 100
NONE = "–"
UNKNOWN = "unknown"
MARKS = {True: "✓", False: "✗", None: "?"}
_PLAIN = str.maketrans({"✓": "+", "✗": "-", "–": "-", "…": "...", "≤": "<=", "≥": ">=", "×": "x"})
_ENDLESS = 100_000
_SPANS = 12
_LINE_ENDS = re.compile(r" +$", re.MULTILINE)

STYLES = {
    "invalid": "bold red",
    "lossy": "red",
    "ties": "cyan",
    "exact": "green",
    "certain": "bold red",
    "at risk": "yellow",
    "safe": "green",
    "refused": "magenta",
    "lost": "red",
    "kept": "yellow",
    "reached": "bold",
}


@dataclass(frozen=True)
class Column:
    """A column of a table. Numbers stand right and never wrap, words stand left and never wrap, text may wrap."""

    title: str
    kind: Literal["number", "word", "text"] = "number"


def console(stderr: bool = False) -> Console:
    """A console on stdout or stderr; 100 columns wide where nothing says otherwise."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else WIDTH
    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def _print(made: RenderableType) -> None:
    """Print without spaces at line ends. What needs more than the terminal has gets it: no number is ever cut."""
    out = console()
    out.width = max(out.width, _needs(made))
    with out.capture() as captured:
        out.print(made)
    text = _LINE_ENDS.sub("", captured.get())
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = text.translate(_PLAIN)
    sys.stdout.write(text)


def say(text: str, style: str = "") -> None:
    """Print a paragraph."""
    _print(Text(printable(text), style))


def lines(texts: Iterable[str], indent: str = "  ") -> None:
    """Print one line each; an indented one wraps under its own beginning."""
    if not indent:
        for text in texts:
            say(text)
        return
    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for text in texts:
        grid.add_row(indent, Text(printable(text)))
    if grid.row_count:
        _print(grid)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table; cells that are a verdict, a risk or a status get its colour."""
    cells = [[_cell(value) for value in row] for row in rows]
    if title:
        say(title, "bold")
    wide = _table(columns, cells, gap=2)
    _print(wide if _needs(wide) <= console().width else _table(columns, cells, gap=1))
    _print("")


def _table(columns: Sequence[Column], cells: Sequence[Sequence[Text]], gap: int) -> Table:
    made = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
    for at, column in enumerate(columns):
        title = Text(column.title)
        whole = column.kind != "text"
        widest = max(text.cell_len for text in [*title.split(), *(row[at] for row in cells)])
        made.add_column(
            title,
            justify="right" if column.kind == "number" else "left",
            no_wrap=whole,
            width=widest if whole else None,
            overflow="fold",
            vertical="top",
        )
    for row in cells:
        made.add_row(*row)
    return made


def _needs(made: RenderableType) -> int:
    """The columns that something needs at least."""
    out = console()
    return Measurement.get(out, out.options.update(max_width=_ENDLESS), made).minimum


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, _cell(value))
    _print(grid)


def _cell(value: object) -> Text:
    text = NONE if value is None else printable(str(value))
    return Text(text, STYLES.get(text.split(",")[0], ""))


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits; whole numbers in full."""
    if value is None:
        return NONE
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.{digits}g}"


def score(value: float) -> str:
    """A score with all digits that tell it from its float32 neighbours."""
    return f"{value:.9g}"


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in short, as in ``0-3, 7``; a dozen spans at most."""
    spans: list[list[int]] = []
    for at in numbers:
        if spans and at <= spans[-1][1] + 1:
            spans[-1][1] = at
        else:
            spans.append([at, at])
    listed = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:_SPANS]]
    return ", ".join(listed + (["…"] if len(spans) > _SPANS else []))


def refusals(refused: Iterable[tuple[str, int, str]]) -> list[str]:
    """A line for each path that did not run, from (path, row, reasons): on which rows, and the first row's reasons."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for path, row, reason in refused:
        groups.setdefault(path, []).append((row, reason))
    said = []
    for path, refusing in groups.items():
        rows, reasons = sorted({row for row, _ in refusing}), {reason for _, reason in refusing}
        where = f"{path} was not run on {counted(len(rows), 'row')} ({ranges(rows)})"
        others = "" if len(reasons) == 1 else f" (row {refusing[0][0]}; others differ)"
        said.append(f"{where}: {refusing[0][1]}{others}")
    return said


def counted(count: int, noun: str, plural: str = "") -> str:
    """As in ``1 row`` or ``3 rows``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while something is done, if stderr is a terminal; gives what to call with how much is done."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*shown, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(what), total=total)
        yield lambda done: bar.update(task, completed=done)
