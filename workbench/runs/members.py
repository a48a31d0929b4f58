"""Values of a JSON document that nobody vouches for, and text that goes into one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.capture.strictjson import short, strict_json
from workbench.errors import CaptureError
from workbench.words import because

LONGEST = 10_000  # characters of a text
MOST_BYTES = 256 * 2**20  # of a file
_MOST = 2**63


def content_of(path: Path, file: str) -> bytes:
    """The bytes of a document's file, for messages ``file``.

    Raises:
        CaptureError: it cannot be read, is too large, or no regular file, which may never end.
    """
    try:
        if not path.is_file() and path.exists():
            raise CaptureError("it is no regular file", file=file)
        if path.stat().st_size > MOST_BYTES:
            raise CaptureError(f"it is larger than {MOST_BYTES} bytes, the most that is read", file=file)
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = because(error)
        raise CaptureError(f"cannot be read: {reason}", file=file) from None


class Members:
    """Takes values of a document, each of the one type that it must have.

    Args:
        file: whose document it is, for messages. what: the document, as in ``matrix``. cure: what is to be done about
            one that is not as it must be; made again it is by default.
    """

    def __init__(self, file: str, what: str, cure: str = "") -> None:
        self._file, self._what = file, what
        self._cure = cure or f"make the {what} again"

    def bad(self, what: str) -> CaptureError:
        """The error for something that is not as it must be."""
        return CaptureError(f"{what}; {self._cure}", file=self._file)

    def document(self, content: bytes, format_: str) -> dict[str, Any]:
        """The document in the bytes of a file, whose member ``format`` says that it is of this one.

        Raises:
            CaptureError: it is none, or of another format.
        """
        found = strict_json(content, f"the {self._what}", self._file)
        if not isinstance(found, dict) or found.get("format") != format_:
            said = short(found.get("format")) if isinstance(found, dict) else short(found)
            raise CaptureError(f"this is no {self._what}: its format is {said}, not {format_!r}", file=self._file)
        return found

    def names(self, given: dict[str, Any], names: Sequence[str], where: str, more: Sequence[str] = ()) -> None:
        """These members, perhaps some of ``more``, and no others."""
        for name in names:
            if name not in given:
                raise self.bad(f"{where} lacks {name!r}")
        for name in given:
            if name not in names and name not in more:
                raise self.bad(f"{where} has {short(name)}, which no {self._what} of this format has")

    def members(self, value: object, where: str) -> dict[str, Any]:
        """An object."""
        if not isinstance(value, dict):
            raise self.bad(f"{where} is {short(value)}; an object is needed")
        return value

    def items(self, value: object, where: str) -> list[Any]:
        """A list."""
        if not isinstance(value, list):
            raise self.bad(f"{where} is {short(value)}; a list is needed")
        return value

    def whole(self, value: object, where: str, least: int = 0) -> int:
        """A whole number."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _MOST:
            raise self.bad(f"{where} is {short(value)}; an integer of {least} or more, below 2^63, is needed")
        return value

    def number(self, value: object, where: str, least: int = 0) -> float:
        """A number."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < _MOST:
            raise self.bad(f"{where} is {short(value)}; a number of {least} or more, below {_MOST:.0e}, is needed")
        return float(value)

    def text(self, value: object, where: str, pattern: re.Pattern[str] | None = None) -> str:
        """Text that can be printed, of at most 10000 characters."""
        if not isinstance(value, str) or len(value) > LONGEST or any(not c.isprintable() and c != "\n" for c in value):
            raise self.bad(f"{where} is {short(value)}; printable text of at most {LONGEST} characters is needed")
        if pattern is not None and not pattern.fullmatch(value):
            raise self.bad(f"{where} is {short(value)}, which it cannot be")
        return value

    def texts(self, value: object, where: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(self.text(one, f"{where}[{at}]") for at, one in enumerate(self.items(value, where)))

    def one_of(self, value: object, where: str, options: tuple[Any, ...]) -> Any:
        """One of several texts."""
        if value not in options or not isinstance(value, str):
            raise self.bad(f"{where} is {short(value)}; one of {', '.join(options)} is needed")
        return value


def kept_text(text: str) -> str:
    """Text as a document may hold it: what cannot be printed is spelled out."""
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    said = "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in clean)
    return said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
