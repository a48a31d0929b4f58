"""What the page of repeated calls shows beside its row, as one value that the URL carries."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ui import state
from workbench.ui.carried import Params
from workbench.ui.view import read_fields, read_whole, write_fields

LEAST, CALLS, MOST = 2, 50, 1000


@dataclass(frozen=True)
class Repeat:
    """How many calls are compared; ``None`` means that nothing was chosen."""

    calls: int | None = None


_READ = {"calls": lambda text: read_whole(text, LEAST, MOST)}


def from_params(params: Params) -> tuple[Repeat, list[str]]:
    """Read it from query parameters; a message for each parameter that is not understood, which is left out."""
    return read_fields(Repeat(), params, _READ)


def to_params(value: Repeat) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ)


REPEAT = state.beside_row("repeat", from_params, to_params, also=("engine", "path", "variant"))
