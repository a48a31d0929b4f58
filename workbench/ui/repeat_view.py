"""What the page of repeated calls shows beside its row, as one value that the URL carries."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ui import state
from workbench.ui.carried import Params
from workbench.ui.view import read_fields, read_whole, write_fields

LEAST, CALLS, MOST = 2, 50, 1000


@dataclass(frozen=True)
class Repeat:
    """What is compared; ``None`` means that nothing was chosen.

    Attributes:
        calls: how many. engine: the one whose calls are compared where the one chosen has none; the link names it, and
            whoever follows that has it chosen. The inspector keeps the one chosen.
    """

    calls: int | None = None
    engine: str | None = None


_READ = {"calls": lambda text: read_whole(text, LEAST, MOST)}


def from_params(params: Params) -> tuple[Repeat, list[str]]:
    """Read it from query parameters; a message for each parameter that is not understood, which is left out."""
    return read_fields(Repeat(), params, _READ)


def to_params(value: Repeat) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ) | ({} if value.engine is None else {"engine": [value.engine]})


REPEAT = state.beside_row("repeat", from_params, to_params, also=("engine", "path", "variant"))
