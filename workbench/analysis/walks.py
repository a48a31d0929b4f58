"""What a path loses where scores arrive as its threads walk the row, rather than at random."""

from __future__ import annotations

from workbench.analysis.profile import RowProfile
from workbench.analysis.verdict import judge
from workbench.paths.arrival import Arrival
from workbench.paths.model import run_model
from workbench.paths.selection import UNWRITTEN
from workbench.paths.spec import Path, Variant
from workbench.paths.walk import walk_of

WALKS = 32


def walked_missing(
    profile: RowProfile, path: Path, variant: Variant | None = None, *, walks: int = WALKS, seed: int = 0
) -> tuple[int, ...]:
    """How many values each of some walks loses; their mean stands beside the mean over random orders.

    It is an estimate of what a device does, and says nothing of every order: ``safe``, ``at risk`` and ``certain`` are
    the risk's to tell.

    Args:
        profile: of a row that the path takes. variant: of the path; ``stock`` by default.
        walks: how many. seed: of the first; the others follow.

    Raises:
        UsageError: the variant has no model.
    """
    variant = variant or path.variant("stock")
    exact, walk = profile.best, walk_of(path.as_variant(variant))
    runs = (
        run_model(
            path,
            profile.scores,
            profile.k,
            Arrival("walk", seed=seed + i, walk=walk),
            variant.name,
            width=profile.width,
            start=profile.start,
            row=profile.keys,
        ).indices
        for i in range(walks)
    )
    return tuple(judge(profile.scores, exact, indices, UNWRITTEN).missing for indices in runs)
