"""Passes over and over, until none of them finds anything simpler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.analysis.shrinking.candidate import Candidate
from workbench.analysis.shrinking.passes import PASSES


@dataclass(frozen=True, eq=False)
class Step:
    """One candidate that was looked at.

    Attributes:
        name: of the pass. kept: whether it was simpler and showed the fault. smallest: the simplest one so far.
    """

    name: str
    kept: bool
    smallest: Candidate


def shrinking(candidate: Candidate, holds: Callable[[Candidate], bool]) -> Iterator[Step]:
    """Shrink a row step by step; it is a local minimum when the iterator ends.

    What is proposed follows from the smallest row so far and the seed alone, so that shrinking can stop after any step
    and go on from there.

    Args:
        candidate: shows the fault. holds: the predicate.
    """
    smallest = candidate
    while True:
        before = smallest
        for propose in PASSES:
            proposals = propose(smallest)
            kept: bool | None = None
            while True:
                try:
                    # a generator that has not begun takes nothing but None
                    proposed = next(proposals) if kept is None else proposals.send(kept)
                except StopIteration:
                    break
                kept = proposed.simpler_than(smallest) and holds(proposed)
                if kept:
                    smallest = proposed
                yield Step(propose.__name__.replace("_", " "), kept, smallest)
        if smallest is before:
            return
