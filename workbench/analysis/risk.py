"""The risk of a row on a path over every arrival order, computed without running the path.

All buffered selectors lose winners in one way: the threshold bin holds ``population`` scores, the buffer stores the
first to arrive, and the ``need`` best of those are selected exactly. ``survival`` works out what that loses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from workbench.analysis.profile import Cut, RowProfile
from workbench.analysis.survival import Part, outlook
from workbench.paths.catalog import PATHS
from workbench.paths.spec import Buffer, Path, Variant

Level = Literal["safe", "at risk", "certain"]


@dataclass(frozen=True)
class Risk:
    """The risk of one row on one path and variant.

    Attributes:
        path, variant: their names. refused: the path's unmet conditions; the risk is then not given, though the
            populations are, where they can be counted.
        level: ``safe`` (no arrival order loses), ``at risk`` (some do), ``certain`` (all do); ``None`` if unknown.
        p_clean: probability that a uniformly random arrival order loses nothing.
        expected_missing: mean number of values lost over those orders.
        least_missing, most_missing: over every arrival order.
        threshold_bin, above, population, need, capacity: as in the design; ``None`` without a coarse key or buffer.
        stored: members of the bin that the buffer takes, whichever they are.
        breach: stored < population: population > capacity, or a cluster's rank that sees more than it can store.
        buffered: whether the bin goes through the buffer at all; a bin that is taken
            whole bypasses it on some paths, and a breach then loses nothing.
        order_correlation: rank correlation of score and position within a breached bin, -1 to 1. Near ±1 the scores
            rise or fall along the row, real arrival follows position, and the mean over random orders does not
            describe it (the extremes still hold).
        note: what else a reader must know.
    """

    path: str
    variant: str
    refused: tuple[str, ...] = ()
    level: Level | None = None
    p_clean: float | None = None
    expected_missing: float | None = None
    least_missing: int | None = None
    most_missing: int | None = None
    threshold_bin: int | None = None
    above: int | None = None
    population: int | None = None
    need: int | None = None
    capacity: int | None = None
    stored: int | None = None
    breach: bool = False
    buffered: bool = False
    order_correlation: float | None = None
    note: str = ""


def risk(profile: RowProfile, path: Path, variant: Variant | None = None) -> Risk:
    """The risk of a row on a path.

    Args:
        profile: of the row. variant: of the path; ``stock`` by default.
    """
    variant = variant or path.variant("stock")
    found = _located(profile, path, variant)
    if found.refused:
        return found
    if path.family == "identity":
        return _settled(found, 0)
    if path.family == "radix":
        return _settled(found, _signed_nan_missing(profile))
    if variant.lossless:
        return _lossless(profile, found, variant)
    return _buffered(profile, path, found)


def census(profile: RowProfile, paths: tuple[Path, ...] = PATHS) -> list[Risk]:
    """Risk of one row on every path's stock variant, without running them."""
    return [risk(profile, path) for path in paths]


def _located(profile: RowProfile, path: Path, variant: Variant) -> Risk:
    """What can be said before the risk: refusals, and the threshold bin where it can be counted."""
    refused = tuple(path.unmet(k=profile.k, length=profile.length, dtype=profile.dtype))
    found = Risk(path.name, variant.name, refused)
    if path.key_bits is None or path.buffer is None or not profile.countable:
        return found
    at, bits = profile.threshold(path.key_bits), path.key_bits
    buffered = path.buffer.whole_bin or at.need < at.population
    stored = min(at.population, path.buffer.slots(profile.k))
    if path.buffer.ranks is not None and at.population > path.buffer.ranks.capacity:
        stored = min(stored, sum(share for _, share in _shares(path.buffer, profile, bits)))
    return replace(
        found,
        threshold_bin=at.bin,
        above=at.above,
        population=at.population,
        need=at.need,
        capacity=path.buffer.slots(profile.k),
        stored=stored,
        breach=stored < at.population,
        buffered=buffered,
    )


def _shares(buffer: Buffer, profile: RowProfile, bits: int) -> list[tuple[torch.Tensor, int]]:
    """Of each part of the buffer: which members of the bin it sees (a mask), and how many it stores."""
    cut = profile.cut(bits)
    if buffer.ranks is None:
        masks = [torch.ones_like(cut.members, dtype=torch.bool)]
    else:
        owners = buffer.ranks.owners(cut.members, profile.length)
        masks = [owners == rank for rank in range(buffer.ranks.count)]
    return list(zip(masks, buffer.shares([int(mask.sum()) for mask in masks], profile.k), strict=True))


def _parts(cut: Cut, shares: list[tuple[torch.Tensor, int]]) -> list[Part]:
    return [
        Part(int(mask.sum()), stored, int((cut.keys[mask] > cut.cut).sum()), int((cut.keys[mask] == cut.cut).sum()))
        for mask, stored in shares
    ]


def _settled(found: Risk, missing: int) -> Risk:
    """The risk of a path whose loss does not depend on arrival."""
    return replace(
        found,
        level="certain" if missing else "safe",
        p_clean=0.0 if missing else 1.0,
        expected_missing=float(missing),
        least_missing=missing,
        most_missing=missing,
    )


def _lossless(profile: RowProfile, found: Risk, variant: Variant) -> Risk:
    nan = profile.nan
    if nan:
        note = f"the row holds {nan} NaN; what {found.path} {found.variant} does with them is not established"
        return replace(found, note=note)
    return replace(_settled(found, 0), note=variant.note)


def _buffered(profile: RowProfile, path: Path, found: Risk) -> Risk:
    assert path.key_bits is not None
    assert path.buffer is not None
    if not found.buffered or not found.breach:
        return _settled(found, 0)
    cut = profile.cut(path.key_bits)
    parts = _parts(cut, _shares(path.buffer, profile, path.key_bits))
    seen = outlook(parts, path.buffer.slots(profile.k), cut.equal_need)
    if not seen.most:
        return _settled(found, 0)
    return replace(
        found,
        level="certain" if seen.least else "at risk",
        p_clean=seen.p_clean,
        expected_missing=seen.expected,
        least_missing=seen.least,
        most_missing=seen.most,
        order_correlation=cut.order_correlation,
    )


def _signed_nan_missing(profile: RowProfile) -> int:
    """Winners that an exact-key path loses since it ranks NaN with the sign set below everything."""
    total = profile.nan
    if not total:
        return 0
    signed = int((torch.isnan(profile.scores) & torch.signbit(profile.scores)).sum())
    taken = min(profile.k, total - signed) + max(0, profile.k - (profile.length - signed))
    return min(profile.k, total) - taken
