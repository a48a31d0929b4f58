"""What the What-if page is asked, as one value that the URL carries beside the row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.analysis.curves import parameter_named
from workbench.analysis.whatif import KEY_BITS, MOST_CAPACITY, Alteration, Parameter
from workbench.errors import UsageError
from workbench.ui import state
from workbench.ui.carried import Params
from workbench.ui.view import brief, read_fields, read_whole, write_fields

_LONGEST = 32  # characters of a number


@dataclass(frozen=True)
class Asked:
    """What is taken to be another, and what the risk is drawn against; ``None`` means that nothing was chosen."""

    capacity: int | None = None
    rank_capacity: int | None = None
    key_bits: int | None = None
    k: int | None = None
    length: int | None = None
    scale: float | None = None
    shift: float | None = None
    against: Parameter | None = None

    @property
    def alteration(self) -> Alteration:
        """What is taken to be another."""
        return Alteration(**{name: value for name, value in vars(self).items() if name != "against"})


def read_number(text: str) -> float:
    """A number as a person or a link writes it.

    Raises:
        UsageError: it is none.
    """
    try:
        if len(text) > _LONGEST or not text.isascii() or "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise UsageError(f"{brief(text)!r} is no number") from None


def _real(name: Parameter) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = read_number(text)
        Alteration().with_(name, number)
        return number

    return read


def _whole(least: int, most: int = MOST_CAPACITY) -> Callable[[str], int]:
    return lambda text: read_whole(text, least, most)


# By parameter of the URL: the field, how it is read. The row's own k is another parameter than the one asked for.
_READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "capacity": ("capacity", _whole(1)),
    "rank_capacity": ("rank_capacity", _whole(1)),
    "key_bits": ("key_bits", _whole(1, KEY_BITS)),
    "new_k": ("k", _whole(1)),
    "length": ("length", _whole(0)),
    "scale": ("scale", _real("scale")),
    "shift": ("shift", _real("shift")),
    "against": ("against", parameter_named),
}
READ: dict[str, Callable[[str], Any]] = dict(_READ.values())


def from_params(params: Params) -> tuple[Asked, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    return read_fields(Asked(), params, _READ)


def to_params(value: Asked) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ)


ASKED = state.beside_row("what-if", from_params, to_params, also=("path", "variant"))
