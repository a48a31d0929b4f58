"""Verdicts of all selections of a batch at once, on the device that holds it; ``verdict.judge`` is that of one row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from workbench.analysis.verdict import EMPTY, Kind
from workbench.numeric.keys import value_keys
from workbench.paths.selection import UNWRITTEN

KINDS: tuple[Kind, ...] = ("exact", "ties", "lossy", "invalid")  # from the best to the worst
_NOTHING = torch.iinfo(torch.int32).min  # below the key of every value


@dataclass(frozen=True)
class BatchVerdict:
    """What the selections of a batch amount to, over all rows and calls.

    Attributes:
        kind: of the worst selection, as ``verdict.Verdict`` has it. selections: how many were judged.
        wrong: how many of them are lossy or invalid. missing: values that all lack; missing_most: that one lacks.
        duplicates, out_of_range, unwritten, short: slots of all, as of ``verdict.Verdict``.
    """

    kind: Kind
    selections: int
    wrong: int
    missing: int
    missing_most: int
    duplicates: int
    out_of_range: int
    unwritten: int
    short: int


class BatchOracle:
    """The exact top-k of every row of a batch, by ``torch.topk`` of the value keys.

    Args:
        scores: [rows, width] float32, bfloat16 or float16. lengths: int32 [rows] on the same device, each from 0 to
            width; cells past them are no scores. k: winners wanted.
    """

    def __init__(self, scores: torch.Tensor, lengths: torch.Tensor, k: int) -> None:
        width = scores.shape[1]
        self.k, self.lengths = k, lengths.to(torch.int64)[:, None]
        cells = torch.arange(width, device=scores.device)
        self._keys = torch.where(cells < self.lengths, value_keys(scores), _NOTHING)
        self.wanted = self.lengths.clamp(max=k)
        best = torch.topk(self._keys, min(k, width), dim=1).values
        last = (self.wanted - 1).clamp(min=0)
        self._least = torch.where(self.wanted > 0, best.gather(1, last), _NOTHING)  # the worst winner's key
        is_winner = torch.arange(best.shape[1], device=scores.device) < self.wanted
        self._need = ((best == self._least) & is_winner).sum(1, keepdim=True)
        there = (self._keys == self._least).sum(1, keepdim=True)
        self._tied = ((there > self._need) & (self.wanted > 0)).flatten()  # rows whose winners are not one set only

    def judge(self, indices: torch.Tensor) -> BatchVerdict:
        """The verdict of all selections together.

        Args:
            indices: int32 [calls, rows, k] on any device, -1 padded, slots never written hold ``UNWRITTEN``.
        """
        kinds: Counter[Kind] = Counter()
        counts: Counter[str] = Counter()
        most = 0
        for call in indices.to(self._keys.device):
            one, missing, found = self._call(call.to(torch.int64))
            kinds.update(one)
            counts.update(found)
            most = max(most, missing)
        return BatchVerdict(
            kind=next((kind for kind in reversed(KINDS) if kinds[kind]), "exact"),
            selections=sum(kinds.values()),
            wrong=kinds["lossy"] + kinds["invalid"],
            missing_most=most,
            **{name: counts[name] for name in ("missing", "duplicates", "out_of_range", "unwritten", "short")},
        )

    def _call(self, slots: torch.Tensor) -> tuple[Counter[Kind], int, dict[str, int]]:
        is_unwritten, is_empty = slots == UNWRITTEN, slots == EMPTY
        inside = (slots >= 0) & (slots < self.lengths)
        outside = ~inside & ~is_unwritten & ~is_empty
        short = is_empty & (torch.arange(slots.shape[1], device=slots.device) < self.wanted)
        ordered = torch.where(inside, slots, -1).sort(1).values
        again = torch.zeros_like(inside)
        again[:, 1:] = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        unique = (ordered >= 0) & ~again
        keys = torch.where(unique, self._keys.gather(1, ordered.clamp(min=0)), _NOTHING)
        above = (unique & (keys > self._least)).sum(1, keepdim=True)
        level = unique & (keys == self._least)
        taken = above + torch.minimum(level.sum(1, keepdim=True), self._need)
        missing = torch.where(self.wanted > 0, self.wanted - taken, 0).flatten()
        bad = (is_unwritten | outside | short | again).any(1)
        lossy = ~bad & (missing > 0)
        ties = ~bad & ~lossy & self._tied
        for row in ties.nonzero().flatten().tolist():  # the reference takes the smaller indices among equal scores
            need = int(self._need[row])
            first = (self._keys[row] == self._least[row]).nonzero().flatten()[:need]
            ties[row] = not torch.equal(ordered[row][level[row]], first)
        counted: Counter[Kind] = Counter(
            {"invalid": int(bad.sum()), "lossy": int(lossy.sum()), "ties": int(ties.sum())}
        )
        counted["exact"] = slots.shape[0] - counted.total()
        numbers = {
            "missing": missing.sum(),
            "duplicates": again.sum(),
            "out_of_range": outside.sum(),
            "unwritten": is_unwritten.sum(),
            "short": short.sum(),
        }
        return counted, int(missing.max()), {name: int(value) for name, value in numbers.items()}
