"""What the page of repeated calls shows beside its row, as one value that the URL carries."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.ui import state
from workbench.ui.carried import Params
from workbench.ui.view import brief, read_whole, unknown_params

LEAST, CALLS, MOST = 2, 50, 1000


@dataclass(frozen=True)
class Repeat:
    """How many calls are compared; ``None`` means that nothing was chosen."""

    calls: int | None = None


def from_params(params: Params) -> tuple[Repeat, list[str]]:
    """Read it from query parameters; a message for each parameter that is not understood, which is left out."""
    value, problems = Repeat(), []
    if "calls" in params:
        try:
            value = Repeat(read_whole(params["calls"][-1], LEAST, MOST))
        except UsageError as error:
            problems.append(f"The link's calls is left out: {brief(str(error), 300)}.")
    return value, problems + unknown_params(params, ("calls",))


def to_params(value: Repeat) -> dict[str, list[str]]:
    """As query parameters; what was not chosen is left out."""
    return {} if value.calls is None else {"calls": [str(value.calls)]}


REPEAT = state.beside_row("repeat", from_params, to_params, also=("engine", "path", "variant"))
