"""What a selector returned, and what its inside saw on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from workbench.rendering import Rendered


@dataclass(frozen=True)
class Pass:
    """One refinement pass over the buffered candidates.

    Attributes:
        shift, bits: the digit of the exact 32-bit key, ``(key >> shift) & (2^bits - 1)``.
        seen: candidates the pass looked at. need: winners still wanted when it began.
        digit: the threshold digit. above: candidates with a higher digit, taken by this pass.
        kept: candidates with the threshold digit, which the next pass refines (or the last one cuts by arrival).
    """

    shift: int
    bits: int
    seen: int
    need: int
    digit: int
    above: int
    kept: int


@dataclass(frozen=True)
class Share:
    """What one block of a cluster did with its members of the threshold bin.

    Attributes:
        population: members that it saw. stored, dropped: how many of them the buffer took, and did not take.
    """

    population: int
    stored: int
    dropped: int


@dataclass(frozen=True)
class Cost:
    """What a selection cost.

    Attributes:
        row_passes: passes over the whole row. bytes_read: of scores, passes and gathers by index together.
        staged: candidates put into a buffer. fallback: what the selector gave its fast way up for; empty if it did not.
    """

    row_passes: int = 0
    bytes_read: int = 0
    staged: int = 0
    fallback: str = ""


@dataclass(frozen=True, eq=False)
class Telemetry:
    """The inside of one selection.

    Attributes:
        key_bits: bits of the coarse key, ``None`` without one. histogram: int64 [2^key_bits] populations.
        threshold_bin, above, population, need: of the threshold bin; ``None`` without a coarse key.
        capacity: buffer slots, ``None`` without a buffer.
        buffered: whether the threshold bin went through the buffer (a bin that is taken whole may bypass it).
        stored: members of the threshold bin that the buffer took.
        dropped: int64 indices of the members that it did not take, in arrival order.
        passes: the refinement passes, in order. cost: what it took.
        shares: of each block of a cluster, by rank; empty where one block has the buffer to itself.
    """

    key_bits: int | None = None
    histogram: torch.Tensor | None = None
    threshold_bin: int | None = None
    above: int | None = None
    population: int | None = None
    need: int | None = None
    capacity: int | None = None
    buffered: bool = False
    stored: int = 0
    dropped: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    passes: tuple[Pass, ...] = ()
    cost: Cost = Cost()
    shares: tuple[Share, ...] = ()


UNWRITTEN = -777  # what a model leaves in slots that the kernel never writes, as a poisoned output shows them


@dataclass(frozen=True, eq=False)
class Selection(Rendered):
    """The indices that a path, an op or the reference returned for one row.

    Attributes:
        indices: int32 [k], relative to the row's start; -1 marks an empty slot, ``UNWRITTEN`` one never written.
        telemetry: the selector's inside, where the engine can tell.
        returned: int32 [k], what the op returns where that is no positions; ``None`` elsewhere.
    """

    indices: torch.Tensor
    telemetry: Telemetry | None = None
    returned: torch.Tensor | None = None


def first_indices(count: int, k: int, device: torch.device) -> Selection:
    """The indices from 0 up to ``count``, at most k, -1 in the slots past them."""
    indices = torch.arange(k, dtype=torch.int32, device=device)
    return Selection(torch.where(indices < count, indices, -1))
