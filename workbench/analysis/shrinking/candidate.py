"""A row on its way to a smaller one: the parts that its path sees, and how simple it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from workbench.analysis.profile import RowProfile
from workbench.numeric.histogram import HalfHistogram, half_histogram, locate
from workbench.numeric.keys import value_keys
from workbench.paths.models.bf16 import LOSSY_BITS
from workbench.paths.spec import Path, Variant

_PATTERNS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
_MANTISSA = 53  # bits of a double's significand
_INFINITE, _NAN, _ODD_NAN = 2, 2, 4  # complexity of an infinity, of the canonical NaN, and of another NaN


@dataclass(frozen=True)
class Subject:
    """What does not change while a row shrinks.

    Attributes:
        path, variant: on which the row shows a fault. dtype: of its scores. seed: of every choice among equals.
        binned: whether the fault lies in how the coarse bins are filled; else scores are parted by value.
    """

    path: Path
    variant: Variant
    dtype: str
    seed: int = 0
    binned: bool = True

    @property
    def bits(self) -> int | None:
        """Bits of the coarse key whose bins matter; ``None`` if none do."""
        if not self.binned:
            return None
        if self.variant.model == "bf16_approximate":
            return LOSSY_BITS
        return self.path.key_bits if self.dtype == "float32" else None


@dataclass(frozen=True, eq=False)
class Parts:
    """Positions of a row by what the path does with them, each int64 and ascending.

    Attributes:
        above: in higher bins than the threshold bin. winners, losers: its members, by whether they belong to an exact
            top-k (of equal scores a random choice does). below: in lower bins.
    """

    above: torch.Tensor
    winners: torch.Tensor
    losers: torch.Tensor
    below: torch.Tensor


class Candidate:
    """A row and its k.

    Args:
        subject: what it is held against. scores: [length], the valid scores, never written to. k: winners wanted.
    """

    def __init__(self, subject: Subject, scores: torch.Tensor, k: int) -> None:
        self.subject, self.scores, self.k = subject, scores, k

    @property
    def length(self) -> int:
        """Valid scores."""
        return self.scores.numel()

    @cached_property
    def profile(self) -> RowProfile:
        """The row's counts."""
        return RowProfile(self.scores, self.subject.dtype, self.k)

    @cached_property
    def parts(self) -> Parts:
        """The parts by the path's coarse key; without one the scores equal to the k-th best make up the bin."""
        members, above = self._members_and_above
        keys = value_keys(self.scores[members])
        # Of equal members any may be winners: the smaller positions would give the row an order along it.
        shuffled = torch.randperm(members.numel(), generator=torch.Generator().manual_seed(self.subject.seed))
        best = shuffled[torch.argsort(keys[shuffled], descending=True, stable=True)][: self.k - above.numel()]
        won = torch.zeros(members.numel(), dtype=torch.bool)
        won[best] = True
        rest = torch.ones(self.length, dtype=torch.bool)
        rest[members] = rest[above] = False
        return Parts(above, members[won], members[~won], torch.nonzero(rest).flatten())

    @property
    def _half(self) -> HalfHistogram:
        return self.profile.half if self.subject.dtype == "float32" else half_histogram(self.scores.float())

    @cached_property
    def _members_and_above(self) -> tuple[torch.Tensor, torch.Tensor]:
        bits = self.subject.bits
        if bits is not None:
            half = self._half
            bin_ = locate(half.bins(bits), self.k).bin
            return half.members(bin_, bits), half.above(bin_, bits)
        keys = value_keys(self.scores)
        cut = torch.topk(keys, min(self.k, self.length), sorted=False).values.min()
        return torch.nonzero(keys == cut).flatten(), torch.nonzero(keys > cut).flatten()

    @property
    def threshold_bin(self) -> int | None:
        """The threshold bin under the path's coarse key; ``None`` without one."""
        return None if self.subject.bits is None else locate(self._half.bins(self.subject.bits), self.k).bin

    @cached_property
    def distinct(self) -> torch.Tensor:
        """One score of every bit pattern in the row."""
        return distinct(self.scores)

    def simpler_than(self, other: Candidate) -> bool:
        """Whether it stands before another in the order of simplicity.

        Shorter rows stand first; among those smaller k; then fewer scores in the threshold bin and fewer above it
        (where no bin matters, fewer that differ from the most common one); then fewer distinct values and simpler ones.
        What is dear to count is counted only where the rest is equal.
        """
        mine, its = (self.length, self.k), (other.length, other.k)
        if mine != its:
            return mine < its
        mine, its = self._bin, other._bin
        if mine != its:
            return mine < its
        return self._values < other._values

    @property
    def size(self) -> tuple[int, ...]:
        """Its place in the order: length, k, population and above (or odd ones and 0), distinct values, complexity."""
        return (self.length, self.k, *self._bin, *self._values)

    @cached_property
    def common(self) -> torch.Tensor:
        """The score that most positions hold, [1]; of equally common ones that of the least bit pattern."""
        found, counts = np.unique(patterns(self.scores).numpy(), return_counts=True)
        return torch.from_numpy(found[counts.argmax()].reshape(1)).view(self.scores.dtype)

    @cached_property
    def odd(self) -> torch.Tensor:
        """Positions that hold another score than the most common one."""
        return torch.nonzero(patterns(self.scores) != patterns(self.common)).flatten()

    @cached_property
    def _bin(self) -> tuple[int, int]:
        if self.subject.bits is None:
            return self.odd.numel(), 0
        members, above = self._members_and_above
        return members.numel(), above.numel()

    @cached_property
    def _values(self) -> tuple[int, int]:
        return self.distinct.numel(), int(complexity(self.distinct).sum())

    def without(self, positions: torch.Tensor, k: int | None = None) -> Candidate:
        """The row with some scores deleted, the others in their order; ``k`` as it is where not given."""
        kept = torch.ones(self.length, dtype=torch.bool)
        kept[positions] = False
        return Candidate(self.subject, self.scores[kept], self.k if k is None else k)

    def with_values(self, *changes: tuple[torch.Tensor, float | torch.Tensor]) -> Candidate:
        """The row with other scores at some positions, given as (positions, one score or as many)."""
        scores = self.scores.clone()
        for positions, values in changes:
            scores[positions] = values if isinstance(values, float) else values.to(scores.dtype)
        return Candidate(self.subject, scores, self.k)

    def with_k(self, k: int) -> Candidate:
        """The row with another k."""
        return Candidate(self.subject, self.scores, k)


def patterns(scores: torch.Tensor) -> torch.Tensor:
    """Bit patterns of scores, int32 or int16: -0.0 is not 0.0, and every NaN is one of its own."""
    return scores.contiguous().view(_PATTERNS[scores.dtype])


def distinct(scores: torch.Tensor) -> torch.Tensor:
    """One score of every bit pattern, ascending by pattern as a signed integer."""
    return torch.from_numpy(np.unique(patterns(scores).numpy())).view(scores.dtype)


def complexity(values: torch.Tensor) -> np.ndarray:
    """How much there is to each score, int64: significant bits, distance of its exponent from that of 1, and a sign.

    0 is 0, 1 is 1, 2 and -1 are 2, 3 is 3. Infinities and NaN count as numbers with few bits.
    """
    numbers = values.to(torch.float64).numpy()
    fraction, exponent = np.frexp(np.abs(numbers))
    finite = np.isfinite(numbers)
    whole = np.ldexp(np.where(finite, fraction, 0), _MANTISSA).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1]  # place of the last bit set, from 1; 0 for zero
    found = np.where(whole == 0, 0, _MANTISSA + 1 - lowest + np.abs(exponent - 1))
    nan = np.isnan(numbers)
    canonical = (patterns(values) & ~_sign(values)) == patterns(torch.full((1,), torch.nan, dtype=values.dtype))
    found = np.where(nan, np.where(canonical.numpy(), _NAN, _ODD_NAN), np.where(finite, found, _INFINITE))
    return np.asarray(found + torch.signbit(values).numpy().astype(np.int64))


def _sign(values: torch.Tensor) -> int:
    return int(torch.iinfo(_PATTERNS[values.dtype]).min)
