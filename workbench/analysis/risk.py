"""The risk of a row on a path over every arrival order, computed without running the path.

All buffered selectors lose winners in one way: the threshold bin holds ``population`` scores, the buffer stores the
first to arrive, and the ``need`` best of those are selected exactly. ``survival`` works out what that loses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from workbench.analysis.outlooks import fills_buffer, outlook_of
from workbench.analysis.profile import Filling, RowProfile
from workbench.analysis.survival import Outlook
from workbench.analysis.together import clean_at_most
from workbench.paths.catalog import PATHS, get_path
from workbench.paths.faults import finding
from workbench.paths.lengths import Effect, effect, unmet_outside
from workbench.paths.spec import Path, Variant
from workbench.rendering import Rendered
from workbench.words import UNKNOWN

Level = Literal["safe", "at risk", "certain"]
LEVELS: tuple[Level, ...] = get_args(Level)
LOSING: tuple[Level, ...] = LEVELS[1:]  # some arrival order loses winners

NOT_MODELLED = "not modelled"

ORDERED = 0.9  # rank correlation of score and position from which the mean over random orders is not to be trusted


@dataclass(frozen=True)
class Risk(Rendered):
    """The risk of one row on one path and variant.

    Attributes:
        path, variant: their names. refused: the path's unmet conditions; the risk is then not given, though the
            populations are, where they can be counted.
        level: ``safe`` (no arrival order loses), ``at risk`` (some do), ``certain`` (all do); ``None`` if unknown.
        p_clean: probability that a uniformly random arrival order, of scores one by one, loses nothing.
        expected_missing: mean number of values lost over those orders.
        clean_at_most: where the path's scores arrive warp by warp and the row is at risk: at most so likely does a
            random order of its warps lose nothing (``workbench.analysis.together``). Else ``None``.
        least_missing, most_missing: over every arrival order.
        threshold_bin, above, population, need, capacity: as in the design; ``None`` without a coarse key or buffer.
        stored: members of the bin that the buffer takes, whichever they are.
        breach: stored < population: population > capacity, or a cluster's rank that sees more than it can store.
        buffered: whether the bin goes through the buffer at all; a bin that is taken
            whole bypasses it on some paths, and a breach then loses nothing.
        order_correlation: rank correlation of score and position within a breached bin, -1 to 1. Near ±1 the scores
            rise or fall along the row, real arrival follows position, and the mean over random orders does not
            describe it (the extremes still hold).
        note: what else a reader must know. finding: what the selector does to the row beside selecting wrongly, in
            words, as hanging or reading past it; such a row is a finding whatever its level.
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
    clean_at_most: float | None = None
    note: str = ""
    finding: str = ""

    @property
    def observed(self) -> bool:
        """Whether it rests on what was observed alone: no model runs the variant, so nothing was worked out."""
        modelled = get_path(self.path).variant(self.variant).modelled
        return self.level == "safe" and bool(self.note) and not modelled

    @property
    def judged(self) -> bool:
        """Whether the path is judged on the row: it takes the row, and what it does there was worked out. One that no
        model runs is not judged, however often it was observed to keep every winner."""
        return not self.refused and (self.level is not None or bool(self.finding)) and not self.observed

    @property
    def told(self) -> str:
        """The level as it is shown: ``not modelled`` where no model was asked, ``unknown`` where there is none."""
        return NOT_MODELLED if self.observed else self.level or UNKNOWN

    @property
    def most_clean(self) -> float:
        """At most so likely does a call lose nothing, by what arrives together on the path; 0 where it is not known."""
        return (self.p_clean if self.clean_at_most is None else self.clean_at_most) or 0.0

    @property
    def room(self) -> int | None:
        """How many scores of this bin fit: the capacity, or less where a rank of a cluster overflows first."""
        return self.stored if self.breach else self.capacity


def risk(profile: RowProfile, path: Path, variant: Variant | None = None, *, ordered: bool = True) -> Risk:
    """The risk of a row on a path.

    Args:
        profile: of the row. variant: of the path; ``stock`` by default. ordered: whether to work out what depends on
            where the scores lie: the correlation of score and position, and ``clean_at_most``.
    """
    variant = variant or path.variant("stock")
    does = effect(path, variant, profile.window, profile.k)
    if does is not None:
        return _of_length(profile, path, variant, does, ordered)
    return _of_scores(profile, path, variant, ordered)


def _of_scores(profile: RowProfile, path: Path, variant: Variant, ordered: bool) -> Risk:
    """The risk where the row's length is inside it."""
    filling = _filling(profile, path, variant)
    refused = tuple(path.as_variant(variant).unmet(k=profile.k, length=profile.length, dtype=profile.dtype))
    told = None if refused else finding(path, variant, profile)
    if told is not None and not told.runs:
        return Risk(
            path=path.name,
            variant=variant.name,
            level=told.level,
            p_clean=0.0 if told.level == "certain" else None,
            note=told.words,
            finding=told.happens,
            **_filling_fields(filling),
        )
    seen, note = (None, "") if refused else outlook_of(profile, path, variant, filling)
    return Risk(
        path=path.name,
        variant=variant.name,
        refused=refused,
        note=told.words if told is not None else note,
        **(_outlook_fields(seen, filling if ordered else None) if seen is not None else {}),
        **(_of_warps(profile, path.as_variant(variant), seen, filling) if ordered else {}),
        **_filling_fields(filling),
    )


def _filling(profile: RowProfile, path: Path, variant: Variant) -> Filling | None:
    if path.key_bits is None or path.buffer is None or not profile.countable or not fills_buffer(variant):
        return None
    return profile.filling(path.key_bits, variant.buffer or path.buffer)


def _of_length(profile: RowProfile, path: Path, variant: Variant, does: Effect, ordered: bool) -> Risk:
    """The risk where the row's length leaves it, whatever its scores."""
    refused = tuple(unmet_outside(path, variant, profile.window, does, k=profile.k, dtype=profile.dtype))
    counted = _filling_fields(_filling(profile, path, variant))
    if refused or not (does.defined or does.finding):
        return Risk(path.name, variant.name, refused or (does.words,), **counted)
    if does.cells is not None and does.cells == profile.length:
        inside = _of_scores(profile, path, variant, ordered)
        return replace(inside, note="; ".join(filter(None, (does.words, inside.note))))
    return Risk(
        path=path.name,
        variant=variant.name,
        level=does.level,
        p_clean={"safe": 1.0, "certain": 0.0}.get(does.level or ""),
        expected_missing=0.0 if does.level == "safe" else None,
        least_missing=0 if does.level == "safe" else None,
        most_missing=0 if does.level == "safe" else None,
        note=does.words,
        finding=does.words if does.finding else "",
        **counted,
    )


def census(profile: RowProfile, paths: tuple[Path, ...] = PATHS) -> list[Risk]:
    """Risk of one row on every path's stock variant, without running them."""
    return [risk(profile, path) for path in paths]


def _outlook_fields(seen: Outlook, filling: Filling | None) -> dict[str, Any]:
    level = "certain" if seen.least else "at risk" if seen.most else "safe"
    return {
        "level": level,
        "p_clean": seen.p_clean,
        "expected_missing": seen.expected,
        "least_missing": seen.least,
        "most_missing": seen.most,
        "order_correlation": filling.order_correlation if filling is not None and seen.most else None,
    }


def _of_warps(profile: RowProfile, path: Path, seen: Outlook | None, filling: Filling | None) -> dict[str, Any]:
    """What the law of scores that arrive one by one does not tell of a path whose scores do not."""
    if path.arrival_unit == "element" or seen is None or not seen.most or seen.least:
        return {}
    return {"clean_at_most": 1.0 if filling is None else clean_at_most(profile, path, seen.p_clean)}


def _filling_fields(filling: Filling | None) -> dict[str, Any]:
    if filling is None:
        return {}
    at = filling.at
    return {
        "threshold_bin": at.bin,
        "above": at.above,
        "population": at.population,
        "need": at.need,
        "capacity": filling.capacity,
        "stored": filling.stored,
        "breach": filling.breach,
        "buffered": filling.buffered,
    }
