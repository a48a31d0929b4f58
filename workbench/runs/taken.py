"""The paths that a row takes, or may take where what decides is not known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.capture.row import Row
from workbench.paths import outside
from workbench.paths.catalog import get_path
from workbench.paths.conditions import LAYOUTS, Setup
from workbench.paths.ops import get_op
from workbench.paths.releases import parse_release
from workbench.paths.routing import Route, route
from workbench.paths.spec import Path

Pair = tuple[str, str]  # path and variant
WIDEST = 2**31 - 256  # a stride that no device's grid takes, in whole kilobytes
_FIELDS = ("rows", "width", "stride", "max_seq_len")


@dataclass(frozen=True)
class Where:
    """What a row is given to. All of it is known to routing."""

    op: str
    release: str
    device: str
    setup: Setup | None = None


@dataclass(frozen=True)
class Taken:
    """Where a row goes.

    Attributes:
        pairs: path and variant; several where it may go to any of them, none where it is refused.
        refused: why the op does not take it. unknown: what decides and is not known. calls: the op whose kernel runs.
    """

    pairs: tuple[Pair, ...] = ()
    refused: str = ""
    unknown: tuple[str, ...] = ()
    calls: str = ""


def taken(row: Row, where: Where, k: int) -> Taken:
    """Where a row goes. Where a field of the call decides and is not known, every number of it is tried at which
    routing changes; where something else does, every path counts that the op takes and that takes the row."""
    found = _route(row, where, k)
    if found.path is not None and found.variant is not None:
        return Taken(((found.path, found.variant),), calls=found.calls or found.op)
    if found.refused:
        return Taken(refused=found.refused)
    pairs: dict[Pair, None] = {}
    refusals: list[str] = []
    for one in _tried(row, where, k, found):
        if isinstance(one, str):
            refusals.append(one)
        else:
            pairs[one] = None
    return Taken(tuple(pairs), "" if pairs else next(iter(refusals), ""), found.unknown, found.calls)


def _route(row: Row, where: Where, k: int) -> Route:
    way = outside.route if row.outside else route  # the one that is public checks its arguments, which takes a while
    return way(row, where.op, where.release, where.device, k, setup=where.setup)


def _tried(row: Row, where: Where, k: int, found: Route) -> Iterator[Pair | str]:
    """The paths of a row whose route is not known, and why it is refused where it is."""
    if found.path is not None and found.variant is not None:
        yield found.path, found.variant
    elif found.refused:
        yield found.refused
    elif found.unknown and found.unknown[0] in _FIELDS:
        yield from _filled(row, where, k, found.unknown[0])
    elif found.unknown == ("layout",):
        for layout in LAYOUTS:
            at = replace(where, setup=replace(where.setup or Setup(), layout=layout))
            yield from _tried(row, at, k, _route(row, at, k))
    else:
        yield from _reached(row, where, k)


def _filled(row: Row, where: Where, k: int, name: str) -> Iterator[Pair | str]:
    """The same with a field of the call filled in: by each number next to which an answer changes."""
    own = max(row.length, k, 1)
    aligned = -(-max(own, row.call.width or 0) // 256) * 256
    values = {"rows": [1], "stride": [aligned, aligned + 1, WIDEST], "width": [own], "max_seq_len": [own]}[name]
    seen: set[int] = set()
    while values:
        value = values.pop(0)
        if value in seen:
            continue
        seen.add(value)
        filled = row.with_call(**{name: value})
        at = _route(filled, where, k)
        compared = (name, "length") if name == "max_seq_len" else (name,)
        last = [edge for reason in at.reasons for field, edge in reason.edges if field in compared]
        least = 1 if name == "rows" else own
        values += [edge + side for edge in last for side in (0, 1) if edge + side >= least]
        yield from _tried(filled, where, k, at)


def _reached(row: Row, where: Where, k: int) -> Iterator[Pair]:
    """Every path that the op takes and that takes the row, in the release's own variant."""
    for name in get_op(where.op).reaches:
        path = get_path(name)
        if not path.unmet(k=k, length=row.length, dtype=row.dtype):
            yield name, own_variant(path, where.release)


def own_variant(path: Path, release: str) -> str:
    """The variant of a path in a release: the one named after it or an earlier one, else ``stock``."""
    asked = parse_release(release)
    for variant in path.variants:
        version = variant.name.removeprefix("v")
        if version != variant.name and version[:1].isdigit():
            since = tuple(map(int, version.split(".")))
            if asked.version >= since:
                return variant.name
    return "stock"
