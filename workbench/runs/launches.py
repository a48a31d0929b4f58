"""Rows of a capture as launches: whole calls as they were made, other rows alone in equal copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice

import torch

from workbench.analysis.reference import winners_wanted
from workbench.capture import Capture
from workbench.capture.row import Call, Row
from workbench.engines.launch import Launch
from workbench.errors import CaptureError
from workbench.words import listed

LIMIT = 4 * 2**30  # bytes of the scores of one launch
_GIB = 2**30


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows as one call of an op.

    Attributes:
        rows: the captured rows, one for each of the launch's slots; their scores are views of the launch's.
        places: where each of them stood among the rows that were given.
        k: winners wanted. launch: the call; ``None`` where it cannot be made.
        refused: why it cannot, in words. note: what was not captured and how it was filled in, in words.
    """

    rows: tuple[Row, ...]
    places: tuple[int, ...]
    k: int
    launch: Launch | None = None
    refused: str = ""
    note: str = ""


def launches(
    rows: Iterable[Row],
    *,
    op: str | None = None,
    k: int | None = None,
    static_threshold: int = -1,
    limit: int = LIMIT,
    among: Capture | None = None,
) -> Iterator[Laid]:
    """The launches of rows, one made at a time.

    Rows of one call that follow each other are laid as they were called where they are all there, as many as the call
    says: every row a slot with its own length and start. So are some of them where ``among`` has the others; these get
    no slot. Any other row is laid alone: as many equal copies of it as the call had rows, of which the first one stands
    for it. Captured padding stays as it was captured; cells that were not captured, up to the stride, hold -inf.

    Args:
        rows: the rows. Those of one call have the same ``capture`` and ``call``.
        op, k: those of the call where not given; a launch of no known op has the op ``""``.
        static_threshold: what SGLang's plan is given.
        limit: the most bytes that the scores of a launch may have.
        among: the capture that the rows are of, for the other rows of their calls.

    Yields:
        Every row in one of them. What the call does not say of its width, stride and max_seq_len is taken as the
        row's width, that width and that width, and noted; an unknown next_n is 1.

    Raises:
        CaptureError: a row that cannot be read, or whose k is not known.
    """
    numbered = enumerate(rows)
    for _, same in groupby(numbered, lambda one: (one[1].capture, one[1].call, one[1].dtype, one[1].scores.device)):
        yield from _of_one_call(same, op, k, static_threshold, limit, among)


def _of_one_call(
    rows: Iterator[tuple[int, Row]],
    op: str | None,
    k: int | None,
    static_threshold: int,
    limit: int,
    among: Capture | None,
) -> Iterator[Laid]:
    held = [next(rows)]
    first = held[0][1]
    fits = first.call.rows is not None and _bytes(first, first.call.rows) <= limit
    if first.call.rows is not None and fits:
        held += islice(rows, first.call.rows)  # one more than a whole call has, which would contradict it
    why = _why_alone(first, len(held))
    numbers = _whole(first, among) if among is not None and fits else ()
    given = [row.index for _, row in held]
    if len(held) == first.call.rows and (not numbers or given == list(numbers)):
        del first
        yield _laid(held, op, k, static_threshold, limit)
        return
    del first
    if among is not None and numbers and set(given) <= set(numbers):
        every = _read({row.index: row for _, row in held}, numbers, among)
        if not isinstance(every, str):
            slots = [numbers.index(at) for at in given]
            yield _laid(held, op, k, static_threshold, limit, every=every, slots=slots)
            return
        why = every
    for one in _emptied(held, rows):
        yield _laid([one], op, k, static_threshold, limit, why)


def _whole(row: Row, among: Capture) -> Sequence[int]:
    """The numbers of all rows of a row's call, where a capture has as many as the call says; else none."""
    if row.capture != among.name or row.index >= len(among):
        return ()
    numbers = among.rows_of(among.call_of(row.index))
    return numbers if len(numbers) == row.call.rows else ()


def _read(given: dict[int, Row], numbers: Sequence[int], among: Capture) -> list[Row] | str:
    """All rows of a call, those given as they are, or why they cannot be had, in words."""
    try:
        every = [given[at] if at in given else among[at] for at in numbers]
    except CaptureError as error:
        return f"the other rows of its call cannot be read: {error}"
    if len({one.dtype for one in every}) > 1:
        return "the rows of its call differ in dtype"
    return every


def _emptied(held: list[tuple[int, Row]], more: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Those held and then the others, none kept once it was given."""
    held.reverse()
    yield from chain((held.pop() for _ in range(len(held))), more)


def _bytes(row: Row, count: int) -> int:
    width = row.call.width or row.scores.numel()
    return count * max(row.call.stride or width, width) * row.scores.element_size()


def _laid(
    held: list[tuple[int, Row]],
    op: str | None,
    k: int | None,
    static_threshold: int,
    limit: int,
    why_alone: str = "",
    every: list[Row] | None = None,
    slots: Sequence[int] = (),
) -> Laid:
    """One launch of the rows of a call, or of copies of one row.

    Args:
        every: all rows of the launch, where those held are not all. slots: of those held among them.
    """
    places, rows = tuple(place for place, _ in held), [row for _, row in held]
    held.clear()
    every, slots = (list(rows), range(len(rows))) if every is None else (every, slots)
    row, call = rows[0], rows[0].call
    wanted = winners_wanted(row, k)
    widest = max(one.scores.numel() for one in every)
    width = call.width or widest
    stride = call.stride or width
    refused = _refusal(call, widest, width, stride)
    if not refused and call.rows is not None and (size := call.rows * stride * row.scores.element_size()) > limit:
        refused = (
            f"{call.rows} rows of stride {stride} in {row.dtype} are a launch of {size / _GIB:.3g} GiB of scores, more "
            f"than {limit / _GIB:.3g} GiB; give fewer rows (--rows), or a smaller stride (--stride)"
        )
    if refused or call.rows is None:
        return Laid(tuple(rows), places, wanted, refused=refused)
    copies = call.rows if len(every) == 1 else 1
    buffer = torch.full((call.rows, stride), -torch.inf, dtype=row.scores.dtype, device=row.scores.device)
    for slot, one in enumerate(every):
        buffer[slot : slot + copies, : one.scores.numel()] = one.scores
    lengths, starts = (
        torch.tensor([getattr(one, name) for one in every] * copies, dtype=torch.int32, device=buffer.device)
        for name in ("length", "start")
    )
    every.clear()
    for at, slot in enumerate(slots):  # each is let go of as its view takes its place
        rows[at] = replace(rows[at], scores=buffer[slot, : rows[at].scores.numel()])
    launch = Launch(
        op=op or call.op or "",
        k=wanted,
        scores=buffer[:, :width],
        lengths=lengths,
        max_seq_len=width if call.max_seq_len is None else call.max_seq_len,
        next_n=call.next_n or 1,
        starts=starts if bool(starts.any()) else None,
        static_threshold=static_threshold,
        slots=tuple(slots),
    )
    note = "; ".join(filter(None, (_about_copies(copies, why_alone), _about_defaults(call, launch))))
    return Laid(tuple(rows), places, wanted, launch, note=note)


def _refusal(call: Call, widest: int, width: int, stride: int) -> str:
    """What the call does not say or contradicts; empty if it can be made."""
    reasons = []
    if call.rows is None:
        reasons.append("how many rows the call had is not known; give it (--rows)")
    if width < widest:
        reasons.append(f"the call is {width} wide, and its widest row holds {widest} scores; give the width (--width)")
    if stride < width:
        reasons.append(f"the stride of {stride} is less than the width, {width}; give the stride (--stride)")
    return "; ".join(reasons)


def _why_alone(row: Row, held: int) -> str:
    if row.batch is not None:
        return "the other rows of its call were not given"
    more = row.call.rows is not None and held > row.call.rows
    return "the capture holds more rows of its call than it had" if more else "its call is not wholly captured"


def _about_copies(copies: int, why: str) -> str:
    return f"laid alone, in {copies} equal copies of which the first is judged: {why}" if copies > 1 else ""


def _about_defaults(call: Call, launch: Launch) -> str:
    """The fields that the call does not say, and what was taken for them."""
    taken = {
        "width": (launch.scores.shape[1], "the row's own"),
        "stride": (launch.scores.stride(0), "the width"),
        "max_seq_len": (launch.max_seq_len, "the width"),
    }
    absent = [f"{name} {value} ({why})" for name, (value, why) in taken.items() if getattr(call, name) is None]
    return f"not said by the capture and taken as: {listed(absent)}" if absent else ""
