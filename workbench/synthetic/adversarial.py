"""Rows that fill a path's candidate buffer to the last slot, or past it by as many scores as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from workbench.arguments import check_fields
from workbench.capture.row import Call, Row
from workbench.errors import UsageError
from workbench.paths.spec import Path
from workbench.synthetic.distributions import ONE, as_rows, check_counts
from workbench.synthetic.streams import Stream, between, floats, stream
from workbench.words import listed

Positions = Literal["scattered", "clustered"]
Values = Literal["shuffled", "forward", "reversed"]

CUT_BYTES = (24, 16, 8, 0)
FILLER = (-4.0, -3.5)  # below every score of the bin, in bins of their own
ABOVE = (8.0, 9.0)
USUAL_K = 2048
ROOM = 1 << 16  # distinct patterns right of 1.0 that share its bin under every key of 8 to 12 bits

# By the byte that decides: the pattern with the byte and all below it clear, and the lower of the two bytes that are
# taken. Only the bin of +inf is wide enough for the two highest.
_BASES = {24: (0x00000000, 0x50), 16: (0x50000000, 0x10), 8: (ONE, 0x10), 0: (ONE + 0x1000, 0x10)}


@dataclass(frozen=True)
class Recipe:
    """What an adversarial row is to be.

    Attributes:
        population: scores in the threshold bin; ``None`` for one more than the buffer holds.
        above: scores in higher bins, below k; ``None`` for as few as leave the cut-off in the bin.
        cut_byte: 24, 16, 8 or 0: the byte of the exact key (by the bit it starts at) that alone parts winners from
            losers of the bin; ``None`` for distinct neighbours of 1.0, parted by the lowest bytes.
        positions: of the bin's members in the row: ``scattered`` or ``clustered`` (consecutive).
        values: of the members along the row: ``shuffled``, ``forward`` (ascending) or ``reversed``.

    Raises:
        UsageError: a word or number that it cannot be.
    """

    population: int | None = None
    above: int | None = None
    cut_byte: int | None = None
    positions: Positions = "scattered"
    values: Values = "shuffled"

    def __post_init__(self) -> None:
        check_fields(self)
        for name, known in (("positions", get_args(Positions)), ("values", get_args(Values))):
            if getattr(self, name) not in known:
                raise UsageError(f"unknown {name} {getattr(self, name)!r}; known: {listed(known)}")
        if self.cut_byte is not None and self.cut_byte not in CUT_BYTES:
            raise UsageError(f"unknown cut byte {self.cut_byte!r}; known: {listed(CUT_BYTES)}")


def room(path: Path, k: int, *, clustered: bool = False) -> int:
    """How many scores of one bin a path's buffer holds; of clustered ones, what one block of a cluster stores.

    Raises:
        UsageError: the path has no buffer that could overflow.
    """
    if path.buffer is None or path.key_bits is None:
        raise UsageError(f"{path.name} buffers no coarse bin, so that no population can breach it")
    ranks = path.buffer.ranks
    slots = path.buffer.slots(k)
    if ranks is None or ranks.layout != "contiguous" or not clustered:
        return slots
    return min(slots, ranks.capacity)


def usual_k(path: Path) -> int:
    """The greatest k that a path takes, at most 2048."""
    if path.ks is not None:
        return max(path.ks)
    return min(USUAL_K, path.k_up_to or USUAL_K)


def make_adversarial(
    path: Path,
    recipe: Recipe | None = None,
    *,
    k: int | None = None,
    length: int | None = None,
    rows: int = 1,
    seed: int = 0,
    call: Call | None = None,
) -> list[Row]:
    """Rows whose threshold bin on a path has a chosen population.

    Args:
        path: as the variant has it. recipe: one more than the buffer holds, scattered, by default.
        k: winners wanted; by default the greatest that the path takes, at most 2048.
        length: scores a row; by default the least that the path takes and the bin fits in twice.
        rows, seed, call: as for ``make_rows``.

    Raises:
        UsageError: the path has no buffer, does not take such a row, or the bin cannot have such scores.
    """
    recipe = recipe or Recipe()
    k = usual_k(path) if k is None else k
    population = recipe.population
    if population is None:
        population = room(path, k, clustered=recipe.positions == "clustered") + 1
    above = max(0, k - population) if recipe.above is None else recipe.above
    shortest = max(_least_length(path, k), population + above)
    if length is None:
        length = max(_least_length(path, k), 2 * (population + above), k)
        length = length if path.up_to is None or path.up_to == "k" else max(shortest, min(length, path.up_to))
    check_counts(length, k, rows)
    if population < 1 or not 0 <= above < k:
        raise UsageError(f"population {population} and above {above}: at least 1, and from 0 to k - 1 = {k - 1}")
    if above + population < k:
        raise UsageError(f"population {population} and {above} above are fewer than k {k}: the cut-off lies elsewhere")
    if above + population > length:
        raise UsageError(f"population {population} and {above} above do not fit in length {length}")
    unmet = path.unmet(k=k, length=length, dtype="float32")
    if unmet:
        raise UsageError(f"{path.name} does not take such a row: {listed(unmet)}")
    if above and recipe.cut_byte in (24, 16):
        raise UsageError(
            f"cut byte {recipe.cut_byte} needs the bin of +inf, and no score lies above it: "
            f"ask for none above and a population of k {k} or more"
        )
    made = (_row(stream(seed, row), path, recipe, length, k, population, above) for row in range(rows))
    return as_rows(made, k, rows, call)


def _least_length(path: Path, k: int) -> int:
    return k + 1 if path.longer_than == "k" else 1 + (path.longer_than or 0)


def _row(random: Stream, path: Path, recipe: Recipe, length: int, k: int, population: int, above: int) -> np.ndarray:
    row = between(random, *FILLER, length)
    if recipe.positions == "clustered":
        start = _start(random, path, length, population + above)
        places = np.arange(start, start + population + above)
        at, higher = places[:population], places[population:]
    else:
        places = random.permutation(length)[: population + above]
        at, higher = np.sort(places[:population]), places[population:]
    row[at] = _arranged(random, recipe, _members(random, recipe, population, k - above))
    row[higher] = between(random, *ABOVE, above)
    return row


def _start(random: Stream, path: Path, length: int, count: int) -> int:
    """Where a cluster of scores begins: anywhere, or where a block's slice does, so that one block sees it."""
    last, ranks = length - count, path.buffer.ranks if path.buffer is not None else None
    if ranks is None or ranks.layout != "contiguous":
        return int(random.randint(0, last + 1))
    size = ranks.slice_of(length)
    return size * int(random.randint(0, min(ranks.count - 1, last // size) + 1))


def _members(random: Stream, recipe: Recipe, population: int, need: int) -> np.ndarray:
    """Scores of one coarse bin under every key of 8 to 12 bits, the ``need`` best of them last in order."""
    if recipe.cut_byte is None:
        return floats(ONE + 1 + np.arange(population) % (ROOM - 1))
    base, low = _BASES[recipe.cut_byte]
    bytes_ = np.where(np.arange(population) < population - need, low, low + 1)
    below = random.randint(0, 1 << recipe.cut_byte, population) if recipe.cut_byte else 0
    return floats(base + (bytes_ << recipe.cut_byte) + below)


def _arranged(random: Stream, recipe: Recipe, members: np.ndarray) -> np.ndarray:
    if recipe.values == "shuffled":
        return random.permutation(members)
    ascending = np.sort(members)
    return ascending if recipe.values == "forward" else ascending[::-1]
