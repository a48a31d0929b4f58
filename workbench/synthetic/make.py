"""Rows by a distribution's name or against a path, each reproducible from the words that asked for it."""

from __future__ import annotations

from typing import Any

from workbench.arguments import checked
from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.catalog import get_path, get_variant
from workbench.paths.spec import Path
from workbench.synthetic.adversarial import Recipe, make_adversarial
from workbench.synthetic.distributions import make_rows
from workbench.words import listed

STOCK = "stock"
USUAL_LENGTH, USUAL_K = 65536, 2048


@checked
def make(
    distribution: str | None = None,
    *,
    path: str | None = None,
    variant: str = STOCK,
    length: int | None = None,
    k: int | None = None,
    rows: int = 1,
    seed: int = 0,
    call: Call | None = None,
    **recipe: Any,
) -> list[Row]:
    """Rows of a named distribution, or rows that breach a path's buffer.

    Args:
        distribution: its name, as ``DISTRIBUTIONS`` lists them; or else
        path, variant: whose buffer is to be filled.
        length: scores a row; 65536 of a distribution by default, as short as the path allows otherwise.
        k: winners wanted; 2048 of a distribution by default, the greatest that the path takes otherwise.
        rows: how many. seed: from 0 to 2^63 - 1; row r of a seed is the same whatever ``rows`` is.
        call: what else the call is to say, such as op, release and device.
        recipe: fields of ``Recipe``, with a path.

    Raises:
        UsageError: both or neither of distribution and path, an unknown name, or a row that cannot be.
    """
    if (distribution is None) == (path is None):
        raise UsageError("rows are made of a distribution or against a path: name one of the two")
    if path is None:
        if variant != STOCK:
            raise UsageError(f"variant {variant!r}: a variant is of a path, and a distribution has none")
        if recipe:
            raise UsageError(f"{listed(recipe)}: these shape the rows against a path, not those of a distribution")
        length = USUAL_LENGTH if length is None else length
        k = USUAL_K if k is None else k
        return make_rows(str(distribution), length=length, k=k, rows=rows, seed=seed, call=call)
    try:
        shape = Recipe(**recipe)
    except TypeError:
        raise UsageError(f"{listed(recipe)}: not all of these are fields of a recipe") from None
    return make_adversarial(as_variant(path, variant), shape, k=k, length=length, rows=rows, seed=seed, call=call)


def as_variant(path: str, variant: str) -> Path:
    """The path of that name with the buffer and bounds of a variant.

    Raises:
        UsageError: an unknown path or variant.
    """
    spec = get_path(path)
    return spec.as_variant(get_variant(spec, variant))
