"""What goes wrong with a row on a path, as something that another row can have in common with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch

from workbench.analysis.risk import ORDERED, Risk, risk
from workbench.analysis.shrinking.candidate import Candidate
from workbench.analysis.verdict import judge
from workbench.numeric.select import exact_topk
from workbench.paths.arrival import Arrival
from workbench.paths.model import run_model
from workbench.paths.models.sglang_v2 import RULES
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Variant

MOST_CLEAN = 0.986  # 1000 calls, the most that a test makes, miss such a loss with a probability below 1e-6
MOST_ORDER = 0.25  # rank correlation of score and position that a row may gain while it shrinks

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Fault:
    """The class of a fault: two rows show the same one on a path and variant if these are equal.

    Attributes:
        level: whether every arrival order loses, or some.
        overflow: what has too little room for the threshold bin: the whole ``buffer``, or a ``rank`` of a cluster whose
            buffer as a whole has room. Empty where the loss has another cause.
        verdict: ``invalid`` where slots come back empty, repeated or unwritten under every order, else ``lossy``;
            ``None`` where no selection can be made.
        nan: whether the loss needs NaN.
        ordered: 1 or -1 where the members of a bin that overflows rise or fall along the row, else 0. Threads arrive
            roughly by position: a row of that kind loses otherwise than the risk's random orders do.
        note: what else the risk says of the row, with its numbers left out.
    """

    level: Literal["at risk", "certain"]
    overflow: Literal["", "buffer", "rank"]
    verdict: Literal["lossy", "invalid"] | None
    nan: bool
    ordered: int
    note: str

    def binned(self, variant: Variant) -> bool:
        """Whether it lies in how the coarse bins are filled."""
        return bool(self.overflow) or self.verdict is None or variant.model == "bf16_approximate"


@dataclass(frozen=True)
class Seen:
    """A candidate's risk and the fault in it; ``None`` where it shows none, or none that is known."""

    risk: Risk
    fault: Fault | None


def look(candidate: Candidate) -> Seen:
    """What a candidate shows on its path."""
    subject = candidate.subject
    found = risk(candidate.profile, subject.path, subject.variant)
    if found.level is None or found.level == "safe":
        return Seen(found, None)
    overflow = _overflow(found)
    correlation = (found.order_correlation or 0.0) if overflow else 0.0
    return Seen(
        found,
        Fault(
            level=found.level,
            overflow=overflow,
            verdict=_verdict(candidate, found, overflow),
            nan=bool(candidate.profile.nan) and (subject.variant.lossless or subject.variant.model in RULES),
            ordered=(correlation > ORDERED) - (correlation < -ORDERED),
            note=_NUMBERS.sub("…", found.note),
        ),
    )


def _overflow(found: Risk) -> Literal["", "buffer", "rank"]:
    told_apart = bool(found.note) and found.least_missing == found.most_missing
    if not found.breach or not found.buffered or told_apart:
        return ""
    assert found.population is not None
    assert found.capacity is not None
    return "buffer" if found.population > found.capacity else "rank"


def _verdict(candidate: Candidate, found: Risk, overflow: str) -> Literal["lossy", "invalid"] | None:
    subject = candidate.subject
    if overflow:
        buffer = subject.variant.buffer or subject.path.buffer
        assert buffer is not None
        assert found.stored is not None
        assert found.need is not None
        return "invalid" if buffer.leaves_unwritten and found.stored < found.need else "lossy"
    if found.level != "certain":
        return "lossy"
    if found.least_missing is None:  # told in words, never run
        return None
    selection = run_model(subject.path, candidate.scores, candidate.k, Arrival("index"), subject.variant.name)
    exact = exact_topk(candidate.scores, candidate.k)
    kind = judge(candidate.scores, exact, selection.indices, UNWRITTEN).kind
    return "invalid" if kind == "invalid" else "lossy"


def scattered(candidate: Candidate, seen: Seen) -> Candidate | None:
    """The row with the scores of its threshold bin in random places of the bin, where they rise or fall along the row.

    Of such a row the risk knows the extremes alone. ``None`` if it is no such row, or another fault without the order.
    """
    if seen.fault is None or not seen.fault.ordered:
        return None
    members = torch.cat([candidate.parts.winners, candidate.parts.losers])
    generator = torch.Generator().manual_seed(candidate.subject.seed)
    places = members[torch.randperm(members.numel(), generator=generator)]
    made = candidate.with_values((places, candidate.scores[members]))
    return made if look(made).fault == replace(seen.fault, ordered=0) else None


class Predicate:
    """Whether a candidate shows the fault of a row, and no less plainly.

    Args:
        seen: of the row. most_clean: p_clean that a candidate may have (``Risk.most_clean`` where scores arrive warp by
            warp); more only if the row has more, and never more than the row. allowed: what else a candidate must
            fulfil, as that its op still sends it to the path; asked before anything is counted.

    Attributes:
        fault: of the row. most_clean, most_order: the bounds that follow.
    """

    def __init__(self, seen: Seen, most_clean: float, allowed: Callable[[Candidate], bool]) -> None:
        assert seen.fault is not None
        self.fault, self._allowed = seen.fault, allowed
        self.most_clean = max(most_clean, seen.risk.most_clean)
        self.most_order = max(MOST_ORDER, abs(seen.risk.order_correlation or 0.0))

    def __call__(self, candidate: Candidate) -> bool:
        """Whether the candidate will do."""
        subject = candidate.subject
        path = subject.path.as_variant(subject.variant)
        if candidate.length < 1 or path.unmet(k=candidate.k, length=candidate.length, dtype=subject.dtype):
            return False
        if not self._allowed(candidate):
            return False
        seen = look(candidate)
        found = seen.risk
        return (
            seen.fault == self.fault
            and found.most_clean <= self.most_clean
            and abs(found.order_correlation or 0.0) <= self.most_order
        )
