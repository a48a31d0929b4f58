"""What the page of paths shows, as one value that the URL carries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.errors import UsageError
from workbench.paths.catalog import PATHS, get_path
from workbench.ui.carried import Carried, Params
from workbench.ui.view import VARIANTS, brief, read_fields, write_fields

FIRST = "vllm.histogram_256"  # shown where none was chosen
STOCK = "stock"
SCORE = 1.0
_LONGEST = 24  # characters of a number


@dataclass(frozen=True)
class Shown:
    """Which path is shown; ``None`` means that nothing was chosen.

    Attributes:
        path, variant: of it. score: on the number line, as float32 or less has it; no NaN. beside: a path whose number
            line stands beside it.
    """

    path: str | None = None
    variant: str | None = None
    score: float | None = None
    beside: str | None = None


def read_score(text: str) -> float:
    """A score: any number but NaN.

    Raises:
        UsageError: it is none.
    """
    said = text.strip().replace("\N{MINUS SIGN}", "-")
    try:
        if len(said) > _LONGEST or "_" in said:
            raise ValueError
        number = float(f"{float(said):.9g}")  # as the URL carries it
    except ValueError:
        raise UsageError(f"{brief(text)!r} is no score; give a number, as 0.5, 65504 or inf") from None
    if math.isnan(number):
        raise UsageError("NaN has no place on the number line; give a number")
    return number


def _path(text: str) -> str:
    return get_path(text).name


def _variant(text: str) -> str:
    if text not in VARIANTS:
        raise UsageError(f"no path has a variant {brief(text)!r}")
    return text


_READ: dict[str, tuple[str, Callable[[str], Any]]] = {
    "path": ("path", _path),
    "variant": ("variant", _variant),
    "score": ("score", read_score),
    "with": ("beside", _path),
}


def from_params(params: Params) -> tuple[Shown, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    return read_fields(Shown(), params, _READ)


def to_params(value: Shown) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return write_fields(value, _READ, _text)


def _text(chosen: str | float) -> str:
    return chosen if isinstance(chosen, str) else score_text(chosen)


def score_text(score: float) -> str:
    """A score with the digits that tell any two float32 apart, as a person would type it."""
    text = f"{score:.9g}"
    return text if "e" not in text else text.replace("e+", "e").replace("e0", "e").replace("e-0", "e-")


SHOWN = Carried("paths", from_params, to_params)
NAMES = tuple(path.name for path in PATHS)
