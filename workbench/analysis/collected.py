"""The risk of paths that collect a row by float32 thresholds, where these part scores otherwise than the bins do.

Without NaN, away from the bins of zero and of the infinities, and with thresholds that round as the bins do, the two
agree, and a row's filling of the buffer says all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from workbench.analysis.profile import Cut, Filling, RowProfile
from workbench.analysis.survival import NOTHING_LOST, Outlook, Part, outlook
from workbench.numeric.bounds import FLT_MAX, coarse_bin_lower_bound
from workbench.numeric.histogram import GREATEST_NUMBER, Threshold
from workbench.numeric.keys import value_keys
from workbench.paths.models.sglang_v2 import VECTOR, Rules
from workbench.paths.models.sglang_v2 import collected as thresholded
from workbench.paths.spec import Buffer, Path

_ZERO = 0x8000  # ordered fp16 key of +0.0


@dataclass(frozen=True)
class Collected:
    """What a row loses over every arrival order, ``None`` if it is not known, and what a reader must know of it."""

    outlook: Outlook | None
    note: str = ""


def collected(profile: RowProfile, path: Path, rules: Rules) -> Collected:
    """The outlook of a row whose k-th score exists.

    Args:
        path: with the variant's own buffer. rules: of its collection.
    """
    assert path.key_bits is not None
    assert path.buffer is not None
    bits, bin_ = path.key_bits, profile.threshold(path.key_bits).bin
    zero, infinity = _ZERO >> (16 - bits), GREATEST_NUMBER >> (16 - bits)
    signed = bin_ in (zero - 1, zero) and int(profile.half.counts[_ZERO - 1])  # -0.0, if any, has that fp16 key
    as_bins = rules.bound != "midpoint" and not profile.nan and not signed and bin_ != infinity
    lowest = coarse_bin_lower_bound(bin_, bits, rules.bound) <= -FLT_MAX
    if as_bins and rules.fallback == "none" and not (rules.padding == "-FLT_MAX" and lowest):
        return Collected(profile.filling(bits, path.buffer).outlook)
    above, ties = thresholded(profile.keys, bin_, bits, rules.bound)
    if above.numel() > profile.k:
        return _crowded(profile, above)
    return _of_ties(profile, path, rules, above.numel(), ties)


def _crowded(profile: RowProfile, above: torch.Tensor) -> Collected:
    """More scores than k pass as higher ones: the first k to arrive are taken."""
    note = f"{above.numel()} scores pass the threshold of the higher bins for {profile.k} slots"
    nan = min(profile.nan, profile.k)
    if nan:
        note += f"; {profile.nan} NaN count in the top bin and are never collected"
    if nan == profile.k:
        return Collected(_shifted(NOTHING_LOST, nan), note)
    cut = Cut(above, profile.scores, profile.k - nan)
    part = Part(above.numel(), profile.k, cut.better, cut.equal)
    return Collected(_shifted(outlook([part], profile.k, cut.equal_need), nan), note)


def _of_ties(profile: RowProfile, path: Path, rules: Rules, above: int, ties: torch.Tensor) -> Collected:
    assert path.buffer is not None
    nan, count = min(profile.nan, profile.k), ties.numel()
    need = profile.k - above  # slots for ties; with NaN, more than the winners among them
    note = f"{profile.nan} NaN count in the top bin and are never collected" if profile.nan else ""
    if count < need and not path.buffer.leaves_unwritten:
        if count > path.buffer.slots(profile.k):
            return Collected(None, note)
        shift = profile.start % VECTOR
        first = max(0, profile.k - (need - count) - shift)
        filled = int(torch.isnan(profile.scores[first : profile.k - shift]).sum())
        return Collected(_shifted(NOTHING_LOST, nan - min(nan, filled)), note)
    if rules.padding == "-FLT_MAX" and _padded(profile, path, rules):
        return _outranked(profile, path, rules, need, ties)
    wanted = max(0, need - nan)
    bypassed = count == need and not path.buffer.whole_bin
    kept = not wanted or bypassed or rules.falls_back(path.buffer, ties, profile.length, profile.k)
    lost = NOTHING_LOST if kept else _filling(profile, path.buffer, wanted, ties).outlook
    return Collected(_shifted(lost, nan), note)


def _filling(profile: RowProfile, buffer: Buffer, need: int, ties: torch.Tensor) -> Filling:
    at = Threshold(-1, profile.k - need, ties.numel(), need)
    return Filling(lambda: Cut(ties, profile.scores, need), at, buffer, profile.k, profile.length)


def _shifted(seen: Outlook, more: int) -> Outlook:
    """An outlook with so many values lost under every order besides."""
    if not more:
        return seen
    return Outlook(seen.least + more, seen.most + more, 0.0, seen.expected + more)


def _padded(profile: RowProfile, path: Path, rules: Rules) -> bool:
    """Whether the threshold bin reaches down to -inf, where padding takes part."""
    assert path.key_bits is not None
    bin_ = profile.threshold(path.key_bits).bin
    return coarse_bin_lower_bound(bin_, path.key_bits, rules.bound) <= -FLT_MAX


def _outranked(profile: RowProfile, path: Path, rules: Rules, need: int, ties: torch.Tensor) -> Collected:
    """Padding of -FLT_MAX among the ties: idle lanes of the ranking, and cells past the end of a row in registers."""
    assert path.buffer is not None
    tail = rules.tail(path, profile.length)
    count = ties.numel() + tail
    note = "padding of -FLT_MAX outranks -inf (described, not observed)"
    ranks, room = path.buffer.ranks, path.buffer.slots(profile.k)
    if profile.nan or count > room or (ranks is not None and ties.numel() > ranks.capacity):
        return Collected(None, f"{note}; what more ties than fit, or NaN, do besides is not worked out")
    if count <= need:
        return Collected(NOTHING_LOST)
    keys, lowest = value_keys(profile.scores[ties]), value_keys(torch.tensor([-FLT_MAX, -torch.inf]))
    equal, infinite = (int((keys == key).sum()) for key in lowest)
    better = count - tail - equal - infinite
    if count > path.ranked_ties and tail and equal and better < need < better + equal + tail:
        return Collected(None, f"{note}; which of the scores and cells of -FLT_MAX are taken depends on their arrival")
    lost = min(max(0, need - better - equal), tail + rules.idle(count))
    return Collected(_shifted(NOTHING_LOST, lost), note if lost else "")
