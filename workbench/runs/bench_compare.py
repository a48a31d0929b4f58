"""Two benchmarks held against each other, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.analysis.samples import Ratio, ratio
from workbench.runs.bench import Bench, BenchCell
from workbench.runs.bench_grid import Cache, Contender, Shape

Key = tuple[Shape, Cache, Contender]


@dataclass(frozen=True)
class Pair:
    """The same cell of two benchmarks. ``ratio`` is the second one's time over the first one's, where both were
    measured."""

    first: BenchCell
    second: BenchCell
    ratio: Ratio | None

    @property
    def is_worse(self) -> bool:
        """Whether the second has a wrong selection or a fault, and the first has none."""
        return self.second.is_wrong and not self.first.is_wrong


@dataclass(frozen=True)
class Comparison:
    """Two benchmarks.

    Attributes:
        pairs: cells of both, in the order of the first. only_first, only_second: cells of one.
        differing: what the two differ in besides, by name: the first one's and the second one's.
    """

    pairs: tuple[Pair, ...]
    only_first: tuple[BenchCell, ...]
    only_second: tuple[BenchCell, ...]
    differing: dict[str, tuple[str, str]]

    @property
    def worse(self) -> int:
        """Pairs in which the second one alone is wrong."""
        return sum(pair.is_worse for pair in self.pairs)


def compare(first: Bench, second: Bench) -> Comparison:
    """Match the cells of two benchmarks by shape, state of the cache, engine, op and release."""
    left, right = _by_key(first), _by_key(second)
    return Comparison(
        tuple(Pair(one, right[key], _ratio(one, right[key])) for key, one in left.items() if key in right),
        tuple(one for key, one in left.items() if key not in right),
        tuple(one for key, one in right.items() if key not in left),
        _differing(_facts(first), _facts(second)),
    )


def _by_key(bench: Bench) -> dict[Key, BenchCell]:
    return {(cell.shape, cell.l2, cell.contender): cell for cell in bench.cells}


def _ratio(first: BenchCell, second: BenchCell) -> Ratio | None:
    if first.spread is None or second.spread is None:
        return None
    return ratio(second.spread, first.spread)


def _facts(bench: Bench) -> dict[str, str]:
    """What must be the same for times to be compared, and which libraries ran."""
    plan = bench.plan
    return {
        "machine": bench.machine.name,
        **bench.machine.about,
        **{name: value for name, value in bench.about.items() if name not in ("date", "command")},
        "device": plan.device,
        "distribution": plan.distribution,
        "seed": str(plan.seed),
        "dtype": plan.dtype,
        "samples": str(plan.sampling.samples),
        "warm-up calls": str(plan.sampling.warmups),
    }


def _differing(first: dict[str, str], second: dict[str, str]) -> dict[str, tuple[str, str]]:
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name, ""), second.get(name, "")) for name in names if first.get(name) != second.get(name)}
