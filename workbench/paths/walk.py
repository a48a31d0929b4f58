"""The order in which the threads of a block reach the buffer as they walk the row: what real arrival looks like.

Three things are taken from the descriptions of the kernels: how many neighbouring scores a thread loads at once, how
many threads a block has, and which part of the row a block of a cluster walks. One load after the other, and within a
load one score after the other, every thread compares its score; the 32 lanes of a warp do so in one instruction, and
reach the buffer together. So the order is: rounds of loads, in a round the scores of a load, for each of these the
warps, in a warp the lanes.

In which order warps arrive no programming model promises. An H200 has four warp schedulers a multiprocessor, and every
fourth warp belongs to the same one. Each is taken to issue its youngest warp first, and the four to run at paces of
their own. That has nothing to fit, and tells within a few winners what released ops lost of single rows (docs/risk.md).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.paths.spec import Family, Path, Walk

WARP = 32
SCHEDULERS = 4  # of a multiprocessor; warp w belongs to scheduler w mod 4

# Where a path does not name its own.
WALKS: dict[Family, Walk] = {
    "identity": Walk(),
    "stash": Walk(load=1),
    "register": Walk(),
    "radix": Walk(),
    "own": Walk(),
}


def walk_of(path: Path) -> Walk:
    """How the blocks of a path walk a row; of a variant's own buffer if the path is given as that variant."""
    walk = path.walk or WALKS[path.family]
    return walk if path.buffer is None else replace(walk, ranks=path.buffer.ranks)


def walked(walk: Walk, length: int, seed: int) -> torch.Tensor:
    """The positions of a row in the order of their arrival, int64 [length].

    The blocks of a cluster bring what they collected one after the other: in their order where the buffer is filled in
    it, else the first block, which holds the buffer, and then the others by chance.

    Args:
        seed: of what chance decides: the paces of the schedulers, and that order of blocks.
    """
    chance = torch.Generator().manual_seed(seed)
    if walk.ranks is None:
        return _of_block(walk, length, chance)
    count, owners = walk.ranks.count, walk.ranks.owners(torch.arange(length), length)
    others = torch.arange(1, count) if walk.ranks.in_order else 1 + torch.randperm(count - 1, generator=chance)
    parts = [torch.nonzero(owners == rank).flatten() for rank in (0, *others.tolist())]
    return torch.cat([part[_of_block(walk, part.numel(), chance)] for part in parts])


def _of_block(walk: Walk, length: int, chance: torch.Generator) -> torch.Tensor:
    """The positions of one block's part in the order of their arrival."""
    warps, span = walk.threads // WARP, walk.threads * walk.load
    steps = -(-length // span) * walk.load
    paces = torch.rand(steps, warps // SCHEDULERS, SCHEDULERS, generator=chance, dtype=torch.float64)
    times = paces.sort(dim=1, descending=True).values.view(steps, warps) + torch.arange(steps)[:, None]
    arrived = torch.argsort(times.flatten())
    step, warp = arrived // warps, arrived % warps
    first = step // walk.load * span + warp * (WARP * walk.load) + step % walk.load
    positions = (first[:, None] + torch.arange(WARP) * walk.load).flatten()
    return positions[positions < length]
