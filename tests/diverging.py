"""A small captured run, and faults injected at one step and layer of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

import workbench as wb

STEPS, LAYERS, K, LENGTH = 4, 3, 8, 64
TIED = (5, 7, 9)  # indices of three scores that tie at the cut, of which the reference takes the first two
Change = Callable[[wb.Row], wb.Row]


def scores_of(step: int, layer: int) -> torch.Tensor:
    """Distinct scores, but for three that tie at the cut."""
    scores = torch.randperm(LENGTH + step, generator=torch.Generator().manual_seed(10 * step + layer)).float()
    scores[list(TIED)] = 1000.0
    rest = [at for at in range(LENGTH + step) if at not in TIED]
    scores[rest[: K - 2]] += 2000.0  # six clear winners; the tie fills the other two places
    return scores


def make_row(at_step: int, at_layer: int, **call: object) -> wb.Row:
    """A row whose call says its step and layer, or what is given instead."""
    scores = scores_of(at_step, at_layer)
    known = {"index": at_step * LAYERS + at_layer, "k": K, "step": at_step, "layer": at_layer}
    row = wb.Row(scores, scores.numel(), call=wb.Call(**{**known, **call}))
    return replace(row, indices=wb.reference(row).indices)


def make_run(at: tuple[int, int] | None = None, change: Change | None = None, **call: object) -> list[wb.Row]:
    """The rows of a run in its order, one of them changed."""
    places = [(step, layer) for step in range(STEPS) for layer in range(LAYERS)]
    rows = [make_row(*place, **call) for place in places]
    if change is None:
        return rows
    return [change(row) if place == at else row for place, row in zip(places, rows, strict=True)]


def one_ulp(row: wb.Row) -> wb.Row:
    scores = row.scores.clone()
    scores[20] = torch.nextafter(scores[20], torch.tensor(torch.inf))
    return replace(row, scores=scores)


def with_indices(row: wb.Row, change: Callable[[list[int]], list[int]]) -> wb.Row:
    assert row.indices is not None
    return replace(row, indices=torch.tensor(change(row.indices.tolist()), dtype=torch.int32))


def lossy(row: wb.Row) -> wb.Row:
    """The best winner is lost to the last index."""
    return with_indices(row, lambda held: [row.length - 1, *held[1:]])


def other_tie(row: wb.Row) -> wb.Row:
    return with_indices(row, lambda held: [TIED[2] if index == TIED[1] else index for index in held])


def other_order(row: wb.Row) -> wb.Row:
    return with_indices(row, lambda held: held[::-1])


def unrecorded(row: wb.Row) -> wb.Row:
    return replace(row, indices=None)


def capture(rows: list[wb.Row], name: str, tokens: list[wb.Token] | None = None) -> wb.Capture:
    return wb.Capture.from_rows(rows, name, tokens or [])
