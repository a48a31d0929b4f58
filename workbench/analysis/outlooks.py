"""What a path loses over every arrival order, by its model: one table, and what holds for all other models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from workbench.analysis.collected import collected
from workbench.analysis.padded import PADDED, padded
from workbench.analysis.profile import Filling, RowProfile
from workbench.analysis.settled import first_of_the_bin, order_free
from workbench.analysis.survival import NOTHING_LOST, Outlook
from workbench.paths.models.per_row import Way, way_by
from workbench.paths.models.sglang_v2 import RULES, Rules
from workbench.paths.spec import Path, Variant


class Told(NamedTuple):
    """The outlook of a row, ``None`` if it is not known, and what a reader must know of it."""

    outlook: Outlook | None
    note: str = ""


def outlook_of(profile: RowProfile, path: Path, variant: Variant, filling: Filling | None) -> Told:
    """What a row that the path takes loses over every arrival order.

    Args:
        filling: of the path's buffer, where ``fills_buffer`` says that it decides.
    """
    if not variant.modelled:
        return _known(None if profile.nan else NOTHING_LOST, profile, path, variant, variant.note)
    own = OUTLOOKS.get(variant.model) or OUTLOOKS.get(path.family)
    if own is not None:
        return own(profile, path, variant)
    if variant.order_free and (profile.nan or not variant.lossless):
        return _known(order_free(profile, path, variant), profile, path, variant)
    if variant.lossless:
        return _known(None if profile.nan else NOTHING_LOST, profile, path, variant)
    assert filling is not None
    return Told(filling.outlook)


def fills_buffer(variant: Variant) -> bool:
    """Whether the path's buffer decides what the variant loses; repairs hold their candidates otherwise."""
    rules = RULES.get(variant.model)
    return not variant.lossless and (rules is None or rules.fallback != "true")


def _known(seen: Outlook | None, profile: RowProfile, path: Path, variant: Variant, note: str = "") -> Told:
    if seen is not None:
        return Told(seen, note)
    what = f"what {path.name} {variant.name} does with them is not established"
    return Told(None, f"the row holds {profile.nan} NaN; {what}")


def _identity(profile: RowProfile, path: Path, variant: Variant) -> Told:
    return Told(NOTHING_LOST)


def _exact_keys(profile: RowProfile, path: Path, variant: Variant) -> Told:
    """Nothing but NaN with its sign set, which exact keys rank below everything."""
    missing = _signed_nan_missing(profile)
    note = "NaN with its sign set ranks below -inf on this path, and highest in the reference" if missing else ""
    return Told(Outlook(missing, missing, 0.0 if missing else 1.0, float(missing)), note)


def _first_of_the_bin(profile: RowProfile, path: Path, variant: Variant) -> Told:
    return Told(first_of_the_bin(profile))


def _collected(profile: RowProfile, path: Path, variant: Variant, rules: Rules) -> Told:
    found = collected(profile, path.as_variant(variant), rules)
    return Told(found.outlook, found.note)


def _per_row(profile: RowProfile, path: Path, variant: Variant) -> Told:
    if profile.nan:
        return _known(order_free(profile, path, variant), profile, path, variant)
    found = padded(profile, path.as_variant(variant), PER_ROW_WAYS.get(variant.model) or way_by(profile.width))
    return Told(found, PADDED if found.most else "")


PER_ROW_WAYS: dict[str, Way] = {
    "per_row_prefill": "compared",
    "per_row_prefill_radix": "radix",
    "per_row_radix": "radix",
    "per_row_split": "split",
}

OUTLOOKS: dict[str, Callable[[RowProfile, Path, Variant], Told]] = {
    "identity": _identity,
    "radix": _exact_keys,
    "per_row": _per_row,
    **dict.fromkeys(PER_ROW_WAYS, _per_row),
    "bf16_approximate": _first_of_the_bin,
    **{model: partial(_collected, rules=rules) for model, rules in RULES.items()},
}


def _signed_nan_missing(profile: RowProfile) -> int:
    """Winners that an exact-key path loses since it ranks NaN with the sign set below everything."""
    total = profile.nan
    if not total:
        return 0
    signed = int((torch.isnan(profile.scores) & torch.signbit(profile.scores)).sum())
    taken = min(profile.k, total - signed) + max(0, profile.k - (profile.length - signed))
    return min(profile.k, total) - taken
