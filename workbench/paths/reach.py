"""Which releases have a path, as which variant, and by which calls an op takes it: asked of the router, not listed.

Calls of a few widths are asked, on every device in turn, with the row counts at which a route can change. What only
another call reaches is not found, and nothing is said of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from workbench.capture.row import Call
from workbench.paths.conditions import ALL_LENGTHS, LAYOUTS, Setup
from workbench.paths.devices import DEVICES
from workbench.paths.ops import OPS, Op
from workbench.paths.spans import Asked, Span, planned, spans_of, with_threshold
from workbench.paths.spec import Path
from workbench.paths.vllm import KS as COMMON_KS

WIDTHS = (262144, 131072, 8192)  # rows that per_row sorts in each of its ways, and that the kernels of short rows take


@dataclass(frozen=True)
class Taken:
    """Lengths of rows that calls send to a path.

    Attributes:
        release, device: of the op. k, width: of the calls. fewest, most_rows: rows of them, ``None`` for any number.
        least, most: lengths. variant: of the path. setup: what of the engine's setup is not the default, in words.
        planned: whether the lengths of the other rows of the call decide as well.
    """

    release: str
    device: str
    k: int
    width: int
    fewest: int
    most_rows: int | None
    least: int
    most: int
    variant: str
    setup: str = ""
    planned: bool = False

    @property
    def rows_in_words(self) -> str:
        """As in ``1 to 32``, ``65 or more`` or ``any``."""
        if self.most_rows is None:
            return "any" if self.fewest == 1 else f"{self.fewest} or more"
        return f"{self.fewest}" if self.fewest == self.most_rows else f"{self.fewest} to {self.most_rows}"

    @property
    def lengths_in_words(self) -> str:
        """As in ``8193 to 32768`` or ``32769 or more``."""
        said = f"{self.least} to {self.most}" if self.most < self.width else f"{self.least} or more"
        return f"{said}, as the other rows decide" if self.planned else said


@dataclass(frozen=True)
class Reach:
    """An op that takes a path.

    Attributes:
        op: it. release: the newest one of its package that is known to, as the variant that was asked for. calls: that
            take it there, on one device; none where no call that was asked takes it.
    """

    op: Op
    release: str
    calls: tuple[Taken, ...]


@cache
def reaches(path: Path, variant: str | None = None) -> tuple[Reach, ...]:
    """Every op that takes a path on some release and device, in the catalogue's order.

    Args:
        variant: of the path: ops that take it as that one, and their calls that do; ``None`` for whichever the newest
            release has.
    """
    found = [_newest(path, op, variant) for op in OPS if path.name in op.reaches]
    return tuple(one for one in found if one.calls or variant is None)


def _newest(path: Path, op: Op, variant: str | None) -> Reach:
    for release in reversed(op.releases):
        calls = tuple(one for one in _taken(path, op, release) if variant in (None, one.variant))
        if calls:
            return Reach(op, release, calls)
    return Reach(op, op.releases[-1], ())


@cache
def variants_by_release(path: Path) -> dict[str, tuple[str, ...]]:
    """The variants of a path that each known release takes, by release, oldest first within a package; none where no
    call that was asked takes it. What an engine's own choice settles on is asked only of paths that no op else takes.
    """
    ops = [op for op in OPS if path.name in op.reaches]
    direct = [op for op in ops if not is_choice(op)] or ops
    found: dict[str, tuple[str, ...]] = {}
    for op in direct:
        for release in op.package_releases:
            names = [one.variant for one in _taken(path, op, release)] if release in op.releases else []
            found[release] = tuple(dict.fromkeys((*found.get(release, ()), *names)))
    return found


def is_choice(op: Op) -> bool:
    """Whether an op is an engine's own choice among others."""
    return "backend" in op.heeds


@cache
def _taken(path: Path, op: Op, release: str) -> tuple[Taken, ...]:
    """What a release sends to a path, on the first device, with the first k and setup that it does so on; of narrower
    calls only what wider ones do not tell."""
    for device in DEVICES:
        for k in _ks(path):
            for setup in _setups(op):
                found: list[Taken] = []
                for width in WIDTHS:
                    call = Call(k=k, width=width, stride=width, max_seq_len=width)
                    asked = Asked(op.name, release, device.name, call, path.dtypes[0], setup)
                    more = _merged(path, asked)
                    known = {one.variant for one in found}
                    found += [one for one in more if one.variant not in known]
                if found:
                    return tuple(found)
    return ()


def _ks(path: Path) -> tuple[int, ...]:
    """The greatest k that serving engines ask for and the path takes, then the least of them: some ops take less."""
    taken = COMMON_KS if path.ks is None else path.ks
    fitting = sorted(k for k in taken if path.k_up_to is None or k <= path.k_up_to)
    return tuple(dict.fromkeys((fitting[-1], fitting[0])))


def _setups(op: Op) -> tuple[Setup | None, ...]:
    """The engine's setup as it is, then with a thing or two changed that decide."""
    layouts = [Setup(layout=one) for one in LAYOUTS] if "layout" in op.heeds else []
    old = [Setup(layout="paged", topk_v2=False)] if "topk_v2" in op.heeds else []
    backends = [Setup(backend=one) for one in ("flashinfer", "torch", "deep_select")] if "backend" in op.heeds else []
    loose = [Setup(fused=False), Setup(fused=False, backend="torch")] if "fused" in op.heeds else []
    return (None, *layouts, *old, *backends, *loose)


def _merged(path: Path, asked: Asked) -> list[Taken]:
    """What calls send to a path: row counts between which nothing changes together."""
    counts = _row_counts(asked)
    found: list[Taken] = []
    for at, rows in enumerate(counts):
        for one in _on(path, rows, asked):
            same = replace(one, fewest=0, most_rows=0)
            last = next((had for had in reversed(found) if replace(had, fewest=0, most_rows=0) == same), None)
            if last is not None and last.most_rows == (counts[at - 1] if at else None):
                found[found.index(last)] = replace(last, most_rows=rows)
            else:
                found.append(one)
    return [replace(one, most_rows=None) if one.most_rows == counts[-1] else one for one in found]


def _on(path: Path, rows: int, asked: Asked) -> list[Taken]:
    """What a call of so many rows sends to a path, one a variant."""
    spans = [span for span in _spans(asked, rows) if span.path == path.name]
    k, width, said = asked.call.k or 0, asked.call.width or 0, _said(asked.setup)
    found = []
    for variant in dict.fromkeys(span.variant or "" for span in spans):
        own = [span for span in spans if span.variant == variant]
        least, most = min(span.least for span in own), max(span.most for span in own)
        decides = any(span.why for span in own)
        found.append(Taken(asked.release, asked.device, k, width, rows, rows, least, most, variant, said, decides))
    return found


@cache
def _row_counts(asked: Asked) -> tuple[int, ...]:
    """Row counts on both sides of each at which a route of the widest row changes, ascending."""
    pending, seen = [1], set[int]()
    while pending:
        rows = pending.pop()
        seen.add(rows)
        reasons = _of(asked, rows).route(asked.call.width or 0).reasons
        edges = {last for one in reasons for name, last in one.edges if name == "rows"}
        pending += sorted({last + side for last in edges for side in (0, 1)} - seen - set(pending) - {0})
    return tuple(sorted(seen))


@cache
def _spans(asked: Asked, rows: int) -> tuple[Span, ...]:
    """The spans of a call; where the lengths of the other rows decide, also those of every choice there is, with a
    ``why`` that says so."""
    call = _of(asked, rows)
    spans = spans_of(call, most=asked.call.width or 0)
    if all(span.path is not None for span in spans):
        return spans
    choices = [spans_of(with_threshold(call, threshold), most=call.call.width or 0) for threshold, _ in planned(call)]
    return (*spans, *(replace(span, why=ALL_LENGTHS) for choice in choices for span in choice if span not in spans))


def _of(asked: Asked, rows: int) -> Asked:
    return replace(asked, call=replace(asked.call, rows=rows))


def _said(setup: Setup | None) -> str:
    if setup is None:
        return ""
    words = {"topk_v2": "v2 off", "fused": "unfused"}
    return ", ".join(words.get(name) or f"{name} {getattr(setup, name)}" for name in setup.given)
