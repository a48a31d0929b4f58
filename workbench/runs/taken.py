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
    tried = _Tried(row, k)
    tried.explore(row, where)
    return Taken(tuple(tried.pairs), "" if tried.pairs else tried.refused, found.unknown, found.calls)


def _route(row: Row, where: Where, k: int) -> Route:
    way = outside.route if row.outside else route  # the one that is public checks its arguments, which takes a while
    return way(row, where.op, where.release, where.device, k, setup=where.setup)


class _Tried:
    """The paths that a row takes under every number of the fields that its call does not say.

    Args:
        row: the row. k: winners wanted.

    Attributes:
        pairs: the paths. refused: why the op does not take it, under the first numbers that are tried.
    """

    def __init__(self, row: Row, k: int) -> None:
        self._k, self._own = k, max(row.length, k, 1)
        aligned = -(-max(self._own, row.call.width or 0) // 256) * 256
        starts = {"rows": [1], "stride": [aligned, aligned + 1, WIDEST], "width": [self._own]}
        self._values = {name: dict.fromkeys(starts.get(name, [self._own])) for name in _FIELDS}
        self.pairs: dict[Pair, None] = {}
        self.refused = ""

    def explore(self, row: Row, where: Where) -> None:
        """Try numbers until routing compares with none that was not tried."""
        seen = -1
        while seen < (seen := sum(map(len, self._values.values()))):
            self._explore(row, where)

    def _explore(self, row: Row, where: Where) -> None:
        at = _route(row, where, self._k)
        self._note(at)
        if at.path is not None and at.variant is not None:
            self.pairs[at.path, at.variant] = None
        elif at.refused:
            self.refused = self.refused or at.refused
        elif at.unknown and at.unknown[0] in _FIELDS and getattr(row.call, at.unknown[0]) is None:
            for value in tuple(self._values[at.unknown[0]]):
                self._explore(row.with_call(**{at.unknown[0]: value}), where)
        elif at.unknown == ("layout",):
            for layout in LAYOUTS:
                self._explore(row, replace(where, setup=replace(where.setup or Setup(), layout=layout)))
        else:
            self.pairs |= dict.fromkeys(_reached(row, where, self._k))

    def _note(self, at: Route) -> None:
        """Keep the numbers next to which an answer changes; a bound is compared as a length where it is not known."""
        for name, last in (edge for reason in at.reasons for edge in reason.edges):
            field = "max_seq_len" if name == "length" else name
            least = 1 if field == "rows" else self._own
            if field in self._values:
                self._values[field] |= {last + side: None for side in (0, 1) if last + side >= least}


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
