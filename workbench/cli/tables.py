"""Text for people: tables that fit 100 columns, plain where there is no terminal, numbers never cut."""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from workbench.cli.exits import printable
from workbench.cli.layout import Column, Fitted, fit, wrap
from workbench.words import MINUS, real
from workbench.words import probability as in_words

WIDTH = 100
NONE = "–"
MARKS = {True: "✓", False: "✗", None: "?"}
_PLAIN = str.maketrans(
    {"✓": "+", "✗": "-", "–": "-", "─": "-", MINUS: "-", "…": "...", "≤": "<=", "≥": ">=", "×": "x", "→": ">"}
)
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
}


def console(stderr: bool = False) -> Console:
    """A console on stdout or stderr; 100 columns wide where nothing says otherwise."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else WIDTH
    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def _print(texts: Iterable[Text]) -> None:
    """Print lines that are broken already, without spaces at their ends."""
    out = console()
    with out.capture() as captured:
        for text in texts:
            out.print(text, no_wrap=True, overflow="ignore", crop=False)
    said = _LINE_ENDS.sub("", captured.get())
    try:
        said.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        said = said.translate(_PLAIN)
    sys.stdout.write(said)


def say(text: str, style: str = "") -> None:
    """Print a paragraph; a word longer than a line, as a file name can be, stays whole."""
    _print(Text(line, style) for line in wrap(printable(text), console().width, fold=False))


def lines(texts: Iterable[str], indent: str = "  ") -> None:
    """Print one line each; an indented one wraps under its own beginning."""
    if not indent:
        for text in texts:
            say(text)
        return
    room = max(console().width - len(indent), 1)
    for text in texts:
        first, *more = wrap(printable(text), room)
        _print([Text(indent + first), *(Text(" " * len(indent) + line) for line in more)])


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table; cells that are a verdict, a risk or a status get its colour."""
    if title:
        say(title, "bold")
    cells = [[_said(value) for value in row] for row in rows]
    made = fit(columns, cells, console().width)
    tallest = max(map(len, made.titles))
    titles = [[""] * (tallest - len(lines)) + lines for lines in made.titles]
    printed = [
        *_table_row(columns, made, titles, ["bold"] * len(columns)),
        Text("─" * (sum(made.widths) + made.gap * (len(columns) - 1))),
    ]
    for row, wrapped in zip(cells, made.rows, strict=True):
        printed += _table_row(columns, made, wrapped, [_style(text) for text in row])
    _print([*printed, Text()])


def _table_row(
    columns: Sequence[Column], made: Fitted, cells: Sequence[Sequence[str]], styles: Sequence[str]
) -> Iterator[Text]:
    """The lines of one row of a table."""
    for at in range(max(map(len, cells))):
        parts = []
        for column, width, cell, style in zip(columns, made.widths, cells, styles, strict=True):
            text = Text(cell[at] if at < len(cell) else "", style)
            space = " " * (width - text.cell_len)
            parts.append(Text.assemble(space, text) if column.kind == "number" else Text.assemble(text, space))
        yield Text(" " * made.gap).join(parts)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one a line; a value wraps beside its name."""
    listed = [(name, _said(value)) for name, value in pairs]
    before = max(len(name) for name, _ in listed) + 2
    room = max(console().width - before, 1)
    _print(
        Text.assemble((("" if at else name).ljust(before), "bold"), (line, _style(value)))
        for name, value in listed
        for at, line in enumerate(wrap(value, room))
    )


def _said(value: object) -> str:
    return NONE if value is None else printable(str(value))


def _style(text: str) -> str:
    return STYLES.get(text.split(",")[0], "")


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits; whole numbers in full."""
    if value is None:
        return NONE
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e15):
        return str(int(value)).replace("-", MINUS)
    return real(value, digits)


def probability(value: float | None, level: str | None) -> str:
    """A p_clean; of a row at risk a 0 is a chance that some order has, and only too small for a float64."""
    return in_words(value, possible=level == "at risk")


def score(value: float) -> str:
    """A score with all digits that tell it from its float32 neighbours."""
    return real(value, 9)


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


def print_refusals(refused: Iterable[tuple[str, int, str]], several: bool = True, head: str = "not run") -> None:
    """Print what did not run, from (path, row, reasons): one line each, its rows, and the reasons that most of
    them have.

    Args:
        several: whether rows are named. head: what became of them.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for path, row, reason in refused:
        groups.setdefault(path, []).append((row, reason))
    if not groups:
        return
    listed = []
    for path, refusing in groups.items():
        rows = ranges(sorted({row for row, _ in refusing}))
        counts = Counter(reason for _, reason in refusing)
        (reason, _), *others = counts.most_common()
        first = next(row for row, why in refusing if why == reason)
        why = reason + (f" (row {first}; others differ)" if others else "")
        listed.append((path, rows, why) if several else (path, why))
    columns = [Column(head, "word"), *([Column("rows", "text")] if several else []), Column("why", "text")]
    table(columns, listed)


def named(path: str | None, variant: str | None) -> str | None:
    """A path, with its variant where that is not ``stock``."""
    return path if path is None or variant in (None, "stock") else f"{path} ({variant})"


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
