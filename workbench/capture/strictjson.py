"""JSON from files that nobody vouches for: strict, and at a cost that is bounded before anything is parsed."""

from __future__ import annotations

import json
import re
import reprlib
from typing import Any

from workbench.capture.values import brief
from workbench.errors import CaptureError

# The most that a header of 100 MB has room for is about this many tensors; each costs some 400 bytes of memory.
MAX_ENTRIES = 1_300_000
_MAX_FLAT = 4096

_SPACE = rb"[ \t\n\r]*+"
_STRING = rb'("(?:[^"\\\x00-\x1f]++|\\.)*+")'
_OPEN = re.compile(_SPACE + rb"\{" + _SPACE + rb"(\}?)")
_KEY = re.compile(_SPACE + _STRING + _SPACE + b":" + _SPACE)
_VALUE = re.compile(_STRING)
_FLAT = re.compile(rb"\{[^{}]{0,%d}+\}" % _MAX_FLAT)
_NEXT = re.compile(_SPACE + rb"([,}])")
_END = re.compile(_SPACE + rb"\Z")


def strict_json(text: bytes | bytearray | str, what: str, file: str, cure: str = "write the file again") -> Any:
    """Parse JSON with no duplicate names, no NaN, no infinity and no text that cannot be printed (lone surrogates).

    Raises:
        CaptureError: it is none, or of more than ``MAX_ENTRIES`` parts; ``what`` names it in the message, and ``cure``
            says what to do.
    """
    if isinstance(text, str):
        parts = text.count("{") + text.count("[") + text.count(",")
    else:
        parts = text.count(b"{") + text.count(b"[") + text.count(b",")
    if parts > MAX_ENTRIES:
        raise too_many(what, file)
    try:
        if not isinstance(text, str):
            text = text.decode("utf-8")
        surrogates = "\\ud" in text or "\\uD" in text
        return json.loads(text, object_pairs_hook=_printable if surrogates else _unique, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{what} is {reason(error)}; {cure}", file=file) from None


def too_many(what: str, file: str) -> CaptureError:
    """The error for JSON of more than ``MAX_ENTRIES`` parts."""
    return CaptureError(f"{what} has more than {MAX_ENTRIES} parts, the most that is read; split the file", file=file)


def reason(error: Exception) -> str:
    """Why a text is not the JSON that is needed, as in ``not JSON: …``."""
    if isinstance(error, UnicodeError):
        return f"not UTF-8 text ({getattr(error, 'reason', error)})"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos}"
    words = "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
    return f"not usable JSON: {words}"


def short(value: Any) -> str:
    """A value of any size and depth in a few words."""
    return reprlib.repr(value)


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise ValueError(f"it names {short(name)} twice")
        found[name] = value
    return found


def _printable(items: list[tuple[str, Any]]) -> dict[str, Any]:
    for part in (part for item in items for part in item):
        if isinstance(part, str):
            part.encode("utf-8")
    return _unique(items)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant).raw_decode


class Scanner:
    """Walks through a JSON object member by member, so that no more of it is held than its reader keeps.

    A reader opens the object, then takes key and value in turn while there is one more. ``mark`` is text that stands
    once in almost every member, so that too many are known before one is parsed; ``what`` names it all in messages.

    Raises:
        CaptureError: where the text does not go on as it must, or is of more than ``MAX_ENTRIES`` members.
    """

    def __init__(self, text: bytes | bytearray, mark: bytes, what: str, file: str) -> None:
        self._text, self._what, self._file = text, what, file
        self._at = 0
        self._left = MAX_ENTRIES
        if text.count(mark) > MAX_ENTRIES:
            raise too_many(what, file)

    def open(self) -> bool:
        """Enter an object; whether it has a member."""
        found = self._take(_OPEN, "'{'")
        return not found[1]

    def more(self) -> bool:
        """Go to the next member of the object, or leave it; whether there is one."""
        return self._take(_NEXT, "',' or '}'")[1] == b","

    def end(self) -> None:
        """Nothing but space may follow."""
        self._take(_END, "the end")

    def key(self) -> str:
        """The name of a member."""
        self._left -= 1
        if self._left < 0:
            raise too_many(self._what, self._file)
        return self._string(self._take(_KEY, "a name and ':'")[1])

    def string(self) -> str | None:
        """The value, if it is a string."""
        found = self._try(_VALUE)
        return None if found is None else self._string(found[1])

    def at_object(self) -> bool:
        """Whether the value is an object."""
        return self._text[self._at : self._at + 1] == b"{"

    def flat(self, name: str) -> dict[str, Any] | None:
        """The value, if it is an object of at most 4096 bytes that holds no other; ``name`` is its tensor's."""
        found = self._try(_FLAT)
        if found is None:
            if self._at >= len(self._text):
                raise self._bad("a value")
            return None
        try:
            value: dict[str, Any] = _decode(found[0].decode("utf-8"))[0]  # all of it: the one '}' is the last byte
        except (ValueError, RecursionError) as error:
            raise CaptureError(
                f"its header entry is {reason(error)}; write the file again", file=self._file, tensor=brief(name)
            ) from None
        return value

    def _try(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _take(self, pattern: re.Pattern[bytes], needed: str) -> re.Match[bytes]:
        found = self._try(pattern)
        if found is None:
            raise self._bad(needed)
        return found

    def _bad(self, needed: str) -> CaptureError:
        return CaptureError(
            f"{self._what} is not JSON: {needed} is needed after byte {self._at}; write the file again",
            file=self._file,
        )

    def _string(self, token: bytes) -> str:
        try:
            if b"\\" not in token:
                return token[1:-1].decode("utf-8")
            text: str = json.loads(token.decode("utf-8"))
            text.encode("utf-8")  # lone surrogates are no text
            return text
        except ValueError as error:
            raise CaptureError(f"{self._what} is {reason(error)}; write the file again", file=self._file) from None
