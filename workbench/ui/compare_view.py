"""What the page that compares paths shows beside its row, as one value that the URL carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.errors import UsageError
from workbench.paths.catalog import PATHS
from workbench.paths.ops import OPS
from workbench.runs.compare import AXES, SYSTEMS, UNROUTED
from workbench.ui.carried import Params
from workbench.ui.state import beside_row
from workbench.ui.view import brief, one_of, read_fields, read_name, write_fields


@dataclass(frozen=True)
class Compare:
    """The picture and the cell shown in full; ``None`` means that nothing was chosen.

    Attributes:
        axis: one of ``AXES``: what the columns are. system: one of ``SYSTEMS``, whose paths alone are shown.
        losing: whether only paths are shown on which the row loses or can lose.
        on, at: line and column of the cell: a path and a variant or an engine, or an op and a release.
    """

    axis: str | None = None
    system: str | None = None
    losing: bool | None = None
    on: str | None = None
    at: str | None = None


def _line(text: str) -> str:
    known = [UNROUTED, *(path.name for path in PATHS), *(op.name for op in OPS)]
    if text not in known:
        raise UsageError(f"{brief(text)!r} is no path and no op")
    return text


_READ: dict[str, Callable[[str], Any]] = {
    "axis": one_of(AXES),
    "system": one_of(SYSTEMS),
    "losing": one_of((True,)),
    "on": _line,
    "at": read_name,
}


def from_params(params: Params) -> tuple[Compare, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    return read_fields(Compare(), params, _READ)


def to_params(value: Compare) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ)


COMPARE = beside_row("compare", from_params, to_params)
