"""Which lengths of a call go to which path: what the host fixes when it launches an op, and what each row decides.

A launcher knows the call and not the lengths, which lie on the device and may be others at the next replay of a graph.
Its choices are those of the router for the call; the spans are what it leaves to each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from workbench.capture.row import SCORE_DTYPES, Call, Row
from workbench.paths import outside
from workbench.paths.conditions import ALL_LENGTHS, Setup
from workbench.paths.devices import get_device
from workbench.paths.ops import get_op
from workbench.paths.plan import arch_of, text_of
from workbench.paths.releases import parse_release
from workbench.paths.route_sglang_v2 import VECTOR
from workbench.paths.routing import Route, route
from workbench.words import listed

SIZES = ("length", "width", "max_seq_len")  # fields that grow with the rows of a full call
LONGEST = 2**31 - 1  # of an int32
RESIDUES = VECTOR  # a start decides a route, if at all, by its place among so many cells
DTYPES = {name: dtype for dtype, name in SCORE_DTYPES.items()}


@dataclass(frozen=True)
class Asked:
    """An op as it is called, but for its rows.

    Attributes:
        op, release, device: as routing knows them. call: k, rows, width, stride and max_seq_len are needed.
        dtype: of the scores. setup: of the engine.
    """

    op: str
    release: str
    device: str
    call: Call
    dtype: str = "float32"
    setup: Setup | None = None

    def route(self, length: int, start: int = 0) -> Route:
        """The path of a row of any length; a negative one goes where the op's kernel reads it."""
        way = outside.route if length < 0 else route
        return way(self._row(length, start), self.op, self.release, self.device, setup=self.setup)

    def told(self, length: int, start: int = 0, number: int = 0) -> str:
        """What the op does with a length that no path takes, in words; empty if one does.

        Args:
            number: of the row within its call.
        """
        row = self._row(length, start, number)
        found = outside.route(row, self.op, self.release, self.device, setup=self.setup)
        does = outside.effect_on(row, found, self.call.k or 0)
        if does is not None:
            return does.words
        if row.outside and not found.refused:
            return f"length {length} leaves the row, and what decides then is not known"
        return found.refused

    def leaves_empty(self, length: int) -> bool:
        """Whether every slot of a row of this negative length is -1, as of an empty row."""
        row = self._row(length, 0)
        found = outside.route(row, self.op, self.release, self.device, setup=self.setup)
        if found.path is not None and found.path.endswith(".trivial"):
            return True
        does = outside.effect_on(row, found, self.call.k or 0)
        return does is not None and does.first == 0

    def _row(self, length: int, start: int, number: int = 0) -> Row:
        width = self.call.width or 0
        scores = torch.empty(1, dtype=DTYPES[self.dtype]).expand(max(width, start))
        return Row(scores, length, start, self.call, index=number)


@dataclass(frozen=True)
class Span:
    """Lengths that an op sends the same way.

    Attributes:
        least, most: the first and the last of them. path, variant: that take them; ``None`` where none does.
        why: why none does, in words.
    """

    least: int
    most: int
    path: str | None = None
    variant: str | None = None
    why: str = ""

    @property
    def trivial(self) -> bool:
        """Whether nothing is selected."""
        return self.path is not None and self.path.endswith(".trivial")


def spans_of(asked: Asked, start: int = 0, most: int = LONGEST) -> tuple[Span, ...]:
    """The spans of a call's lengths from 0 up to ``most``, in order and without gaps.

    Every length that a router compares stands in the conditions that it notes; between two of them nothing changes.

    Args:
        start: of the rows, below ``RESIDUES``.

    Raises:
        UsageError: an unknown op, release or device.
    """
    found: list[Span] = []
    least = 0
    while least <= most:
        taken = asked.route(least, start)
        edges = [last for one in taken.reasons for name, last in one.edges if name == "length" and last >= least]
        why = taken.refused or (f"the route depends on {listed(taken.unknown)}" if taken.path is None else "")
        span = Span(least, min((*edges, most)), taken.path, taken.variant, why)
        if found and replace(found[-1], least=0, most=0) == replace(span, least=0, most=0):
            found[-1] = replace(found[-1], most=span.most)
        else:
            found.append(span)
        least = span.most + 1
    return tuple(found)


def planned(asked: Asked) -> tuple[tuple[int, int], ...]:
    """What SGLang's plan chooses from on the device, where the lengths of all rows decide: thresholds from the least
    up, and how many rows above each clusters take. Empty where no plan is left to make.

    Raises:
        UsageError: as for ``spans_of``.
    """
    lengths = (span.least for span in spans_of(asked) if span.path is None and ALL_LENGTHS in span.why)
    if next(lengths, None) is None:
        return ()
    release = parse_release(asked.release, get_op(asked.op).package)
    arch = arch_of(text_of(release), get_device(asked.device))
    return () if arch is None else arch.caps


def with_threshold(asked: Asked, threshold: int) -> Asked:
    """The call once the plan has chosen."""
    return replace(asked, setup=replace(asked.setup or Setup(), static_threshold=threshold))


def edges_of(asked: Asked, stride_of: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The row counts and the lengths at which an op changes where it sends full rows of a call, in order.

    Each is the last number before a change, for some number of the other kind. Asked are calls as wide as their rows,
    rounded up to ``stride_of``, with the length as max_seq_len; rows no longer than k are left aside.

    Args:
        asked: its call's k counts, rows and width are those that are looked for.

    Raises:
        UsageError: as for ``spans_of``.
    """
    k = asked.call.k or 1
    rows, lengths = {1}, {k + 1}
    seen: set[tuple[int, int]] = set()
    row_edges, length_edges = set[int](), set[int]()
    while points := {(one, length) for one in rows for length in lengths} - seen:
        seen |= points
        for one, length in points:
            width = -(-length // stride_of) * stride_of
            call = replace(asked.call, rows=one, width=width, stride=width, max_seq_len=length)
            at = replace(asked, call=call)
            taken = at.route(length)
            found = [edge for reason in taken.reasons for edge in reason.edges]
            if ALL_LENGTHS in taken.unknown:
                found += [edge for threshold, cap in planned(at) for edge in (("length", threshold), ("rows", cap))]
            row_edges |= {last for name, last in found if name == "rows" and last >= 1}
            length_edges |= {last for name, last in found if name in SIZES and last > k}
        rows |= {last + side for last in row_edges for side in (0, 1)}
        lengths |= {last + side for last in length_edges for side in (0, 1)}
    return tuple(sorted(row_edges)), tuple(sorted(length_edges))
