"""What would become of a row on a path if one of the two were another: pure, and exact where the risk is.

Nothing here runs a path. A path is data, so that another capacity or key is another record; another k, a prefix or
scaled scores are another row. The risk of that record and that row is worked out as for any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar, cast, get_args

import torch

from workbench.analysis.outlooks import OUTLOOKS, fills_buffer
from workbench.analysis.profile import RowProfile, profile_of
from workbench.analysis.risk import Risk, risk
from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.numeric.kept import Kept
from workbench.numeric.keys import GREATEST_HALF, OVERFLOW, value_keys
from workbench.paths.models.sglang_v2 import RULES
from workbench.paths.spec import Buffer, Path, Variant
from workbench.words import described

T = TypeVar("T")
Parameter = Literal["capacity", "rank_capacity", "key_bits", "k", "length", "scale", "shift"]
PARAMETERS: tuple[Parameter, ...] = get_args(Parameter)
OF_THE_PATH: tuple[Parameter, ...] = ("capacity", "rank_capacity", "key_bits")

MOST_CAPACITY = 2**31 - 1  # what an int32 counter of candidates can hold
KEY_BITS = 16  # of the fp16 key, of which a coarse key is the top part
LIKELY = 0.99
_PROFILES, _ANSWERS = 3, 64  # kept of a setting: histograms of the rows last asked for, and answers


@dataclass(frozen=True)
class Alteration:
    """What is taken to be another; ``None`` leaves it as it is.

    Attributes:
        capacity: scores that the buffer holds, 1 to 2^31 - 1. rank_capacity: that one block of a cluster stores.
        key_bits: of the coarse key, the top 1 to 16 bits of the fp16 key.
        k: winners wanted. length: the row's first so many valid scores.
        scale, shift: scores are multiplied by the one, then the other is added; see ``altered_scores``.

    Raises:
        UsageError: a number out of these bounds, a scale that is not positive and finite, a shift that is not finite.
    """

    capacity: int | None = None
    rank_capacity: int | None = None
    key_bits: int | None = None
    k: int | None = None
    length: int | None = None
    scale: float | None = None
    shift: float | None = None

    def __post_init__(self) -> None:
        for name, least, most in (
            ("capacity", 1, MOST_CAPACITY),
            ("rank_capacity", 1, MOST_CAPACITY),
            ("key_bits", 1, KEY_BITS),
            ("k", 1, MOST_CAPACITY),
            ("length", 0, MOST_CAPACITY),
        ):
            number = getattr(self, name)
            if number is None:
                continue
            if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
                why = "; a coarse key is the top of an fp16 key" if name == "key_bits" else ""
                raise UsageError(f"{name} is {described(number)}; a whole number from {least} to {most} is needed{why}")
        for name in ("scale", "shift"):
            if getattr(self, name) is not None:
                vars(self)[name] = _finite(getattr(self, name), name)
        if self.scale is not None and self.scale <= 0:
            raise UsageError(f"scale is {self.scale:g}; it must be above 0, or the order of the scores is another one")

    @property
    def given(self) -> dict[str, int | float]:
        """What is altered, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def of_the_row(self) -> Alteration:
        """What of it makes another row, or another k."""
        return replace(self, capacity=None, rank_capacity=None, key_bits=None)

    def with_(self, parameter: Parameter, value: float | None) -> Alteration:
        """The same with one parameter changed."""
        return Alteration(**{**vars(self), parameter: value})


assert tuple(field.name for field in fields(Alteration)) == PARAMETERS


def _finite(number: object, name: str) -> float:
    try:
        value = float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{name} is {described(number)}; a finite number is needed")
    return value


def in_dtype(number: float, dtype: torch.dtype, name: str) -> float:
    """A scale or shift as the dtype of the scores holds it, rounded to nearest, ties to even.

    Raises:
        UsageError: it rounds to an infinity, or a scale to 0.
    """
    held = float(torch.tensor(number, dtype=torch.float64).to(dtype))
    kind = str(dtype).removeprefix("torch.")
    if math.isinf(held):
        raise UsageError(f"{name} {number:g} is beyond the greatest {kind}")
    if name == "scale" and not held:
        raise UsageError(f"scale {number:g} rounds to 0 in {kind}, which would make all scores equal")
    return held


def altered_scores(scores: torch.Tensor, scale: float | None = None, shift: float | None = None) -> torch.Tensor:
    """Scores times a scale, plus a shift, as a kernel of their own dtype works it out.

    Scale and shift are first rounded to that dtype. The product is rounded to it, to nearest with ties to even, and so
    is the sum: two roundings and no fused multiply-add. Overflow gives an infinity, NaN stays NaN. A scale of 1 and a
    shift of 0 leave every bit as it is. The order of any two scores never turns round, but two may become equal.

    Args:
        scores: float32, bfloat16 or float16, any shape.

    Raises:
        UsageError: the scale or the shift is not of the dtype.
    """
    if scale is not None and scale != 1:
        scores = scores * torch.tensor(in_dtype(scale, scores.dtype, "scale"), dtype=scores.dtype, device=scores.device)
    if shift is not None and shift != 0:
        scores = scores + torch.tensor(in_dtype(shift, scores.dtype, "shift"), dtype=scores.dtype, device=scores.device)
    return scores


def altered_row(row: Row, alteration: Alteration) -> Row:
    """The row with what an alteration says of it: a prefix, scores scaled and shifted, another k in its call.

    Padding stays as it is. A recorded selection is of the row as it was, and is left out.

    Raises:
        UsageError: a length that the row does not have; a scale or shift that its dtype does not.
    """
    asked = alteration.of_the_row
    if not asked.given:
        return row
    valid, length = row.valid, asked.length
    if length is not None and length > valid.numel():
        raise UsageError(f"length is {length}, and the row holds {valid.numel()} valid scores; a prefix has no more")
    call = row.call if asked.k is None else replace(row.call, k=asked.k)
    scores = row.scores
    new = altered_scores(valid, asked.scale, asked.shift)
    if new is not valid:
        scores = torch.cat([scores[: row.start], new, scores[row.start + valid.numel() :]])
    length = row.length if length is None else length
    batch = row.batch if length == row.length else None  # lengths of the batch as it was
    return replace(row, scores=scores, length=length, call=call, batch=batch, indices=None, mapped=None)


def overflowing(scores: torch.Tensor) -> int:
    """How many finite scores the fp16 key takes for an infinity: those of 65520 and more in magnitude."""
    return int(((scores.abs() >= OVERFLOW) & torch.isfinite(scores)).sum())


def fitting_scale(scores: torch.Tensor) -> float:
    """The greatest power of two, up to 1, that brings every finite score within 65504 in magnitude.

    Of a power of two the product is exact, but for float32 numbers that become subnormal.
    """
    finite = torch.where(torch.isfinite(scores), scores, 0).abs()
    greatest = float(finite.max()) if scores.numel() else 0.0
    if greatest <= GREATEST_HALF:
        return 1.0
    fits = 2.0 ** math.floor(math.log2(GREATEST_HALF / greatest))
    return fits if greatest * fits <= GREATEST_HALF else fits / 2  # the logarithm is rounded


def ties_made(before: torch.Tensor, after: torch.Tensor, k: int) -> int:
    """How many scores below the k-th largest have become equal to it, so that they can take a winner's place.

    Args:
        before, after: the same valid scores as they were and as they became. k: winners wanted.
    """
    if before.numel() <= k:
        return 0
    old, new = value_keys(before), value_keys(after)
    place = torch.topk(old, k, sorted=False)
    cut = int(place.values.argmin())
    return int(((old < place.values[cut]) & (new == new[place.indices[cut]])).sum())


def unalterable(path: Path, variant: Variant, parameter: Parameter) -> str:
    """Why a parameter of a path cannot be altered to any effect, in words; empty if it can.

    What belongs to the row, or to the call, can always be.
    """
    if parameter not in OF_THE_PATH:
        return ""
    name, buffer = f"{path.name} {variant.name}", variant.buffer or path.buffer
    what = {"capacity": "no candidate buffer", "rank_capacity": "no candidate buffer", "key_bits": "no coarse key"}
    if (path.key_bits if parameter == "key_bits" else buffer) is None:
        return f"{path.name} has {what[parameter]}"
    if not variant.modelled:
        return f"no model runs {name}: what it does inside is not established"
    if variant.lossless or not fills_buffer(variant):
        return f"{name} drops no winner whatever its buffer holds"
    rules = RULES.get(variant.model)
    if rules is not None and rules.fallback != "none":
        return f"{name} searches the row where it sees its buffer overflow: more capacity is not always safer"
    own = rules is None and (variant.model in OUTLOOKS or path.family in OUTLOOKS)
    if own or variant.order_free or buffer is None or path.key_bits is None:
        return f"{name} is not decided by one coarse key and one buffer: its model has its own digits"
    if parameter == "rank_capacity" and buffer.ranks is None:
        return f"{name} runs in one block, which has the buffer to itself"
    return ""


def altered_path(path: Path, variant: Variant, alteration: Alteration) -> tuple[Path, Variant]:
    """The records of a path and its variant with another capacity or coarse key; what else it takes stays.

    Raises:
        UsageError: the path's model cannot take it, and why.
    """
    for parameter in OF_THE_PATH:
        why = unalterable(path, variant, parameter) if getattr(alteration, parameter) is not None else ""
        if why:
            raise UsageError(f"{parameter.replace('_', ' ')} cannot be altered: {why}")
    buffer = variant.buffer or path.buffer
    made = replace(path, key_bits=alteration.key_bits or path.key_bits)
    if buffer is None or (alteration.capacity is None and alteration.rank_capacity is None):
        return made, variant
    buffer = _holding(buffer, alteration)
    other = replace(variant, buffer=buffer) if variant.buffer is not None else variant
    own = tuple(other if one is variant else one for one in path.variants)
    return replace(made, buffer=path.buffer if variant.buffer is not None else buffer, variants=own), other


def _holding(buffer: Buffer, alteration: Alteration) -> Buffer:
    ranks = buffer.ranks
    if ranks is not None and alteration.rank_capacity is not None:
        ranks = replace(ranks, capacity=alteration.rank_capacity)
    capacity = buffer.capacity if alteration.capacity is None else alteration.capacity
    return replace(buffer, capacity=capacity, ranks=ranks)


@dataclass(frozen=True)
class Enough:
    """The least buffer that does: of so many scores in all, and in each block of a cluster where that decides.

    Attributes:
        capacity: scores of the whole buffer. rank_capacity: of a block, where its own would not do; ``None`` elsewhere.
    """

    capacity: int
    rank_capacity: int | None = None


class Setting:
    """A row on a path: what is altered is worked out from here, histograms are made once.

    Args:
        row: as it was captured. k: winners wanted there. path, variant: as released, or as a test scaled them.
        profile: of the row as it is, where it was counted already.

    Attributes:
        answers: what was worked out for the questions last asked, so that none is answered twice.
    """

    def __init__(self, row: Row, k: int, path: Path, variant: Variant, profile: RowProfile | None = None) -> None:
        self.row, self.k, self.path, self.variant = row, k, path, variant
        self.answers: Kept[Any] = Kept(_ANSWERS)
        self._profiles: Kept[RowProfile] = Kept(_PROFILES)
        if profile is not None:
            self._profiles.take(Alteration(), lambda: profile)

    def row_of(self, alteration: Alteration) -> Row:
        """The row as altered."""
        return altered_row(self.row, alteration)

    def k_of(self, alteration: Alteration) -> int:
        """Winners wanted of the row as altered."""
        return self.k if alteration.k is None else alteration.k

    def profile(self, alteration: Alteration, keep: bool = True) -> RowProfile:
        """The counts of the row as altered. ``keep``: for the next question."""
        asked = alteration.of_the_row

        def make() -> RowProfile:
            base = None if asked.k is None else self._profiles.get(asked.with_("k", None))
            if base is not None:
                return base.with_k(self.k_of(asked))
            return profile_of(self.row_of(asked), self.k_of(asked))

        return self._profiles.take(asked, make) if keep else self._profiles.get(asked) or make()

    def apart(self, alteration: Alteration) -> Setting:
        """The same setting, which shares the row's histogram and keeps nothing else for this one."""
        other, profile = Setting(self.row, self.k, self.path, self.variant), self.profile(alteration)
        other._profiles.take(alteration.of_the_row, lambda: profile.with_k(profile.k))
        return other

    def risk(self, alteration: Alteration, *, keep: bool = True, ordered: bool = True) -> Risk:
        """The risk of the row as altered on the path as altered.

        Args:
            keep: the row's counts for the next question. ordered: as of ``workbench.analysis.risk.risk``.

        Raises:
            UsageError: the row or the path's model cannot be altered so, and why.
        """
        path, variant = altered_path(self.path, self.variant, alteration)
        return risk(self.profile(alteration, keep), path, variant, ordered=ordered)

    def enough(self, alteration: Alteration, p_clean: float = 1.0) -> Enough | None:
        """The least buffer with which a random arrival order loses nothing with at least this probability.

        Args:
            alteration: of the row and the key; its capacities do not matter. p_clean: 1 asks for a row that is safe,
                which no order loses.

        Returns:
            ``None`` where no capacity does, or where capacity is not what decides.
        """
        if unalterable(self.path, self.variant, "capacity"):
            return None
        asked = replace(alteration, capacity=None, rank_capacity=None)
        return cast("Enough | None", self.answers.take((asked, p_clean), lambda: self._find_enough(asked, p_clean)))

    def _find_enough(self, alteration: Alteration, p_clean: float) -> Enough | None:
        most = max(1, self.profile(alteration).length)

        def does(capacity: int, rank_capacity: int | None) -> bool:
            asked = replace(alteration, capacity=capacity, rank_capacity=rank_capacity)
            found = self.risk(asked, ordered=False)
            return found.level == "safe" if p_clean >= 1 else (found.p_clean or 0.0) >= p_clean

        ranked = None
        if not does(most, None):
            if unalterable(self.path, self.variant, "rank_capacity") or not does(most, most):
                return None
            ranked = _least(lambda each: does(most, each), most)
        return Enough(_least(lambda capacity: does(capacity, ranked), most), ranked)


def _least(does: Callable[[int], bool], most: int) -> int:
    """The least number from 1 on that does, where ``most`` does and every greater one than one that does."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle + 1, high)
    return low
