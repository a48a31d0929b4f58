"""Lists and values in sentences."""

from __future__ import annotations

import errno
import math
import numbers
import os
import reprlib
from collections.abc import Iterable

# Of numbers that are read: worked out or measured, in sentences, tables and pictures. What is typed, copied or read by
# programs has the hyphen: options, links, code, files, JSON, and whole numbers as an op takes or returns them, as a
# length of -1.
MINUS = "\N{MINUS SIGN}"
UNKNOWN = "unknown"  # what stands in the place of a name, a value or a level that nothing tells
_BITS_SHOWN = 128


def listed(items: Iterable[object], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``; empty for no items."""
    words = [str(item) for item in items]
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), "".join(words[-1:]))))


def few(items: Iterable[object], most: int = 3) -> str:
    """The first items of a list and how many more there are: ``3, 9, 12 and 40 more``."""
    words = [str(item) for item in items]
    return listed(words if len(words) <= most + 1 else [*words[:most], f"{len(words) - most} more"])


def printable(text: str) -> str:
    """Text on one line, which any Unicode encoding takes; what cannot be printed is spelled out."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(ord(c)) for c in text)


def _escaped(code: int) -> str:
    """Bytes and characters are told apart: of 0x80 and beyond, only a byte is written as ``\\xff``."""
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def kind_of(value: object) -> str:
    """The name of a value's type, as in ``numpy.ndarray``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def described(value: object) -> str:
    """A value of any size in a few words: a number or a string as it is written, of all else the type."""
    if value is None or isinstance(value, bool | float | str):
        return printable(reprlib.repr(value))
    if isinstance(value, numbers.Integral):
        number = int(value)
        return str(number) if number.bit_length() <= _BITS_SHOWN else f"an integer of {number.bit_length()} bits"
    return f"of type {kind_of(value)}"


_CURES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "have it permitted (chmod), or name another place"),
    errno.EROFS: "name another place",
    errno.EMFILE: "allow this process more open files (ulimit -n)",
}
_NO_TEMPORARY, _NO_TEMPORARY_CURE = "No usable temporary directory", "name a folder in TMPDIR"


def because(error: Exception) -> str:
    """What the system says of a file, and what helps, where that is known; what other exceptions say."""
    number = getattr(error, "errno", None)
    if not isinstance(error, OSError) or number is None:
        return said(error)
    reason = str(error.strerror)
    if "[errno " in reason:  # that of Arrow, with the file a second time
        reason = os.strerror(number)
    cure = _NO_TEMPORARY_CURE if reason.startswith(_NO_TEMPORARY) else _CURES.get(number)
    return f"{reason}; {cure}" if cure else reason


def said(error: BaseException) -> str:
    """What an exception says; empty where saying it raises."""
    try:
        return str(error)
    except Exception:
        return ""


def real(number: float, digits: int) -> str:
    """A number with so many significant digits, as in ``−1.431e−6``; infinities and NaN in words."""
    if math.isnan(number):
        return "NaN"
    text = f"{number:+}" if math.isinf(number) else f"{number:.{digits}g}"
    mantissa, at, exponent = text.partition("e")
    return f"{mantissa}{at}{int(exponent) if at else ''}".replace("-", MINUS)


def average(number: float) -> str:
    """A mean of whole numbers: three digits, from 1000 on all before the point."""
    return real(number, 3) if number < 1000 else f"{number:.0f}"


def probability(value: float | None, *, possible: bool = False) -> str:
    """A probability in four decimals, smaller ones as in ``3e−7``; 0 and 1 stand only where they are exact.

    Args:
        possible: whether a 0 is only too small for a float64, as that of a row at risk, where some order loses nothing.
    """
    if value is None:
        return "–"
    if value in (0, 1):
        return f"<{real(1e-300, 1)}" if not value and possible else f"{value:.0f}"
    if value < 1e-4:
        return real(value, 1)
    return f"{value:.4f}" if value < 0.9999 else ">0.9999"
