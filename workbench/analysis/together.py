"""How seldom a random order of warps loses nothing: the risk's ``p_clean`` is of scores that arrive one by one.

Where scores arrive warp by warp there is no such formula. Random orders of the row's warps are counted instead, and
what was counted bounds the chance. A warp brings all its members of the threshold bin at once, in the order of its
lanes: only how many each brings has to be looked at, and no model is run.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch

from workbench.analysis.profile import Cut, RowProfile
from workbench.paths.arrival import random_ranks
from workbench.paths.spec import Path
from workbench.paths.walk import WARP

SEEDS, DOUBT = 256, 1e-3  # random orders that a chance is counted over; how likely it is to be more


def clean_at_most(profile: RowProfile, path: Path, p_clean: float) -> float:
    """At most so likely does a random order of a row's warps lose nothing, nor less than ``p_clean``; 1 where the
    buffer is no single one, of which nothing is worked out.

    Args:
        profile: of a row that is at risk, since it breaches the path's buffer. path: whose scores arrive warp by warp.
    """
    if path.key_bits is None or path.buffer is None or path.buffer.ranks is not None:
        return 1.0
    clean = clean_orders(profile.cut(path.key_bits), path.buffer.slots(profile.k), profile.length)
    return max(p_clean, chance_at_most(clean, SEEDS))


def clean_orders(cut: Cut, capacity: int, length: int) -> int:
    """How many of ``SEEDS`` random orders of a row's warps, those of seeds from 0, lose nothing.

    Args:
        cut: of the threshold bin. capacity: members of it that the buffer takes, the first to arrive.
        length: of the row.
    """
    order = _orders(-(-length // WARP)).to(cut.members.device)
    held = torch.bincount(cut.members // WARP, minlength=order.shape[1])
    first = (held.cumsum(0) - held)[order]  # the place of each warp's first member among all
    brings = held[order]
    room = (capacity - (brings.cumsum(1) - brings)).clamp(min=0)
    end = first + torch.minimum(brings, room)

    def kept(which: torch.Tensor) -> torch.Tensor:
        before = torch.nn.functional.pad(which.cumsum(0), (1, 0))
        return (before[end] - before[first]).sum(1)

    clean = (kept(cut.keys > cut.cut) == cut.better) & (kept(cut.keys == cut.cut) >= cut.equal_need)
    return int(clean.sum())


@lru_cache(maxsize=8)
def _orders(warps: int) -> torch.Tensor:
    """So many warps as they arrive in each random order, int64 [SEEDS, warps]."""
    return torch.stack([random_ranks(warps, seed) for seed in range(SEEDS)]).argsort(1)


@lru_cache(maxsize=2 * SEEDS)
def chance_at_most(seen: int, tried: int) -> float:
    """The chance under which as few events as were seen, of so many tries, have a probability of ``DOUBT``.

    Clopper and Pearson's one-sided bound (Biometrika 26, 1934); 1 where every try was one.
    """
    if seen == tried:
        return 1.0
    least, most = seen / tried, 1.0
    for _ in range(50):
        chance = (least + most) / 2
        few = sum(math.comb(tried, one) * chance**one * (1 - chance) ** (tried - one) for one in range(seen + 1))
        least, most = (chance, most) if few > DOUBT else (least, chance)
    return most
