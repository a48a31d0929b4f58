"""Numbers as people read them in pictures and tables."""

from __future__ import annotations

from workbench.words import MINUS as MINUS
from workbench.words import probability as probability
from workbench.words import real


def count(number: int | None) -> str:
    """A count with thousands separators; an en dash where there is none."""
    return "–" if number is None else f"{number:,}"


def holds(capacity: int | str | None) -> str:
    """A capacity as a path's record has it (``Path.capacity_of``): a count, what sets it, an en dash or ``?``."""
    return capacity if isinstance(capacity, str) else count(capacity)


def plural(number: int, noun: str) -> str:
    """A count with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def value(number: float, digits: int = 4) -> str:
    """A score or bin edge, with infinities and NaN in words."""
    return signed(number, 0) if number.is_integer() and 1e4 <= abs(number) < 1e9 else real(number, digits)


def ratio(population: int, capacity: int) -> str:
    """How full a buffer is, as a multiple of its capacity."""
    fill = population / capacity
    digits = 2 if fill < 100 else 0
    return f"{fill:,.{digits}f}×" if fill >= 0.01 else f"{fill:.1g}×"


def fill_text(population: int, capacity: int) -> str:
    """As ``ratio``; where that says 1.00×, how many are too many, or how many more would fit, or that it is full."""
    text, left = ratio(population, capacity), capacity - population
    if text != ratio(1, 1):
        return text
    if not left:
        return "full"
    return f"{count(-left)} too many" if left < 0 else f"{count(left)} to spare"


def signed(number: float, digits: int) -> str:
    """A number with as many decimals as given, its minus sign a minus."""
    return f"{number:.{digits}f}".replace("-", MINUS)


def plain(text: str) -> str:
    """Text for plotly, which takes some markup, that shows as it is: names in files are not ours."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def wrapped(text: str, width: int = 70, lines: int = 4) -> list[str]:
    """The first lines of a text, parted between words."""
    words, found = " ".join(text.split())[: width * lines].split(" "), [""]
    for word in words:
        if len(found[-1]) + len(word) > width and found[-1]:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found[:lines]
