"""What the Export page is asked, as one value that the URL carries beside the row, its path and its variant."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.export.writing import STYLES
from workbench.ui import state
from workbench.ui.carried import Params
from workbench.ui.view import one_of, read_fields, write_fields


@dataclass(frozen=True)
class Export:
    """How a row is exported; ``None`` means that nothing was chosen.

    Attributes:
        style: one of ``STYLES``.
    """

    style: str | None = None


_READ = {"style": one_of(STYLES)}


def from_params(params: Params) -> tuple[Export, list[str]]:
    """Read it from query parameters; a message for each parameter that is not understood, which is left out."""
    return read_fields(Export(), params, _READ)


def to_params(value: Export) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ)


EXPORT = state.beside_row("export", from_params, to_params, also=("path", "variant"))
