"""What the overview shows, as one value that the URL carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.paths.devices import get_device
from workbench.paths.releases import parse_release
from workbench.paths.routing import get_op
from workbench.ui.carried import Carried, Params
from workbench.ui.view import read_fields, read_name, read_whole, write_fields


@dataclass(frozen=True)
class Overview:
    """Which audit or scan is shown, and which of its worst rows below; ``None`` means that nothing was chosen.

    Attributes:
        audit: key of its output folder. scan: what is scanned instead. file, row: of the row.
        op, release, device, k: of every call of a scan; they go before what captures say.
    """

    audit: str | None = None
    scan: str | None = None
    file: str | None = None
    row: int | None = None
    op: str | None = None
    release: str | None = None
    device: str | None = None
    k: int | None = None


_READ: dict[str, Callable[[str], Any]] = {
    "audit": read_name,
    "scan": read_name,
    "file": read_name,
    "op": lambda text: get_op(text).name,
    "release": lambda text: str(parse_release(text)),
    "device": lambda text: get_device(text).name,
    "k": lambda text: read_whole(text, 1, 2**31 - 1),
    "row": lambda text: read_whole(text, 0, 2**31 - 1),
}


def from_params(params: Params) -> tuple[Overview, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    return read_fields(Overview(), params, _READ)


def to_params(value: Overview) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ)


OVERVIEW = Carried("overview", from_params, to_params)
