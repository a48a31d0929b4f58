"""Risk against one parameter, the others as altered: which values are looked at, and what is found there."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import torch

from workbench.analysis.risk import Risk
from workbench.analysis.whatif import (
    KEY_BITS,
    LIKELY,
    MOST_CAPACITY,
    OF_THE_PATH,
    Alteration,
    Enough,
    Parameter,
    Setting,
    fitting_scale,
    in_dtype,
    unalterable,
)
from workbench.errors import UsageError
from workbench.numeric.keys import GREATEST_HALF
from workbench.rendering import Rendered
from workbench.words import described, listed

if TYPE_CHECKING:
    import pandas as pd

STEPS = 24  # values of a curve, about, besides those that are of interest by themselves
_COLUMNS = (
    "level",
    "p_clean",
    "expected_missing",
    "least_missing",
    "most_missing",
    "threshold_bin",
    "above",
    "population",
    "need",
    "capacity",
    "stored",
    "breach",
    "finding",
)


@dataclass(frozen=True)
class Curve(Rendered):
    """The risk of a row on a path at several values of one parameter.

    Attributes:
        parameter: which. at: its values, ascending. risks: one for each, without the correlation of score and position.
        enough, likely: of a curve against a capacity, the least one that is safe, and the least with which 99 of 100
            random arrival orders lose nothing; ``None`` where there is none.
    """

    parameter: Parameter
    at: tuple[float, ...]
    risks: tuple[Risk, ...]
    enough: Enough | None = None
    likely: Enough | None = None

    def with_point(self, value: float, risk: Risk) -> Curve:
        """The same with one more value; nothing where it is looked at already."""
        if value in self.at:
            return self
        place = bisect(self.at, value)
        at, risks = list(self.at), list(self.risks)
        at.insert(place, value)
        risks.insert(place, risk)
        return replace(self, at=tuple(at), risks=tuple(risks))

    def at_value(self, value: float | None) -> Risk | None:
        """The risk at a value; ``None`` where it is not looked at."""
        return self.risks[self.at.index(value)] if value in self.at else None

    def to_pandas(self) -> pd.DataFrame:
        """One line a value: ``parameter``, ``value``, ``refused``, and the risk's level, numbers and finding."""
        import pandas as pd

        head = ("parameter", "value", "refused")
        lines = [
            (self.parameter, at, "; ".join(one.refused), *(getattr(one, name) for name in _COLUMNS))
            for at, one in zip(self.at, self.risks, strict=True)
        ]
        frame = pd.DataFrame(lines, columns=[*head, *_COLUMNS])
        for name in _COLUMNS:
            if name not in ("level", "p_clean", "expected_missing", "breach", "finding"):
                frame[name] = frame[name].astype("Int64")
        return frame


def curve(setting: Setting, parameter: Parameter, alteration: Alteration) -> Curve:
    """The risk against one parameter, exact at each of some values.

    Looked at are the value of the row or path as it is, the one of the alteration, and: for a capacity, up to twice
    what decides, closer where it begins to hold the threshold bin; every key; the k and the lengths that the path
    takes; scales by steps of a quarter binade near 1 and whole ones beyond; shifts that bring the k-th score towards 0.

    Args:
        alteration: what else is altered; the value of the parameter itself is but one of those looked at.

    Raises:
        UsageError: the parameter cannot be altered on this path, and why.
    """
    why = unalterable(setting.path, setting.variant, parameter)
    if why:
        raise UsageError(f"there is no curve against {parameter.replace('_', ' ')}: {why}")
    others = alteration.with_(parameter, None)
    made = cast("Curve", setting.answers.take((parameter, others), lambda: _made(setting, parameter, others)))
    value = getattr(alteration, parameter)
    return made if value is None else made.with_point(value, setting.risk(alteration, ordered=False))


def _made(setting: Setting, parameter: Parameter, others: Alteration) -> Curve:
    """The curve without what the alteration says of the parameter itself."""
    enough = likely = None
    marks: list[float] = []
    if parameter in ("capacity", "rank_capacity"):
        found = (setting.enough(others), setting.enough(others, LIKELY))
        marks = [value for one in found if one is not None and (value := getattr(one, parameter)) is not None]
        if parameter == "capacity":
            enough, likely = found
    own = own_value(setting, parameter, others)
    at = sorted({*_VALUES[parameter](setting, others), *marks, *(() if own is None else (own,))})
    risks = []
    for value in at:
        asked = others.with_(parameter, value if parameter in ("scale", "shift") else int(value))
        # The members of each key's bin are let go of, the histogram is not.
        place = setting.apart(asked) if parameter == "key_bits" else setting
        risks.append(place.risk(asked, keep=parameter in OF_THE_PATH, ordered=False))
    return Curve(parameter, tuple(at), tuple(risks), enough, likely)


def own_value(setting: Setting, parameter: Parameter, alteration: Alteration | None = None) -> float | None:
    """The value that a parameter has as it is; ``None`` where the path has none.

    Args:
        alteration: what is altered besides, as k, which some buffers follow.
    """
    alteration = alteration or Alteration()
    buffer = setting.variant.buffer or setting.path.buffer
    match parameter:
        case "capacity":
            return None if buffer is None else buffer.slots(setting.k_of(alteration))
        case "rank_capacity":
            return None if buffer is None or buffer.ranks is None else buffer.ranks.capacity
        case "key_bits":
            return setting.path.key_bits
        case "k":
            return setting.k
        case "length":
            return setting.row.valid.numel()
        case "scale":
            return 1.0
        case "shift":
            return 0.0


def _capacities(setting: Setting, others: Alteration) -> Iterable[float]:
    """From a quarter of what decides to twice of it, evenly on a log scale, and ever closer to where the bin fits."""
    found, enough = setting.risk(others), setting.enough(others)
    ends = [found.population or 1, found.capacity or 1]
    fits = enough.capacity if enough is not None else ends[0]
    low = max(1, min(*ends, fits, found.need or 1) // 4)
    top = min(2 * max(*ends, fits), MOST_CAPACITY)
    near = {fits - (1 << step) for step in range(fits.bit_length())} | {fits, fits + 1}
    return {value for value in near | _spread(low, top) if low <= value <= top}


def _spread(low: int, high: int) -> set[int]:
    """Whole numbers evenly on a log scale, with both ends."""
    return {low, high} | {round(low * (high / low) ** (step / STEPS)) for step in range(1, STEPS)}


def _rank_capacities(setting: Setting, others: Alteration) -> Iterable[float]:
    own = int(own_value(setting, "rank_capacity") or 1)
    found = setting.risk(others)
    top = min(2 * max(own, found.population or 1), MOST_CAPACITY)
    return _spread(max(1, own // 16), top)


def _keys(setting: Setting, others: Alteration) -> Iterable[float]:
    return range(1, KEY_BITS + 1)


def _ks(setting: Setting, others: Alteration) -> Iterable[float]:
    path, length = setting.path, setting.row_of(others).valid.numel()
    if path.ks is not None:
        return [k for k in path.ks if k < length] or path.ks
    top = max(1, min(length - 1, path.k_up_to or length))
    return _spread(1, top)


def _lengths(setting: Setting, others: Alteration) -> Iterable[float]:
    """Evenly over the lengths that the path takes, as far as the row goes."""
    path, k, held = setting.path.as_variant(setting.variant), setting.k_of(others), setting.row.valid.numel()
    low = k if path.longer_than == "k" else path.longer_than or 0
    high = k if path.up_to == "k" else held if path.up_to is None else path.up_to
    low, high = min(low + 1, held), min(high, held)
    if low >= high:
        return {low, high}
    return {low + round((high - low) * step / STEPS) for step in range(STEPS + 1)}


def _scales(setting: Setting, others: Alteration) -> Iterable[float]:
    valid = setting.row_of(others).valid
    near = {2 ** (step / 4) for step in range(-8, 9)}
    far = {2.0**step for step in (*range(-16, -3, 2), *range(4, 11, 2))}
    return _held(valid, "scale", {*near, *far, fitting_scale(valid)})


def _shifts(setting: Setting, others: Alteration) -> Iterable[float]:
    """Multiples of the k-th score, since that is what decides: taken away as a whole, it comes to lie at 0."""
    profile = setting.profile(others)
    valid = profile.scores
    cut = _cut(valid, profile.k)
    if not cut:
        finite = valid[torch.isfinite(valid)].abs()
        cut = float(finite.max()) / 8 if finite.numel() else 1.0
    near = {-1 + sign * 2.0**-step for step in (3, 5, 7, 10) for sign in (-1, 1)}
    parts = {step / 4 for step in range(-8, 9)} | near
    return _held(valid, "shift", {part * (cut or 1.0) for part in parts})


def _cut(valid: torch.Tensor, k: int) -> float:
    """The k-th score; 0 where it is none to shift by."""
    if not 1 <= k <= valid.numel():
        return 0.0
    cut = float(torch.topk(valid.float(), k, sorted=False).values.min())
    return cut if math.isfinite(cut) and abs(cut) <= GREATEST_HALF else 0.0


def _held(valid: torch.Tensor, name: str, values: Iterable[float]) -> Iterable[float]:
    """Those that the dtype of the scores holds, as it holds them."""
    found = set()
    for value in values:
        try:
            found.add(in_dtype(value, valid.dtype, name) + 0.0)
        except UsageError:
            continue
    return found


_VALUES: dict[Parameter, Callable[[Setting, Alteration], Iterable[float]]] = {
    "capacity": _capacities,
    "rank_capacity": _rank_capacities,
    "key_bits": _keys,
    "k": _ks,
    "length": _lengths,
    "scale": _scales,
    "shift": _shifts,
}


PARAMETERS_DRAWN: tuple[Parameter, ...] = tuple(_VALUES)


def against(setting: Setting) -> tuple[Parameter, ...]:
    """The parameters that a curve can be drawn against on this path."""
    return tuple(name for name in _VALUES if not unalterable(setting.path, setting.variant, name))


def parameter_named(name: str) -> Parameter:
    """A parameter by its name.

    Raises:
        UsageError: there is none of that name.
    """
    for one in _VALUES:
        if isinstance(name, str) and one == name:
            return one
    raise UsageError(f"{described(name)} cannot be altered; what can: {listed(_VALUES)}")
