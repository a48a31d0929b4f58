"""Outlooks of selectors without a candidate buffer: of what does not depend on the arrival order, one run tells."""

from __future__ import annotations

from workbench.analysis.profile import Cut, RowProfile
from workbench.analysis.survival import NOTHING_LOST, Outlook, Part, outlook
from workbench.analysis.verdict import judge
from workbench.numeric.histogram import locate
from workbench.paths.arrival import Arrival
from workbench.paths.model import run_model
from workbench.paths.models.bf16 import LOSSY_BITS
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path, Variant


def order_free(profile: RowProfile, path: Path, variant: Variant) -> Outlook | None:
    """The outlook of an ``order_free`` variant; ``None`` if two opposite orders disagree all the same."""
    exact = profile.best
    runs = (
        run_model(
            path,
            profile.scores,
            profile.k,
            Arrival(kind),
            variant.name,
            width=profile.width,
            start=profile.start,
            row=profile.keys,
        ).indices
        for kind in ("index", "reverse")
    )
    missing = {judge(profile.scores, exact, indices, UNWRITTEN).missing for indices in runs}
    if len(missing) > 1:
        return None
    lost = missing.pop()
    return Outlook(lost, lost, 0.0 if lost else 1.0, float(lost))


def first_of_the_bin(profile: RowProfile) -> Outlook:
    """The outlook where the first of a 13-bit fp16 bin to arrive are taken, without a closer look."""
    half = profile.keys.half
    at = locate(half.bins(LOSSY_BITS), profile.k)
    if at.need == at.population:
        return NOTHING_LOST
    cut = Cut(half.members(at.bin, LOSSY_BITS), profile.scores, at.need)
    return outlook([Part(at.population, at.population, cut.better, cut.equal)], at.need, cut.equal_need)
