"""A row on which it matters whether scores arrive one by one or warp by warp."""

from __future__ import annotations

import torch

import workbench as wb

POPULATION = 3760  # of the threshold bin; ``vllm.histogram_2048`` takes 3708


def crowded_warp(winners: int = 128, **call: object) -> wb.Row:
    """A row of ``vllm.histogram_2048`` whose best members of the threshold bin, 128 of them, fill four warps.

    One by one, all of them arrive in time once in six random orders; as four warps they do nine times in ten. Scores do
    not follow their position.
    """
    generator = torch.Generator().manual_seed(0)
    scores = torch.full((8000,), -1.0)
    best = torch.arange(4000, 4000 + winners)
    rest = torch.randperm(8000, generator=generator)
    rest = rest[(rest < 4000) | (rest >= 4000 + winners)]
    members, above = rest[: POPULATION - winners], rest[POPULATION - winners :][: 512 - winners]
    scores[members] = 1 + 0.01 * torch.rand(members.numel(), generator=generator)
    scores[best] = 1.02 + 0.001 * torch.rand(winners, generator=generator)
    scores[above] = 2 + torch.rand(512 - winners, generator=generator)
    return wb.Row(scores, 8000, call=wb.Call(k=512, **call))  # type: ignore[arg-type]


def routed_warp(release: str | None = "vllm==0.26.0") -> wb.Row:
    """The same row in a call of ``vllm.persistent_topk`` on an H200: on ``vllm.histogram_2048`` up to 0.32.0."""
    return crowded_warp(
        rows=1, width=8000, stride=8000, max_seq_len=8000, op="vllm.persistent_topk", device="h200", release=release
    )
