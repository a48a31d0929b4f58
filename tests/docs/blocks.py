"""Blocks of commands and code in the documentation, and what the words behind a fence say of them.

A fence reads ```` ```KIND TAG… ````. Kinds: ``console`` (commands behind ``$ ``, and what they print), ``python``, and
``text``, which is what the Python above it prints. A block without a tag is run wherever the tests are. A tag says what
it needs: ``gpu`` (it is run in ``tests/gpu``), ``network`` or ``serve`` (it stays; it is read by ``parsing``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "captures" / "README.md")
KINDS = ("console", "python", "text")
TAGS = ("gpu", "network", "serve")
_OPENING = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: the file. line: of its opening fence, from 1. words: behind the fence. body: the lines between the fences.
    """

    page: Path
    line: int
    words: tuple[str, ...]
    body: str

    @property
    def kind(self) -> str:
        """The first word; empty where there is none."""
        return self.words[0] if self.words else ""

    @property
    def tags(self) -> frozenset[str]:
        """The other words."""
        return frozenset(self.words[1:])

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One line of a console.

    Attributes:
        words: program and arguments. variables: set before it. to: the file that takes what it prints, if any.
        shown: what the page says that it prints.
    """

    words: tuple[str, ...]
    variables: dict[str, str]
    to: str | None
    shown: str

    @property
    def program(self) -> str:
        """The first word; ``python`` for every spelling of it."""
        return "python" if self.words[0] == "python3" else self.words[0]


def page_id(page: Path) -> str:
    """A page as it is named from the root."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    return list(_blocks(page, page.read_text().splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        if (opening := _OPENING.match(lines[at])) is None:
            at += 1
            continue
        ends = (n for n in range(at + 1, len(lines)) if lines[n].strip() == opening["fence"])
        end = next(ends, None)
        assert end is not None, f"{page_id(page)}:{at + 1}: the fence is not closed"
        body = "".join(f"{line}\n" for line in lines[at + 1 : end])
        yield Block(page, at + 1, tuple(opening["info"].split()), body)
        at = end + 1


def commands(block: Block) -> list[Command]:
    """The commands of a console; a line that ends in a backslash goes on in the next one."""
    first, *parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    assert not first, f"{block}: a command begins with '$ '"
    assert parts, f"{block}: no command"
    return [_command(part) for part in parts]


def _command(text: str) -> Command:
    line, _, shown = text.replace("\\\n", " ").partition("\n")
    words = shlex.split(line, comments=True)
    variables = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, variables[name] = words.pop(0).partition("=")
    to = None
    if ">" in words:
        *words, _, to = words
    return Command(tuple(words), variables, to, shown)
