"""What the page of releases shows, as one value that the URL carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from workbench.paths.devices import get_device
from workbench.paths.releases import parse_release
from workbench.paths.routing import get_op
from workbench.ui.carried import Carried, Params
from workbench.ui.view import read_fields, read_name, read_whole, write_fields


@dataclass(frozen=True)
class Released:
    """Which matrix is shown and which cell of it; ``None`` means that nothing was chosen.

    Attributes:
        source: key of a capture, which the models judge, or of a saved matrix. digest: of its content, 16 hexadecimal
            digits.
        op, device, k: of the calls; the capture's own by default. first, last: releases that the range ends with.
        row: of the cell shown below, by its place in the matrix. at: its release.
    """

    source: str | None = None
    digest: str | None = None
    op: str | None = None
    device: str | None = None
    k: int | None = None
    first: str | None = None
    last: str | None = None
    row: int | None = None
    at: str | None = None


def _release(text: str) -> str:
    return str(parse_release(text))


def _op(text: str) -> str:
    return get_op(text).name


_READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "source": ("source", read_name),
    "digest": ("digest", read_name),
    "op": ("op", _op),
    "device": ("device", lambda text: get_device(text).name),
    "k": ("k", lambda text: read_whole(text, 1, 2**31 - 1)),
    "from": ("first", _release),
    "to": ("last", _release),
    "row": ("row", lambda text: read_whole(text, 0, 2**31 - 1)),
    "at": ("at", read_name),
}


def from_params(params: Params) -> tuple[Released, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    return read_fields(Released(), params, _READ)


def to_params(value: Released) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out, and so is the digest where no source is chosen."""
    return write_fields(value if value.source is not None else replace(value, digest=None), _READ)


RELEASED = Carried("releases", from_params, to_params)
