"""What the page of compared runs shows, as one value that the URL carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import UsageError
from workbench.ui.carried import Carried, Params
from workbench.ui.view import brief, doubled_params, read_name, read_text, read_whole, unknown_params

MOST_RUNS = 16


@dataclass(frozen=True)
class Compared:
    """Which runs are compared and what of it is shown; ``None`` means that nothing was chosen.

    Attributes:
        runs: keys of what is on offer, the one that the others are held against first. ranks: of the one run.
        against: which comparison is shown, from 0; the earliest parting by default.
        rank, request: what is shown of it, as text, empty for points that do not say.
        point: the number of a point of that comparison; the first parting one by default.
        digest: of what was compared when the point was chosen, 16 hexadecimal digits.
    """

    runs: tuple[str, ...] = ()
    ranks: bool = False
    against: int | None = None
    rank: str | None = None
    request: str | None = None
    point: int | None = None
    digest: str | None = None


def _one(read: Callable[[str], Any]) -> Callable[[list[str]], Any]:
    return lambda texts: read(texts[-1])


def _runs(texts: list[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(read_name(text) for text in texts))
    if len(found) > MOST_RUNS:
        raise UsageError(f"{len(found)} runs are more than the {MOST_RUNS} that are compared at once")
    return found


def _flag(text: str) -> bool:
    if text != "1":
        raise UsageError(f"{brief(text)!r} is not 1")
    return True


def _rank(text: str) -> str:
    return text and str(read_whole(text, 0, 2**31 - 1))


_READ: dict[str, tuple[str, Callable[[list[str]], Any]]] = {
    "run": ("runs", _runs),
    "ranks": ("ranks", _one(_flag)),
    "against": ("against", _one(lambda text: read_whole(text, 0, MOST_RUNS * 1024))),
    "rank": ("rank", _one(_rank)),
    "request": ("request", _one(read_text)),
    "point": ("point", _one(lambda text: read_whole(text, 0, 2**31 - 1))),
    "digest": ("digest", _one(read_name)),
}


def from_params(params: Params) -> tuple[Compared, list[str]]:
    """Read it from query parameters.

    Returns:
        The value, and a message for each parameter that is not understood, one for all unknown ones; they are left out.
    """
    value, problems = Compared(), []
    for name, texts in params.items():
        if name not in _READ:
            continue
        field, read = _READ[name]
        try:
            value = replace(value, **{field: read(list(texts))})
        except UsageError as error:
            problems.append(f"The link's {name} is left out: {brief(str(error), 300)}.")
    single = [name for name in _READ if name != "run"]
    return value, problems + doubled_params(params, single) + unknown_params(params, _READ)


def to_params(value: Compared) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out, and so is the digest where no point is chosen."""
    params = {"run": list(value.runs)} if value.runs else {}
    if value.ranks:
        params["ranks"] = ["1"]
    for name in ("against", "rank", "request", "point"):
        chosen = getattr(value, name)
        if chosen is not None:
            params[name] = [str(chosen)]
    if value.point is not None and value.digest is not None:
        params["digest"] = [value.digest]
    return params


COMPARED = Carried("divergence", from_params, to_params)
