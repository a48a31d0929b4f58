"""What would become of a row on a path with another buffer, key, k, length, or other scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from workbench.analysis.curves import Curve, curve, parameter_named
from workbench.analysis.reference import winners_wanted
from workbench.analysis.risk import Risk
from workbench.analysis.whatif import (
    LIKELY,
    Alteration,
    Enough,
    Setting,
    fitting_scale,
    in_dtype,
    overflowing,
    ties_made,
)
from workbench.arguments import checked
from workbench.capture.row import Row
from workbench.paths.catalog import get_path, get_variant
from workbench.paths.spec import Path
from workbench.rendering import Rendered


@dataclass(frozen=True)
class Scores:
    """What scaling and shifting does to a row's valid scores, before and after.

    Attributes:
        scale, shift: as the dtype of the scores holds them.
        overflowing: finite scores that the fp16 key takes for an infinity (65520 or more in magnitude), before and
            after.
        ties_made: scores below the k-th largest that rounding made equal to it: a selection of the altered row may take
            them for winners.
    """

    scale: float
    shift: float
    overflowing: tuple[int, int]
    ties_made: int


class WhatIf(Rendered):
    """A row on a path as it is, and as altered.

    Attributes:
        setting: the row, its k, the path and the variant. alteration: what is taken to be another.
        before, after: the risk of the one and of the other.
    """

    def __init__(self, setting: Setting, alteration: Alteration) -> None:
        self.setting, self.alteration = setting, alteration
        self.before: Risk = setting.risk(Alteration())
        self.after: Risk = setting.risk(alteration)
        # here already: what cannot be told apart from a defect later is told in words now
        winners_wanted(self.row, self.k)

    @property
    def row(self) -> Row:
        """The row as altered, whose call has the altered k; the one given where nothing of it is altered."""
        return self.setting.row_of(self.alteration)

    @property
    def k(self) -> int:
        """Winners wanted, as altered."""
        return self.setting.k_of(self.alteration)

    @cached_property
    def enough(self) -> Enough | None:
        """The least buffer with which the row is safe, all else as altered; ``None`` where there is none."""
        return self.setting.enough(self.alteration)

    @cached_property
    def likely(self) -> Enough | None:
        """The least buffer with which at least 99 of 100 random arrival orders lose nothing."""
        return self.setting.enough(self.alteration, LIKELY)

    @cached_property
    def scores(self) -> Scores:
        """What became of the scores themselves: compared are those of the same prefix."""
        asked, dtype = self.alteration, self.setting.row.scores.dtype
        after = self.setting.profile(asked).scores
        before = self.setting.row.valid[: after.numel()]
        scaled = after is not before and (asked.scale is not None or asked.shift is not None)
        over = overflowing(before)
        return Scores(
            1.0 if asked.scale is None else in_dtype(asked.scale, dtype, "scale"),
            0.0 if asked.shift is None else in_dtype(asked.shift, dtype, "shift"),
            (over, overflowing(after) if scaled else over),
            ties_made(before, after, self.k) if scaled else 0,
        )

    @cached_property
    def fitting_scale(self) -> float:
        """The greatest power of two, up to 1, that brings every finite score of the row within 65504 in magnitude."""
        return fitting_scale(self.setting.row.valid)

    def curve(self, parameter: str) -> Curve:
        """The risk against one parameter, the others as altered.

        Args:
            parameter: ``capacity``, ``rank_capacity``, ``key_bits``, ``k``, ``length``, ``scale`` or ``shift``.

        Raises:
            UsageError: there is none of that name, or it cannot be altered on this path, and why.
        """
        return curve(self.setting, parameter_named(parameter), self.alteration)


@checked
def what_if(
    row: Row,
    path: str | Path,
    *,
    variant: str = "stock",
    capacity: int | None = None,
    rank_capacity: int | None = None,
    key_bits: int | None = None,
    k: int | None = None,
    length: int | None = None,
    scale: float | None = None,
    shift: float | None = None,
) -> WhatIf:
    """The risk of a row on a path if some of this were another, beside the risk as it is; no path is run.

    The answers are exact, as those of a census are, where they are not said to be unknown: the risk is that of the
    altered record of the path, on the row as altered.

    Args:
        row: the row. path: its name, or a record. variant: of the path.
        capacity: scores that the candidate buffer holds. rank_capacity: that one block of a cluster stores.
        key_bits: of the coarse key, the top 1 to 16 bits of the fp16 key.
        k: winners wanted instead of the call's; where the call says none, of the row as it is too.
        length: only the first so many valid scores.
        scale, shift: scores are multiplied by the one, then the other is added, in the dtype of the row: both numbers
            are first rounded to it, and so is the product, then the sum, to nearest with ties to even.

    Raises:
        CaptureError: k is not known, or is above the row's width.
        UsageError: no such path or variant; a number out of bounds; an alteration that the path's model cannot take,
            as a capacity where no buffer decides, and why.

    Example:
        >>> what_if(row, "vllm.histogram_256", capacity=6144).after.level    # would a 6144 buffer have held?
        'safe'
    """
    spec = get_path(path) if isinstance(path, str) else path
    asked = Alteration(capacity, rank_capacity, key_bits, k, length, scale, shift)
    own = winners_wanted(row, k if row.k is None else None)
    return WhatIf(Setting(row, own, spec, get_variant(spec, variant)), asked)
