"""Where a row stands in one release, and what its standings over several releases, oldest first, amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from workbench.analysis.risk import LOSING
from workbench.analysis.verdict import LOST

State = Literal["loses", "can lose", "clean", "refused", "fault", "unknown"]
STATES: tuple[State, ...] = get_args(State)
LOSING_STATES: tuple[State, ...] = ("loses", "can lose")
JUDGED: tuple[State, ...] = (*LOSING_STATES, "clean")
SURE = 0.01  # the chance of calls without a loss, above which they do not clear a row that can lose


def standing(
    *, verdict: str | None, calls: int, risk: str | None, p_clean: float | None, observed: bool, refused: bool = False
) -> State:
    """Where a row stands, without a fault.

    Args:
        verdict: of the worst of ``calls`` calls; ``None`` without any. risk, p_clean: as the analysis claims them.
        observed: whether a real op was called: then calls without a loss clear a row that the analysis holds for at
            risk, where such calls would come about with a chance of at most ``SURE``. A model's calls never do: its
            risk covers every arrival order.
        refused: whether there was no call because the row was refused.
    """
    if verdict in LOST:
        return "loses"
    if refused:
        return "refused"
    if risk in LOSING and not (observed and calls and chance(p_clean, calls) <= SURE):
        return "loses" if risk == "certain" and not observed else "can lose"
    if verdict is not None or risk == "safe":
        return "clean"
    return "unknown"


def chance(p_clean: float | None, calls: int) -> float:
    """The chance that so many calls lose nothing, each under a random arrival order of its own; 1 where unknown."""
    return 1.0 if p_clean is None else p_clean**calls


@dataclass(frozen=True)
class Span:
    """Neighbouring places that stand alike. ``first``, ``last``: numbers of places, both within."""

    states: tuple[State, ...]
    first: int
    last: int

    @property
    def loses(self) -> bool:
        """Whether they lose or can lose."""
        return self.states[0] in LOSING_STATES


def spans(states: Sequence[State]) -> list[Span]:
    """The places that were judged, in runs of those that lose or can lose and those that are clean.

    What was not judged stands in no span and interrupts none.
    """
    found: list[Span] = []
    for at, state in enumerate(states):
        if state not in JUDGED:
            continue
        if found and found[-1].loses == (state in LOSING_STATES):
            found[-1] = Span((*found[-1].states, state), found[-1].first, at)
        else:
            found.append(Span((state,), at, at))
    return found


def is_monotone(states: Sequence[State]) -> bool:
    """Whether no place that loses comes after a clean one."""
    return not regressions(states)


def first_clean(states: Sequence[State]) -> int | None:
    """The first place from which on every judged one is clean; ``None`` if the last judged one is not."""
    found = spans(states)
    return found[-1].first if found and not found[-1].loses else None


def regressions(states: Sequence[State]) -> list[tuple[int, int]]:
    """Every place that loses where the judged one before it is clean: (the clean place, the one that loses)."""
    found = spans(states)
    return [(one.last, two.first) for one, two in pairwise(found) if two.loses]
