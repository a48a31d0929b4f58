"""Which calls of two runs belong together, by their content where their order does not tell."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence


def longest_ascending(values: Sequence[int]) -> list[int]:
    """Places of a longest ascending run within distinct values, ascending; n log n."""
    tails: list[int] = []  # the least last value of a run of each length
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(tails, value)
        if length == len(tails):
            tails.append(value)
            places.append(place)
        else:
            tails[length], places[length] = value, place
        before.append(places[length - 1] if length else -1)
    found = []
    at = places[-1] if places else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def pair(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int | None, int | None]]:
    """Pair two sequences of contents, by place: (place in a, place in b), ``None`` where one has no partner.

    Equal beginnings and ends go together, then contents that are unique on both sides, wherever they stand (as in a
    patience diff); what is left between them goes together in its order, and a surplus stays alone.
    """
    shortest = min(len(a), len(b))
    head = next((at for at in range(shortest) if a[at] != b[at]), shortest)
    tail = next((at for at in range(shortest - head) if a[-1 - at] != b[-1 - at]), shortest - head)
    matched = {at: at for at in range(head)}
    matched.update({len(a) - 1 - at: len(b) - 1 - at for at in range(tail)})
    middle_a, middle_b = range(head, len(a) - tail), range(head, len(b) - tail)
    count_a, count_b = Counter(a[at] for at in middle_a), Counter(b[at] for at in middle_b)
    place_b = {b[at]: at for at in middle_b}
    anchors = [(at, place_b[a[at]]) for at in middle_a if count_a[a[at]] == 1 and count_b.get(a[at]) == 1]
    matched.update(anchors)
    taken = set(matched.values())
    spine = [anchors[at] for at in longest_ascending([place for _, place in anchors])]
    begin_a, begin_b = head, head
    for end_a, end_b in [*spine, (middle_a.stop, middle_b.stop)]:
        free_a = [at for at in range(begin_a, end_a) if at not in matched]
        free_b = [at for at in range(begin_b, end_b) if at not in taken]
        for one, other in zip(free_a, free_b, strict=False):
            matched[one] = other
            taken.add(other)
        begin_a, begin_b = end_a + 1, end_b + 1
    return list(_merged(len(a), len(b), matched))


def _merged(count_a: int, count_b: int, matched: dict[int, int]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs in the order of a, and what b has alone after what stands before it there."""
    alone = sorted(set(range(count_b)) - set(matched.values()), reverse=True)
    for at in range(count_a):
        partner = matched.get(at)
        while alone and partner is not None and alone[-1] < partner:
            yield None, alone.pop()
        yield at, partner
    while alone:
        yield None, alone.pop()
