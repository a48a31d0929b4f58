"""Where the ops of a benchmark change their paths: the row counts and lengths that a sweep stands on both sides of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.capture.row import Call
from workbench.errors import UsageError
from workbench.paths.spans import Asked, edges_of
from workbench.runs.bench import NO_DEVICE
from workbench.runs.bench_grid import STRIDE_OF, Contender, Edges

NO_OP = "the sweep stands on both sides of what decides an op's routes: give an op, and an engine that runs it"


def edges_for(contenders: Sequence[Contender], device: str, ks: Sequence[int], dtype: str) -> Mapping[int, Edges]:
    """The edges of all ops and releases together, by k, from their routing.

    A release whose routing is not known has none; so has an op that takes every call the same way.

    Raises:
        UsageError: no op at all, no device, or no release whose routing is known.
    """
    asked = dict.fromkeys((one.op, one.release) for one in contenders if one.op is not None and one.release is not None)
    if not asked:
        raise UsageError(NO_OP)
    if not device:
        raise UsageError(NO_DEVICE)
    found = {}
    for k in ks:
        rows, lengths = set[int](), set[int]()
        problems: list[UsageError] = []
        for op, release in asked:
            try:
                of_rows, of_lengths = edges_of(Asked(op, release, device, Call(k=k, next_n=1), dtype), STRIDE_OF)
            except UsageError as error:
                problems.append(error)
                continue
            rows |= set(of_rows)
            lengths |= set(of_lengths)
        if len(problems) == len(asked):
            raise problems[0]
        found[k] = Edges(tuple(sorted(rows)), tuple(sorted(lengths)))
    return found
