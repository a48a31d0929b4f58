"""Which row of one run answers to which row of another, and in which order runs went through them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.analysis.divergence.pairing import longest_ascending, pair
from workbench.words import listed


class Key(NamedTuple):
    """What names a call in a run; ``None`` where the capture does not say."""

    request: str | None
    step: int | None
    layer: int | None
    rank: int | None
    op: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """One row of one call, as a run holds it.

    Attributes:
        key: of its call. file, call, row: where it is stored. place: its place among the rows of its call.
        k: winners wanted, ``None`` if unknown.
        about: (name, value) of what else is known of the call: release, device, batch and padding.
    """

    key: Key
    file: int
    call: int
    row: int
    place: int
    k: int | None = None
    about: tuple[tuple[str, object], ...] = ()


class Aligned(NamedTuple):
    """Two events that belong together, by their numbers in their runs; ``None`` where a run has none.

    Attributes:
        key: under which they were aligned. occurrence: how many calls of this key the run had before.
        reordered: whether the runs have them at different places in their order.
        duplicate: whether it is alone since its run has the call once more than the other.
    """

    a: int | None
    b: int | None
    key: Key
    occurrence: int
    reordered: bool = False
    duplicate: bool = False


class Alignment(NamedTuple):
    """Two runs, aligned.

    Attributes:
        pairs: in execution order: by step and layer, then by the order of the runs; what is unknown goes last.
        requests: what the first run calls the requests of the other, where that is another name.
        notes: what was not taken for granted, in words.
    """

    pairs: list[Aligned]
    requests: dict[str | None, str | None]
    notes: list[str]


def align(
    a: Sequence[Event],
    b: Sequence[Event],
    content_a: Callable[[int], Hashable],
    content_b: Callable[[int], Hashable],
    names: tuple[str, str] = ("the first run", "the other run"),
    *,
    ranks: bool = False,
) -> Alignment:
    """Align two runs.

    Rows go together by request, step, layer, rank and op; the rows under one key by their content and their order.

    Args:
        a, b: the events in the order of the runs. content_a, content_b: the input of an event, by its number.
        names: of the runs, for the notes. ranks: whether they are ranks of one run, which then is no part of the key.
    """
    keys_a, keys_b, requests, notes = _common_keys(a, b, names, ranks)
    groups: dict[Key, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, keys in enumerate((keys_a, keys_b)):
        for number, key in enumerate(keys):
            groups[key][side].append(number)
    pairs: list[Aligned] = []
    for key, (mine, theirs) in groups.items():
        found = pair([content_a(at) for at in mine], [content_b(at) for at in theirs])
        calls = [{(run[at].file, run[at].call): None for at in where} for run, where in ((a, mine), (b, theirs))]
        order = [{call: number for number, call in enumerate(side)} for side in calls]
        named = key.step is not None and key.layer is not None
        for one, other in found:
            at, side = (mine[one], 0) if one is not None else (theirs[other or 0], 1)
            event = (a, b)[side][at]
            lone = one is None or other is None
            pairs.append(
                Aligned(
                    a=None if one is None else mine[one],
                    b=None if other is None else theirs[other],
                    key=key,
                    occurrence=order[side][event.file, event.call],
                    duplicate=lone and named and len(calls[side]) > len(calls[1 - side]) > 0,
                )
            )
    unnamed = sum(key.step is None or key.layer is None for key in (*keys_a, *keys_b))
    if unnamed:
        what = "names no step or no layer" if unnamed == 1 else "name no step or no layer"
        notes.append(
            f"{unnamed} of {len(keys_a) + len(keys_b)} rows {what}; where that leaves several under one name, they are "
            "aligned by content and order"
        )
    return Alignment(_in_order(_reordered(pairs, a, b), len(b)), requests, notes)


def _common_keys(
    a: Sequence[Event], b: Sequence[Event], names: tuple[str, str], ranks: bool
) -> tuple[list[Key], list[Key], dict[str | None, str | None], list[str]]:
    """The keys of both runs, told in the same words: names that mean the same in both, and fields that both know."""
    requests: dict[str | None, str | None] = {}
    keys_a, keys_b = [event.key for event in a], [event.key for event in b]
    notes = []
    for field in ("step", "layer"):
        known = [any(getattr(key, field) is not None for key in keys) for keys in (keys_a, keys_b)]
        if known[0] != known[1] and keys_a and keys_b:
            notes.append(f"{names[known.index(False)]} does not say {field}s: rows are aligned without them")
            keys_a, keys_b = ([key._replace(**{field: None}) for key in keys] for keys in (keys_a, keys_b))
    if ranks:
        keys_a, keys_b = ([key._replace(rank=None) for key in keys] for keys in (keys_a, keys_b))
    for field in ("request", "op") if ranks else ("request", "rank", "op"):
        mine, theirs = ({getattr(key, field): None for key in keys} for keys in (keys_a, keys_b))
        new = [value for value in theirs if value not in mine]
        gone = [value for value in mine if value not in theirs]
        if not new or not gone or (field != "request" and (len(mine) > 1 or len(theirs) > 1)):
            continue
        same = dict(zip(new, gone, strict=False))
        told = listed(f"{_name(old)} with {_name(value)}" for value, old in list(same.items())[:3])
        more = f" and {len(same) - 3} more" if len(same) > 3 else ""
        notes.append(f"the runs differ in {field}: {told}{more} aligned as the same ({names[0]} first)")
        keys_b = [key._replace(**{field: same.get(getattr(key, field), getattr(key, field))}) for key in keys_b]
        if field == "request":
            requests = same
    return keys_a, keys_b, requests, notes


def _name(value: object) -> str:
    return "unknown" if value is None else str(value)


def _reordered(pairs: list[Aligned], a: Sequence[Event], b: Sequence[Event]) -> Iterator[Aligned]:
    """Mark the pairs outside a longest common order. Across files, ranks and requests no order is known."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, one in enumerate(pairs):
        if one.a is not None and one.b is not None:
            groups[a[one.a].file, b[one.b].file, one.key.rank, one.key.request].append(number)
    moved: set[int] = set()
    for numbers in groups.values():
        numbers.sort(key=lambda number: pairs[number].a or 0)
        kept = longest_ascending([pairs[number].b or 0 for number in numbers])
        moved |= set(numbers) - {numbers[place] for place in kept}
    for number, one in enumerate(pairs):
        yield one._replace(reordered=True) if number in moved else one


def _in_order(pairs: Iterator[Aligned], count: int) -> list[Aligned]:
    """Sort by step, layer and place in the first run; what it does not have stands after what is before it."""
    found = list(pairs)
    partner = [-1] * count
    for one in found:
        if one.a is not None and one.b is not None:
            partner[one.b] = one.a
    before = -1
    for at, place in enumerate(partner):
        before = place if place >= 0 else before
        partner[at] = before

    def order(one: Aligned) -> tuple[float, float, int, int]:
        step, layer = (math.inf if value is None else value for value in (one.key.step, one.key.layer))
        if one.a is not None:
            return step, layer, one.a, -1
        assert one.b is not None
        return step, layer, partner[one.b], one.b

    return sorted(found, key=order)
