"""What a benchmark measures, as data: shapes of batches, who is timed on them, and the cells that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from workbench.capture.format import MAX_WIDTH
from workbench.engines.named import is_callable_name
from workbench.engines.timers import TOPK
from workbench.errors import UsageError
from workbench.paths.ops import get_op
from workbench.paths.releases import spelled
from workbench.vendor.release import parse_wheel
from workbench.words import listed

Lengths = Literal["full", "ragged"]
Cache = Literal["warm", "cold"]
ROUTED = ("vendor", "cuda", "model")  # engines that run an op, or the path that it takes
FULL, RAGGED, BOTH = "full", "ragged", "both"
KIB = 1024
LEAST_SHARE = 0.8  # of the longest row, how long a row of a ragged batch is at least

USUAL_ROWS, USUAL_LENGTH = 1, 32 * KIB  # of a sweep whose ops do not ask for the one or the other
STRIDE_OF = 32  # scores: every op takes rows that lie a multiple of 128 bytes apart


@dataclass(frozen=True)
class Shape:
    """One batch.

    Attributes:
        rows: in the batch. length: of its longest row. width: padded width, in scores, also the distance between rows.
        k: winners wanted. lengths: ``full``, or ``ragged``: from 80 % of ``length`` to all of it, drawn by the seed.
        max_seq_len: the host-side bound that ops are given.
    """

    rows: int
    length: int
    width: int
    k: int
    lengths: Lengths
    max_seq_len: int

    @property
    def batch(self) -> tuple[int, int, int, str]:
        """What its scores depend on."""
        return self.rows, self.length, self.width, self.lengths


@dataclass(frozen=True)
class Contender:
    """Who is timed.

    Attributes:
        engine: ``vendor``, ``cuda``, ``model``, ``torch.topk``, or a callable by its name.
        op, release: whose op is called (``vendor``), or whose routing picks the path (``cuda``, ``model``); ``None``
            for the others.
    """

    engine: str
    op: str | None = None
    release: str | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.engine, self.release, self.op)))


def grid(
    rows: Sequence[int],
    lengths: Sequence[int],
    ks: Sequence[int],
    kinds: str = FULL,
    capacity: int | None = None,
) -> list[Shape]:
    """Every combination; k varies fastest.

    Args:
        rows: rows in the batch. lengths: of the longest row. kinds: ``full``, ``ragged`` or ``both``.
        capacity: padded width and max_seq_len of all; the length where not given.

    Raises:
        UsageError: none of something, a number that no batch has, a capacity below a length.
    """
    for name, values in (("rows", rows), ("widths", lengths), ("k", ks)):
        if not values:
            raise UsageError(f"no {name} are given")
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_WIDTH:
                raise UsageError(f"{name}: {value!r} is no integer from 1 to {MAX_WIDTH}")
        if len(set(values)) < len(values):
            raise UsageError(f"{name}: {listed(values)} name one twice")
    if capacity is not None and not max(lengths) <= capacity <= MAX_WIDTH:
        raise UsageError(f"a capacity of {capacity} is below the widest rows, {max(lengths)}, or above {MAX_WIDTH}")
    return [
        Shape(r, n, capacity or n, k, kind, capacity or n)
        for r, n, kind, k in product(rows, lengths, _kinds(kinds), ks)
    ]


@dataclass(frozen=True)
class Edges:
    """Where routes change: the last number of rows, and the last length, before each change."""

    rows: tuple[int, ...]
    lengths: tuple[int, ...]


def boundaries(
    ks: Sequence[int],
    edges: Mapping[int, Edges],
    kinds: str = FULL,
    rows: Sequence[int] = (),
    lengths: Sequence[int] = (),
) -> list[Shape]:
    """Batches on both sides of every number that decides a route: all row counts × all lengths, for each k.

    Lengths are taken with both neighbours. Rows are padded to a multiple of 32 scores, which every op takes;
    max_seq_len is the length.

    Args:
        edges: by k. rows, lengths: in place of the row counts, or of the lengths, where given.

    Raises:
        UsageError: nothing decides a route, and neither rows nor lengths are given; or as for ``grid``.
    """
    found = []
    for k in ks:
        own = edges[k]
        if not (own.rows or own.lengths or rows or lengths):
            raise UsageError(f"at k {k} neither row count nor length decides a route; leave --boundaries out")
        across = list(rows) or sorted({edge + side for edge in own.rows for side in (0, 1)}) or [USUAL_ROWS]
        near = list(lengths) or sorted({edge + side for edge in own.lengths for side in (-1, 0, 1)}) or [USUAL_LENGTH]
        for one in grid(across, near, (k,), kinds):
            width = -(-one.length // STRIDE_OF) * STRIDE_OF
            found.append(Shape(one.rows, one.length, width, k, one.lengths, one.length))
    return found


def contenders(
    engines: Sequence[str], ops: Sequence[str], releases: Sequence[str] | Mapping[str, Sequence[str]]
) -> list[Contender]:
    """Who is timed: of each op and release of its package the engines that stand for ops, in the order of the engines;
    then the others.

    Args:
        releases: of every engine, or by engine.

    Raises:
        UsageError: no engine, one that is not known or given twice, an op or release that is missing or stands for
            nothing.
    """
    if not engines:
        raise UsageError("no engine is given")
    if len(set(engines)) < len(engines):
        raise UsageError(f"{listed(engines)}: give each engine once")
    for engine in engines:
        if engine not in (*ROUTED, TOPK) and not is_callable_name(engine):
            raise UsageError(f"unknown engine {engine!r}; known: {', '.join((*ROUTED, TOPK))}, package.module:function")
    routed = [engine for engine in engines if engine in ROUTED]
    found: list[Contender] = []
    if routed and not ops:
        raise UsageError(f"{listed(routed)} {'needs' if len(routed) == 1 else 'need'} an op; give it (--op)")
    given = releases if isinstance(releases, Mapping) else dict.fromkeys(routed or ("",), releases)
    by_engine = {engine: [spelled(release) for release in of_engine] for engine, of_engine in given.items()}
    every = list(dict.fromkeys(release for of_engine in by_engine.values() for release in of_engine))
    if not routed and (ops or every):
        raise UsageError("an op or a release is given, and no engine that runs one: model, cuda or vendor (--engine)")
    packages = {op: get_op(op).package for op in ops}
    for release in every:
        parse_wheel(release)
        if release.partition("==")[0] not in packages.values():
            raise UsageError(f"{release}: no op of its package is given; give one (--op)")
    for op, package in packages.items():
        of_op = [release for release in every if release.partition("==")[0] == package]
        if not of_op:
            raise UsageError(f"no release of {package} is given for {op}; give one (--release {package}==VERSION)")
        found += [
            Contender(engine, op, release) for release in of_op for engine in routed if release in by_engine[engine]
        ]
    others = [Contender(engine) for engine in engines if engine not in routed]
    return [*found, *sorted(others, key=lambda one: one.engine != TOPK)]


def caches(name: str) -> tuple[Cache, ...]:
    """``warm``, ``cold`` or ``both``.

    Raises:
        UsageError: another word.
    """
    known: tuple[Cache, ...] = get_args(Cache)
    if name not in (*known, BOTH):
        raise UsageError(f"{name!r} is no state of the L2 cache; write {listed((*known, BOTH), 'or')}")
    return known if name == BOTH else tuple(one for one in known if one == name)


def by_batch(shapes: Iterable[Shape]) -> Iterator[list[Shape]]:
    """Shapes of the same scores together, in the order in which each batch comes first."""
    found: dict[tuple[int, int, int, str], list[Shape]] = {}
    for shape in shapes:
        found.setdefault(shape.batch, []).append(shape)
    yield from found.values()


def _kinds(name: str) -> tuple[Lengths, ...]:
    known: tuple[Lengths, ...] = get_args(Lengths)
    if name not in (*known, BOTH):
        raise UsageError(f"{name!r} is no kind of lengths; write {listed((*known, BOTH), 'or')}")
    return known if name == BOTH else tuple(one for one in known if one == name)
