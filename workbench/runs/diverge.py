"""Compare captured runs of the same prompt: where they part first, and whose fault it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

import torch

from workbench.analysis.divergence.alignment import Aligned, Event, align
from workbench.analysis.divergence.inputs import What
from workbench.analysis.divergence.pairing import pair
from workbench.analysis.divergence.selections import Judged, judged
from workbench.analysis.divergence.states import State
from workbench.analysis.divergence.tokens import NEAR_ULPS, TokenStep, token_step
from workbench.analysis.reference import reference
from workbench.analysis.repeatability import Kind, compare
from workbench.arguments import checked
from workbench.capture import Token, open_capture
from workbench.capture.row import digest_of
from workbench.errors import UsageError
from workbench.runs.captured import CapturedRun, Given, Opener
from workbench.runs.divergence import Comparison, Divergence, Place, Point

Progress = Callable[[int], None]
Points = Callable[[int, int], None]
POINTS_NAMED = 3  # in a note


@checked
def diverge(
    *runs: Given | CapturedRun,
    ranks: bool = False,
    near_ulps: int = NEAR_ULPS,
    opener: Opener = open_capture,
    progress: Progress | None = None,
    points: Points | None = None,
) -> Divergence:
    """Compare captured runs of the same prompt, each with the first one.

    Args:
        runs: each a capture file, a folder of captures, a ``Capture``, or a list of these in the order of the run.
        ranks: compare the ranks of the one run that is given, each with the lowest.
        near_ulps: the greatest margin between two logits, in ULPs of their dtype, that is called a near-tie.
        opener: opens a file; for foreign ones, a function that names their tensors.
        progress: called with the number of rows whose input was read, of those of all runs.
        points: called with the number of points compared after that, and of how many, for each run anew.

    Raises:
        CaptureError: a capture that cannot be read, or holds what no capture can hold.
        UsageError: fewer than two runs (or, of ranks, not one run with two ranks).
    """
    if near_ulps < 0:
        raise UsageError(f"near_ulps is {near_ulps}; 0 or more is needed")
    if ranks and len(runs) != 1:
        raise UsageError(f"ranks are those of one run, but {len(runs)} are given")
    if not ranks and len(runs) < 2:
        raise UsageError("two runs or more are compared; for the ranks of one run say so (ranks=True, --ranks)")
    opened = [run if isinstance(run, CapturedRun) else CapturedRun(run, opener) for run in runs]
    compared = opened[0].by_rank() if ranks else opened
    done = 0
    for run in compared:  # contents first: files are read once, from their beginning to their end
        for event in run.events:
            run.digest(event)
            done += 1
            if progress is not None:
                progress(done)
        run.close()
    first, *others = zip(compared, _names(compared), strict=True)
    found = []
    for other in others:
        found.append(_comparison(first, other, ranks, near_ulps, points))
        other[0].close()
    return Divergence((first[1], *(name for _, name in others)), tuple(found))


def _names(runs: Sequence[CapturedRun]) -> list[str]:
    """The names of runs, numbered where two have the same."""
    count = Counter(run.name for run in runs)
    return [run.name if count[run.name] == 1 else f"{run.name} (run {at})" for at, run in enumerate(runs, 1)]


def _comparison(
    first: tuple[CapturedRun, str], other: tuple[CapturedRun, str], ranks: bool, near_ulps: int, progress: Points | None
) -> Comparison:
    (a, name_a), (b, name_b) = first, other
    content = [lambda at, run=run: _content(run, run.events[at]) for run in (a, b)]
    aligned = align(a.events, b.events, content[0], content[1], (name_a, name_b), ranks=ranks)
    events = tuple(
        (None if one.a is None else a.events[one.a], None if one.b is None else b.events[one.b])
        for one in aligned.pairs
    )
    compared: list[Point] = []
    for one, both in zip(aligned.pairs, events, strict=True):
        compared.append(_point(a, b, one, *both))
        if progress is not None:
            progress(len(compared), len(events))
    points = tuple(compared)
    tokens, about_tokens = _tokens(a, b, (name_a, name_b), aligned.requests, near_ulps)
    notes = [*aligned.notes, *_differing(points, events), *_mapped(points), *about_tokens]
    found = Comparison(name_a, name_b, points, tuple(tokens), tuple(notes), (a, b), events)
    return found if found.first is None else replace(found, detail=found.look(found.first))


def _content(run: CapturedRun, event: Event) -> tuple[str, int | None]:
    return run.digest(event), run.winners(event)


def _point(run_a: CapturedRun, run_b: CapturedRun, aligned: Aligned, a: Event | None, b: Event | None) -> Point:
    event = a if a is not None else b
    assert event is not None
    point = Point(
        request=aligned.key.request,
        step=event.key.step,
        layer=event.key.layer,
        rank=aligned.key.rank,
        op=aligned.key.op,
        row=event.place,
        occurrence=aligned.occurrence if (aligned.key.step, aligned.key.layer) == event.key[1:3] else 0,
        state="duplicate" if aligned.duplicate else "missing" if b is None else "extra",
        reordered=aligned.reordered,
        a=None if a is None else Place(run_a.label(a), a.row, a.call),
        b=None if b is None else Place(run_b.label(b), b.row, b.call),
    )
    if a is None or b is None:
        return point
    state: State
    what = _changed_input(run_a, run_b, a, b)
    sides: tuple[Judged | None, Judged | None] = (None, None)
    outside = mapped = False
    if what is not None:
        state = "input differs"
    else:
        state, sides, mapped = _compared(run_a, run_b, a, b)
        outside = run_a.length(a) != run_a.held(a)
        if state == "same" and aligned.reordered:
            state = "reordered"
    theirs = dict(b.about)
    differing = tuple(name for name, value in a.about if value != theirs[name])
    return replace(
        point,
        state=state,
        what=what,
        judged_a=sides[0],
        judged_b=sides[1],
        differing=differing,
        outside=outside,
        mapped=mapped,
    )


def _changed_input(run_a: CapturedRun, run_b: CapturedRun, a: Event, b: Event) -> What | None:
    """The first thing that the inputs of a point differ in; ``None`` if they are bit-identical."""
    k_a, k_b = run_a.winners(a), run_b.winners(b)
    if k_a is not None and k_b is not None and k_a != k_b:
        return "k"
    if run_a.digest(a) == run_b.digest(b):
        return None
    if run_a.dtype(a) != run_b.dtype(b):
        return "dtype"
    if run_a.length(a) != run_b.length(b):
        return "length"
    if run_a.start(a) != run_b.start(b):
        return "start"
    return "width" if run_a.held(a) != run_b.held(b) else "scores"


def _compared(
    run_a: CapturedRun, run_b: CapturedRun, a: Event, b: Event
) -> tuple[State, tuple[Judged | None, Judged | None], bool]:
    """The state of two selections of the same input, each side's verdict where values or ties vary, and whether they
    are compared as they were mapped.

    Mapped entries whose positions cannot be told are the same, or the same in another order; of other ones nothing is
    known, for other pages may hold the same positions.

    Of a row that its length leaves the capture does not hold all that an op may have read: nothing judges it.
    """
    mapped = False
    try:
        mine, theirs = run_a.positions(a), run_b.positions(b)
    except UsageError:
        mine, theirs, mapped = run_a.indices(a), run_b.indices(b), True
    if mine is None or theirs is None:
        return "not comparable", (None, None), False
    mine, theirs = mine.cpu(), theirs.cpu()
    if torch.equal(mine, theirs):
        return "same", (None, None), mapped
    if torch.equal(mine.sort().values, theirs.sort().values):  # without a look at the scores
        return "order varies", (None, None), mapped
    if mapped:
        return "not comparable", (None, None), True
    row = run_a.row(a)
    scores = row.valid.cpu()
    kind: Kind = compare(scores, mine, theirs)
    if row.outside:
        return kind, (None, None), False
    exact = reference(row, run_a.winners(a)).indices.cpu()
    return kind, (judged(scores, exact, mine), judged(scores, exact, theirs)), False


def _differing(points: tuple[Point, ...], events: tuple[tuple[Event | None, Event | None], ...]) -> Iterator[str]:
    """What the calls of both runs do not have in common, one note for each field."""
    seen: Counter[str] = Counter(name for point in points for name in point.differing)
    for name, count in seen.items():
        at = next(number for number, point in enumerate(points) if name in point.differing)
        a, b = events[at]
        assert a is not None
        assert b is not None
        values = ["unknown" if value is None else value for value in (dict(a.about)[name], dict(b.about)[name])]
        yield f"{name} differs in {count} of {len(points)} points (first {values[0]} against {values[1]})"


def _mapped(points: tuple[Point, ...]) -> Iterator[str]:
    """How many points hold entries whose positions cannot be told."""
    mapped = [point for point in points if point.mapped]
    if mapped:
        other = sum(point.state == "not comparable" for point in mapped)
        told = f"; in {other} they differ, which other pages of the same positions do too" if other else ""
        yield (
            f"in {len(mapped)} of {len(points)} points the recorded entries cannot be turned into positions, and are "
            f"compared as they are{told}"
        )


def _tokens(
    a: CapturedRun, b: CapturedRun, names: tuple[str, str], requests: dict[str | None, str | None], near_ulps: int
) -> tuple[list[TokenStep], list[str]]:
    """The tokens of both runs, by step; those of one step by their logits, then in the order of the files."""
    theirs = {(requests.get(request, request), step): places for (request, step), places in b.tokens.items()}
    if bool(a.tokens) != bool(b.tokens):
        return [], [f"only {names[0 if a.tokens else 1]} holds tokens, so none are compared"]
    found: list[TokenStep] = []
    moved = 0
    for request, step in sorted({*a.tokens, *theirs}, key=lambda key: (key[1], key[0] or "")):
        one, other = a.tokens.get((request, step), []), theirs.get((request, step), [])
        for at_a, at_b in _token_pairs(a, b, one, other):
            token_a = None if at_a is None else a.token(one[at_a])
            token_b = None if at_b is None else b.token(other[at_b])
            place = at_a if at_a is not None else at_b or 0
            moved += None not in (at_a, at_b) and at_a != at_b and len(one) == len(other)
            found.append(token_step(token_a, token_b, request=request, place=place, near_ulps=near_ulps))
    if moved:
        told = f"{moved} of {len(found)} tokens stand at another place in their step"
        return found, [f"{told}; they are aligned by their logits"]
    if a.shares_tokens and not found:
        return found, ["tokens are not compared: they stand in a file that holds several ranks"]
    return found, []


def _token_pairs(
    a: CapturedRun, b: CapturedRun, mine: list[tuple[int, int]], theirs: list[tuple[int, int]]
) -> list[tuple[int | None, int | None]]:
    """Which tokens of one step go together, by place. A token without logits names no request: order alone tells."""
    if max(len(mine), len(theirs)) < 2:
        return pair(mine[:1] and [None], theirs[:1] and [None])
    contents = [[_token_content(run.token(at)) for at in where] for run, where in ((a, mine), (b, theirs))]
    return pair(*contents)


def _token_content(token: Token) -> Hashable:
    return None if token.logits is None else (token.token, digest_of(token.logits, 0, token.logits.numel()))
