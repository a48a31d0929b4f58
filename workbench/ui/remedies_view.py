"""What the page of remedies shows beside the row, as one value that the URL carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.errors import UsageError
from workbench.ui import state
from workbench.ui.carried import Params
from workbench.ui.view import brief, read_fields, read_name, read_whole, write_fields

ROW, CAPTURE = SCOPES = ("row", "capture")


@dataclass(frozen=True)
class Wanted:
    """Which remedies are shown; ``None`` means that nothing was chosen.

    Attributes:
        scope: of one row or of all rows of the capture. part: number of the op whose rows are shown, where a capture
            holds several. remedy: the one in full, by its name.
    """

    scope: str | None = None
    part: int | None = None
    remedy: str | None = None


def _scope(text: str) -> str:
    if text not in SCOPES:
        raise UsageError(f"{brief(text)!r} is none of {', '.join(SCOPES)}")
    return text


_READ: dict[str, Callable[[str], Any]] = {
    "scope": _scope,
    "part": lambda text: read_whole(text, 0, 1000),
    "remedy": read_name,
}


def from_params(params: Params) -> tuple[Wanted, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    return read_fields(Wanted(), params, _READ)


def to_params(value: Wanted) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ)


REMEDIES = state.beside_row("remedies", from_params, to_params)
