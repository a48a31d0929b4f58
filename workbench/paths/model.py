"""Models of the selectors: the same algorithm as the kernels, on one row, under a given arrival order.

Every family reports the same telemetry. Threads are modelled by the order in which they reach the buffer; within that
order a model is deterministic, so that all of a selector's behaviours are the models over all arrival orders.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from workbench.errors import UsageError
from workbench.numeric.histogram import half_histogram, locate
from workbench.numeric.keys import ordered_keys
from workbench.paths.arrival import Arrival
from workbench.paths.selection import Pass, Selection, Telemetry
from workbench.paths.spec import Buffer, Path

KEY_BITS = 32


def run_model(path: Path, scores: torch.Tensor, k: int, arrival: Arrival, variant: str = "stock") -> Selection:
    """Run one path's model.

    Args:
        path: its spec. scores: float32 [length], the valid scores; length must be at least 1.
        k: winners wanted. arrival: the order in which scores reach the buffer.
        variant: a variant of the path that is modelled.

    Raises:
        UsageError: the path or the variant has no model.
    """
    model = _MODELS.get(path.family)
    if model is None or not path.variant(variant).modelled:
        raise UsageError(f"{path.name} {variant} has no model yet")
    indices, telemetry = model(path, scores, k, arrival)
    out = torch.full((k,), -1, dtype=torch.int32, device=scores.device)
    out[: indices.numel()] = indices.to(torch.int32)
    return Selection(out, telemetry)


def _identity(path: Path, scores: torch.Tensor, k: int, arrival: Arrival) -> tuple[torch.Tensor, Telemetry]:
    return torch.arange(scores.numel(), device=scores.device), Telemetry()


def _stash(path: Path, scores: torch.Tensor, k: int, arrival: Arrival) -> tuple[torch.Tensor, Telemetry]:
    return _buffered(path, scores, k, arrival, refine)


def _register(path: Path, scores: torch.Tensor, k: int, arrival: Arrival) -> tuple[torch.Tensor, Telemetry]:
    """Few buffered ties are ranked by (value, smaller index); more go through the exact digits."""

    def rank(path: Path, scores: torch.Tensor, stored: torch.Tensor, need: int) -> tuple[torch.Tensor, list[Pass]]:
        if stored.numel() > path.ranked_ties:
            return refine(path, scores, stored, need)
        by_index = stored.sort().values
        order = torch.sort(ordered_keys(scores[by_index]), descending=True, stable=True).indices
        return by_index[order][:need], []

    return _buffered(path, scores, k, arrival, rank)


_Cut = Callable[[Path, torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, list[Pass]]]


def _buffered(path: Path, scores: torch.Tensor, k: int, arrival: Arrival, cut: _Cut) -> tuple[torch.Tensor, Telemetry]:
    """Coarse histogram; higher bins to the output; the threshold bin into the buffer, first come, then ``cut``."""
    assert path.key_bits is not None
    assert path.buffer is not None
    row, length = half_histogram(scores), scores.numel()
    bins = row.bins(path.key_bits)
    at = locate(bins, k)
    capacity = path.buffer.slots(k)
    above = arrival.sort(row.above(at.bin, path.key_bits), length)
    members = arrival.sort(row.members(at.bin, path.key_bits), length)
    buffered = path.buffer.whole_bin or at.need < at.population
    stored = _stored(path.buffer, members, length, k) if buffered else members
    passes: list[Pass] = []
    if stored.numel() > at.need:
        taken, passes = cut(path, scores, stored, at.need)
    else:
        taken = stored
    telemetry = Telemetry(
        key_bits=path.key_bits,
        histogram=bins,
        threshold_bin=at.bin,
        above=at.above,
        population=at.population,
        need=at.need,
        capacity=capacity,
        buffered=buffered,
        stored=stored.numel(),
        dropped=members[~torch.isin(members, stored)],
        passes=tuple(passes),
    )
    return torch.cat([above, taken]), telemetry


def _stored(buffer: Buffer, members: torch.Tensor, length: int, k: int) -> torch.Tensor:
    """The members that the buffer takes, of those in arrival order."""
    room = buffer.slots(k)
    if buffer.ranks is None:
        return members[:room]
    owners = buffer.ranks.owners(members, length)
    places = [torch.nonzero(owners == rank).flatten() for rank in range(buffer.ranks.count)]
    shares = buffer.shares([place.numel() for place in places], k)
    stored = torch.cat([place[:share] for place, share in zip(places, shares, strict=True)])
    return members[stored if buffer.ranks.in_order else stored.sort().values[:room]]


def _radix(path: Path, scores: torch.Tensor, k: int, arrival: Arrival) -> tuple[torch.Tensor, Telemetry]:
    everything = arrival.sort(torch.arange(scores.numel(), device=scores.device), scores.numel())
    taken, passes = refine(path, scores, everything, k)
    return taken, Telemetry(passes=tuple(passes))


def refine(path: Path, scores: torch.Tensor, stored: torch.Tensor, need: int) -> tuple[torch.Tensor, list[Pass]]:
    """The ``need`` best of the candidates by exact digits; candidates equal in all digits are taken first come.

    Args:
        stored: candidate indices in arrival order, more than ``need``.
    """
    keys = ordered_keys(scores[stored])
    taken, passes, shift = [], [], KEY_BITS
    for bits in path.digits:
        shift -= bits
        digits = (keys >> shift) & ((1 << bits) - 1)
        at = locate(torch.bincount(digits, minlength=1 << bits), need)
        higher, equal = digits > at.bin, digits == at.bin
        taken.append(stored[higher])
        passes.append(Pass(shift, bits, stored.numel(), need, at.bin, at.above, at.population))
        stored, keys, need = stored[equal], keys[equal], at.need
        if need == stored.numel():
            break  # the digit's members are all winners: nothing left to tell apart
    taken.append(stored[:need])
    return torch.cat(taken), passes


_MODELS: dict[str, Callable[[Path, torch.Tensor, int, Arrival], tuple[torch.Tensor, Telemetry]]] = {
    "identity": _identity,
    "stash": _stash,
    "register": _register,
    "radix": _radix,
}
