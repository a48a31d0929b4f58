"""The data that describes a path: models, routing, risk, docs and the capacity lines of the figures follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from workbench.errors import UsageError
from workbench.rendering import Rendered
from workbench.words import listed

if TYPE_CHECKING:
    import torch


class Determinism(Enum):
    """What repeated calls on one input promise for the *set* of winners (CUB's levels)."""

    NOT_GUARANTEED = "not_guaranteed"
    RUN_TO_RUN = "run_to_run"
    GPU_TO_GPU = "gpu_to_gpu"


class TieBreak(Enum):
    """Which of equal scores at the cut are taken."""

    UNSPECIFIED = "unspecified"
    PREFER_SMALLER_INDEX = "prefer_smaller_index"
    PREFER_LARGER_INDEX = "prefer_larger_index"


class OutputOrdering(Enum):
    """In which sequence the winners are returned."""

    UNSORTED = "unsorted"
    SORTED = "sorted"
    STABLE_SORTED = "stable_sorted"


class Evidence(Enum):
    """What a description rests on."""

    OBSERVED = "observed on released ops"
    READ = "read in the source, not observed"
    REPORTED = "taken from public reports"


@dataclass(frozen=True)
class Contract:
    """What a path promises, in CUB's words, and what it does with NaN."""

    determinism: Determinism = Determinism.NOT_GUARANTEED
    tie_break: TieBreak = TieBreak.UNSPECIFIED
    output_ordering: OutputOrdering = OutputOrdering.UNSORTED
    nan: str = ""


def _divided(indices: torch.Tensor, by: int) -> torch.Tensor:
    """Quotients, rounded down; those by a power of two are had for a tenth."""
    return indices >> (by.bit_length() - 1) if by & (by - 1) == 0 else indices // by


@dataclass(frozen=True)
class Ranks:
    """How the blocks of a cluster share one row: each is a rank that sees its own part of the threshold bin.

    Attributes:
        count: blocks of the cluster.
        capacity: members that one rank stores; what it cannot store is dropped there.
        layout: ``contiguous`` slices of the row, or ``interleaved`` runs dealt out in turn.
        unit: scores that are never parted: slices are rounded up to it, runs have this length.
        in_order: whether the whole buffer is filled in the order of the ranks, else as they arrive.
    """

    count: int
    capacity: int
    layout: Literal["contiguous", "interleaved"]
    unit: int
    in_order: bool

    def owners(self, indices: torch.Tensor, length: int) -> torch.Tensor:
        """The rank that each position of a row belongs to, int64 in [0, count)."""
        if self.layout == "interleaved":
            return _divided(indices, self.unit) % self.count
        return _divided(indices, self.slice_of(length))

    def slice_of(self, length: int) -> int:
        """How many scores of a row of ``length`` the first rank holds when each has one slice."""
        return -(-length // (self.unit * self.count)) * self.unit


@dataclass(frozen=True)
class Walk:
    """How the threads of a block walk a row, which decides when each score reaches the buffer.

    Attributes:
        load: neighbouring scores that a thread loads at once: 1, 2 or 4. The threads of a block load side by side, then
            go on together by the whole block's span.
        threads: of a block. ranks: the blocks of a cluster, each of which walks its own part; ``None`` for one block.

    Raises:
        UsageError: no such load, or threads that are no whole warps on each of four schedulers.
    """

    load: Literal[1, 2, 4] = 4
    threads: int = 1024
    ranks: Ranks | None = None

    def __post_init__(self) -> None:
        if self.load not in (1, 2, 4) or self.threads < 1 or self.threads % 128:
            raise UsageError(f"no walk: {self.threads} threads (a multiple of 128), loads of {self.load} (1, 2 or 4)")


@dataclass(frozen=True)
class Buffer:
    """The fixed on-chip memory that holds the members of the threshold bin.

    Attributes:
        capacity: how many members it holds in all; ``"k"`` where it holds as many as winners are asked for,
            ``"max(k, 1024)"`` where it never holds fewer than 1024.
        whole_bin: whether members pass through the buffer even when all of them are winners. Paths that test
            ``count > k`` first send such a bin straight to the output, so that nothing can be dropped.
        ranks: the blocks that fill it; ``None`` for one block.
        leaves_unwritten: whether slots stay unwritten where fewer members are stored than are needed.
    """

    capacity: int | Literal["k", "max(k, 1024)"]
    whole_bin: bool = False
    ranks: Ranks | None = None
    leaves_unwritten: bool = False

    def slots(self, k: int) -> int:
        """Capacity in scores for a call with this k."""
        if isinstance(self.capacity, int):
            return self.capacity
        return k if self.capacity == "k" else max(k, 1024)

    def shares(self, members: list[int], k: int) -> list[int]:
        """How many members each rank contributes, before the whole buffer takes those that it has room for.

        Args:
            members: of the threshold bin, by rank (one entry without ranks).
        """
        if self.ranks is None:
            return members
        stored = [min(count, self.ranks.capacity) for count in members]
        if not self.ranks.in_order:
            return stored
        room, shares = self.slots(k), []
        for count in stored:
            shares.append(min(count, room))
            room -= shares[-1]
        return shares


@dataclass(frozen=True)
class Variant:
    """A version of a path: ``stock`` as released with its fault, or a named repair.

    Attributes:
        lossless: whether it returns the k best of every row without NaN.
        modelled: whether the ``model`` engine can run it.
        evidence: what the description rests on. note: one sentence.
        model: the model that runs it, where it is not the family's own.
        buffer, contract, up_to: its own, where they are not the path's. references: public threads.
        order_free: whether what it loses, on any row and NaN included, does not depend on the arrival order.
    """

    name: str
    lossless: bool
    modelled: bool
    evidence: Evidence
    note: str
    model: str = ""
    buffer: Buffer | None = None
    contract: Contract | None = None
    up_to: int | None = None
    references: tuple[str, ...] = ()
    order_free: bool = False


Family = Literal["identity", "stash", "register", "radix", "own"]


@dataclass(frozen=True)
class Path(Rendered):
    """One selection algorithm behind an op.

    Attributes:
        name: as in ``vllm.histogram_256``. summary: one sentence.
        family: the shared model. ``identity`` takes every score of a row no longer than k; ``stash`` buffers the
            threshold bin's indices and refines them by exact bytes; ``register`` keeps the row in registers and buffers
            ties; ``radix`` compares exact keys only; ``own`` shares no model: its variants name theirs.
        source: upstream file and function. releases: where it is found, in words. references: public threads.
        key_bits: bits of the coarse key; ``None`` without one. buffer: its candidate buffer; ``None`` without one.
        digits: bits of each exact refinement digit, from the top.
        ks: the k it takes; ``None`` for any. k_up_to: the greatest k; ``None`` for no bound.
        longer_than, up_to: a row's length must be above the one and not above the other; ``"k"`` for the call's k,
            ``None`` for no bound.
        dtypes: score dtypes it takes.
        row_passes: passes over the row that the stock path makes.
        arrival_unit: how many consecutive scores a random arrival order keeps together.
        walk: how its threads walk the row, where it is not the family's way (``workbench.paths.walk``).
        ranked_ties: up to how many buffered members are ranked by (value, smaller index) instead of by arrival.
        contract, variants, evidence.
        unreached: why no op of a known release takes it; empty where one does.
    """

    name: str
    summary: str
    family: Family
    source: str
    releases: str
    references: tuple[str, ...] = ()
    key_bits: int | None = None
    buffer: Buffer | None = None
    digits: tuple[int, ...] = ()
    ks: tuple[int, ...] | None = None
    k_up_to: int | None = None
    longer_than: int | Literal["k"] | None = None
    up_to: int | Literal["k"] | None = None
    dtypes: tuple[str, ...] = ("float32",)
    row_passes: int = 1
    arrival_unit: Literal["element", "warp"] = "element"
    walk: Walk | None = None
    ranked_ties: int = 0
    contract: Contract = Contract()
    variants: tuple[Variant, ...] = ()
    evidence: Evidence = Evidence.OBSERVED
    unreached: str = ""

    @property
    def system(self) -> str:
        """The serving engine the path belongs to."""
        return self.name.split(".", 1)[0]

    def variant(self, name: str) -> Variant:
        """The variant of that name; KeyError if the path has none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    @property
    def ks_in_words(self) -> str:
        """The k that the path takes: ``any``, the few of them, or the greatest."""
        if self.ks is not None:
            return ", ".join(map(str, self.ks))
        return "any" if self.k_up_to is None else f"up to {self.k_up_to}"

    @property
    def lengths_in_words(self) -> str:
        """The row lengths that the path takes, as in ``> 8192, ≤ 32768``; ``any`` without bounds."""
        above = None if self.longer_than is None else f"> {self.longer_than}"
        up_to = None if self.up_to is None else f"≤ {self.up_to}"
        return ", ".join(part for part in (above, up_to) if part) or "any"

    def capacity_of(self, variant: Variant | None = None) -> int | str | None:
        """The capacity that is shown of a path: how many candidates the buffer of a variant holds.

        Args:
            variant: of the path; the first, as released, by default.

        Returns:
            A number, or ``"k"`` or ``"max(k, 1024)"`` where the call's k sets it; ``None`` without a buffer, ``"?"``
            where what the variant does inside is not established.
        """
        variant = variant or self.variants[0]
        if not (variant.modelled or variant.model):
            return "?"
        buffer = self.as_variant(variant).buffer
        return None if buffer is None else buffer.capacity

    def as_variant(self, variant: Variant) -> Path:
        """The path with the buffer and the bound on length of one of its variants."""
        if variant.buffer is None and variant.up_to is None:
            return self
        up_to = self.up_to if variant.up_to is None else variant.up_to
        return replace(self, buffer=variant.buffer or self.buffer, up_to=up_to)

    def unmet(self, *, k: int, length: int | None, dtype: str) -> list[str]:
        """Every condition of the path that a row does not meet, in words; empty if it takes the row.

        Args:
            length: of the row; ``None`` leaves it aside.
        """
        reasons = []
        if dtype not in self.dtypes:
            reasons.append(f"scores are {dtype}, the path takes {listed(self.dtypes, 'or')}")
        if self.ks is not None and k not in self.ks:
            reasons.append(f"k is {k}, the path takes {listed(self.ks, 'or')}")
        if self.k_up_to is not None and k > self.k_up_to:
            reasons.append(f"k is {k}, the path takes at most {self.k_up_to}")
        if length is None:
            return reasons
        low = k if self.longer_than == "k" else self.longer_than
        high = k if self.up_to == "k" else self.up_to
        if low is not None and length <= low:
            reasons.append(f"length {length} is not above {low}" + (" (k)" if self.longer_than == "k" else ""))
        if high is not None and length > high:
            reasons.append(f"length {length} is above {high}" + (" (k)" if self.up_to == "k" else ""))
        return reasons

    def scaled(
        self, capacity: int, rank_capacity: int | None = None, rank_unit: int | None = None, variants: bool = False
    ) -> Path:
        """The same algorithm with other capacities and no bounds on k and length, small enough to enumerate.

        A path without a buffer loses its bounds only; one for rows no longer than k stays as it is.

        Args:
            capacity: of the whole buffer. rank_capacity, rank_unit: of each rank, for a cluster. All at least 1.
            variants: whether the buffers of its variants are scaled as well.

        Raises:
            UsageError: a number that is no integer of 1 or more.
        """
        for number in (capacity, rank_capacity, rank_unit):
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
                raise UsageError(f"{number!r} is no capacity; an integer of 1 or more is needed")
        if self.family == "identity":
            return self
        own = tuple(replace(one, up_to=None) for one in self.variants)
        free = replace(self, ks=None, k_up_to=None, longer_than="k", up_to=None, variants=own)

        def small(buffer: Buffer) -> Buffer:
            ranks = buffer.ranks
            if ranks is not None:
                ranks = replace(ranks, capacity=rank_capacity or ranks.capacity, unit=rank_unit or ranks.unit)
            return replace(buffer, capacity=capacity, ranks=ranks)

        if variants:
            own = tuple(replace(one, buffer=small(one.buffer)) if one.buffer else one for one in own)
        return replace(free, buffer=self.buffer and small(self.buffer), variants=own)
