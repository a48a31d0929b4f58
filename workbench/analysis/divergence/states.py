"""The states of a point, a call's row that two runs are compared at, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal[
    "same",
    "input differs",
    "values vary",
    "ties vary",
    "order varies",
    "missing",
    "extra",
    "duplicate",
    "reordered",
    "not comparable",
]


@dataclass(frozen=True)
class StateFacts:
    """What a state means.

    Attributes:
        meaning: in words. parts: whether the runs part at such a point.
        accuses: whether the selector is at fault there, whatever happened before.
    """

    meaning: str
    parts: bool = True
    accuses: bool = False


STATES: dict[State, StateFacts] = {
    "same": StateFacts("the same input, and the same indices in the same order", parts=False),
    "input differs": StateFacts("the selector saw something else; it is not accused"),
    "values vary": StateFacts(
        "the same input, but the selections hold different values: one side or both lost winners", accuses=True
    ),
    "ties vary": StateFacts("the same input and the same values, from other members of a tie"),
    "order varies": StateFacts("the same input and the same indices in another order"),
    "missing": StateFacts("only the first run has this call, or this row of the call"),
    "extra": StateFacts("only the other run has this call, or this row of the call"),
    "duplicate": StateFacts("one run has this call once more than the other, under the same step and layer"),
    "reordered": StateFacts("the same input and selection, at another place in the order of the run"),
    "not comparable": StateFacts(
        "the same input, but a selection is not recorded on both sides, or not as positions", parts=False
    ),
}


def parts(state: str) -> bool:
    """Whether runs part at a point of this state."""
    return STATES[state].parts  # type: ignore[index]
