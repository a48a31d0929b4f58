"""Rows whose scores were others: changes that keep every winner a winner, for asking whether they would have helped."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.analysis.whatif import altered_scores, fitting_scale


@dataclass(frozen=True)
class Altered:
    """A row's scores after a change.

    Attributes:
        scores: [length] float32; ``None`` where the change leaves the row as it is, or cannot be made. told: what was
            done to this row, or why nothing was. possible: whether the change could be made.
    """

    scores: torch.Tensor | None = None
    told: str = ""
    possible: bool = True


def within_fp16(scores: torch.Tensor, k: int) -> Altered:
    """The scores divided by the least power of two that leaves none of them beyond 65504, which rounds nothing.

    Args:
        scores: [length] float32.
    """
    scale = fitting_scale(scores)
    if scale == 1:
        return Altered(told="no finite score is beyond 65504")
    halvings = round(-math.log2(scale))
    scaled = altered_scores(scores, scale)
    if not torch.equal((scaled / scale).nan_to_num(0.0), scores.nan_to_num(0.0)):
        return Altered(told=f"divided by 2^{halvings} the smallest scores would be rounded", possible=False)
    return Altered(scaled, f"scores divided by 2^{halvings}")


def cut_at_zero(scores: torch.Tensor, k: int) -> Altered:
    """The scores less the k-th largest of them. The difference of two floats is zero, or has the right sign, whatever
    is rounded, so that the same scores lie above, at and below the cut.

    Args:
        scores: [length] float32.
    """
    if scores.numel() <= k:
        return Altered(told="nothing is selected")
    if bool(torch.isnan(scores).any()):
        return Altered(told="the row holds NaN", possible=False)
    cut = torch.topk(scores, k, sorted=False).values.min()
    if not bool(torch.isfinite(cut)):
        return Altered(told="the k-th largest score is infinite", possible=False)
    return Altered(scores - cut, f"the k-th largest score, {float(cut):.6g}, subtracted from each")


ALTERATIONS: dict[str, Callable[[torch.Tensor, int], Altered]] = {
    "scores of a magnitude up to 65504": within_fp16,
    "scores shifted so that the k-th largest is 0": cut_at_zero,
}
