"""A row on which it matters whether scores arrive one by one or warp by warp."""

from __future__ import annotations

import torch

import workbench as wb

POPULATION = 3760  # of the threshold bin; ``vllm.histogram_2048`` takes 3708


def crowded_warp(**call: object) -> wb.Row:
    """A row of ``vllm.histogram_2048`` whose 128 best members of the threshold bin fill four warps.

    One by one, all of them arrive in time once in six random orders; as four warps they do nine times in ten. Scores do
    not follow their position.
    """
    generator = torch.Generator().manual_seed(0)
    scores = torch.full((8000,), -1.0)
    best = torch.arange(4000, 4128)
    rest = torch.randperm(8000, generator=generator)
    rest = rest[(rest < 4000) | (rest >= 4128)]
    members, above = rest[: POPULATION - 128], rest[POPULATION - 128 :][:384]
    scores[members] = 1 + 0.01 * torch.rand(members.numel(), generator=generator)
    scores[best] = 1.02 + 0.001 * torch.rand(128, generator=generator)
    scores[above] = 2 + torch.rand(384, generator=generator)
    return wb.Row(scores, 8000, call=wb.Call(k=512, **call))  # type: ignore[arg-type]
