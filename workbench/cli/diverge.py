"""``workbench diverge``: where captured runs part, and whose fault it is there."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.exits import BAD, CLEAN, FOUND, complain
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import INT32, Json, Naming, integer, one_thread, spread
from workbench.cli.tables import NONE, counted, lines, number, progress, say, score, table

if TYPE_CHECKING:
    from workbench.runs.divergence import Comparison, Detail, Divergence

POINTS_SHOWN = 10
HELD_SHOWN = 12
NOTHING_COMPARED = (
    "nothing was compared: inputs are bit-identical, but selections are not recorded on both sides of any point"
)

Runs = Annotated[
    list[str], typer.Argument(metavar="RUN", help="Runs of one prompt: each a capture, a dump or a folder of captures.")
]
_TITLES, _WORDS = {"call": "call of\nits name"}, ("request", "op")


@spread
def diverge(
    runs: Runs,
    naming: Naming,
    ranks: Annotated[bool, typer.Option("--ranks", help="Compare the ranks of one run instead.")] = False,
    points: Annotated[
        int, typer.Option(**integer(0, INT32), help="How many of the points at which they part are listed.")
    ] = POINTS_SHOWN,
    near_ulps: Annotated[
        int | None,
        typer.Option(**integer(0, INT32), help="The greatest margin of two logits, in ULPs, called a near-tie."),
    ] = None,
    json: Json = False,
) -> int:
    """Find where captured runs of the same prompt part first, and whether the selector or its input is at fault.

    Each run is held against the first. At every point, a row of one call, inputs are compared before selections; rows
    go together by request, step, layer, rank and op. Exit code 1 if they part anywhere, in order alone too.

    workbench diverge run-a.safetensors run-b.safetensors
    workbench diverge run-a/ run-b/ run-c/ --json
    workbench diverge run-a/ --ranks
    """
    from workbench.analysis.divergence.tokens import NEAR_ULPS
    from workbench.capture import open_capture
    from workbench.runs.captured import CapturedRun
    from workbench.runs.diverge import diverge as compare

    opener = partial(
        open_capture,
        scores=naming.scores,
        lengths=naming.lengths,
        starts=naming.starts,
        indices=naming.indices,
    )
    with ExitStack() as stack, one_thread():
        opened = [stack.enter_context(CapturedRun(run, opener)) for run in runs]
        with progress("reading inputs", sum(map(len, opened))) as done:
            found = compare(
                *opened,
                ranks=ranks,
                near_ulps=NEAR_ULPS if near_ulps is None else near_ulps,
                progress=done,
            )
        if json:
            print_json(_document(found))
        else:
            _print(found, points)
    if found.parts:
        return FOUND
    if not found.compared:
        complain(NOTHING_COMPARED)
        return BAD
    return CLEAN


def _document(found: Divergence) -> object:
    return {
        "command": "diverge",
        "runs": found.runs,
        "parts": found.parts,
        "finding": found.finding,
        "earliest": found.comparisons.index(found.earliest),
        "comparisons": [
            {
                "a": one.a,
                "b": one.b,
                "parts": one.parts,
                "finding": one.finding,
                "counts": one.counts,
                "notes": one.notes,
                "points": [asdict(point) for point in one.points if point.state != "same"],
                "first": None if one.detail is None else asdict(one.detail),
                "tokens": [asdict(token) for token in one.tokens],
            }
            for one in found.comparisons
        ],
    }


def _print(found: Divergence, points: int) -> None:
    from workbench.runs.divergence_words import sentences

    earliest = found.earliest
    several = len(found.comparisons) > 1
    if several:
        say(found.finding, "bold")
        say("")
    for one in found.comparisons:
        if several:
            say(f"{one.b} against {one.a}", "bold")
        else:
            headline, *more = sentences(one)
            say(headline, "bold")
            if more:
                say(" ".join(more))
        if several and one is not earliest:
            say(one.finding)
        say("")
        _print_counts(one)
        _print_points(one, points)
        if one.detail is not None:
            _print_detail(one, one.detail)
        _print_tokens(one, points)


def _print_counts(one: Comparison) -> None:
    table(
        [Column("state", "word"), Column("points"), Column("first at", "text")],
        [(state, count, _first(one, state)) for state, count in one.counts.items() if count],
    )


def _first(one: Comparison, state: str) -> str:
    from workbench.runs.divergence_words import place

    point = one.first_of(state)  # type: ignore[arg-type]
    return NONE if point is None else place(point)


def _print_points(one: Comparison, most: int) -> None:
    from workbench.runs.divergence_words import names_of

    parting = [point for point in one.points if point.parts]
    if not parting or not most:
        return
    shown = parting[:most]
    named = names_of(shown)
    both = [(point.judged_a, point.judged_b) for point in shown]
    judged = any(side is not None for sides in both for side in sides)
    rows = []
    for at, (point, sides) in enumerate(zip(shown, both, strict=True)):
        stored = [NONE if place is None else f"{place.row}" for place in (point.a, point.b)]
        cells: list[object] = [values[at] for values in named.values()]
        cells += [point.row, *stored, point.state + (f": {point.what}" if point.what else "")]
        if judged:
            cells += [None if side is None else _verdict(side.verdict, side.missing) for side in sides]
        rows.append(cells)
    table(
        [
            *(Column(_TITLES.get(name, name), "word" if name in _WORDS else "number") for name in named),
            Column("row of\nthe call"),
            Column("row in\nits file, a"),
            Column("row in\nits file, b"),
            Column("state", "word"),
            *([Column("a", "word"), Column("b", "word")] if judged else []),
        ],
        rows,
        title="Where they part"
        if len(shown) == len(parting)
        else f"The first {len(shown)} of {len(parting)} points at which they part",
    )


def _verdict(verdict: str, missing: int) -> str:
    return f"{verdict}, {missing}" if missing else verdict


def _print_detail(one: Comparison, detail: Detail) -> None:
    from workbench.analysis.divergence.inputs import describe
    from workbench.runs.divergence_words import outside_words, place

    point = detail.point
    say(f"The first point, {place(point)}: {point.state}", "bold")
    for side, name, stored in (("a", one.a, point.a), ("b", one.b, point.b)):
        where = "not there" if stored is None else f"row {stored.row} of {stored.file}"
        lines([f"{side}: {where}" if stored is not None and stored.file == name else f"{side}, {name}: {where}"])
    if detail.inputs is not None:
        lines([describe(detail.inputs)])
    found = detail.selections
    if found is None:
        say("")
        return
    if detail.outside is not None:
        lines([outside_words(*detail.outside)])
    for side, judged in (("a", found.a), ("b", found.b)) if detail.outside is None else ():
        lines([f"{side} is {judged.verdict}: {judged.missing} of {judged.of} missing"])
    slots, cut = counted(found.slots, "slot differs", "slots differ"), NONE if found.cut is None else score(found.cut)
    lines([f"{slots}, the first is {found.first_slot}; the cut is {cut}"])
    say("")
    if not found.held:
        return
    # On a plateau all are as near: both sides are to be seen, in turn.
    turn: Counter[str] = Counter()
    ranked = []
    for held in sorted(found.held, key=lambda held: (abs(held.gap), held.index)):
        ranked.append((abs(held.gap), turn[held.side], held.side, held))
        turn[held.side] += 1
    near = {held.index for *_, held in sorted(ranked, key=lambda one: one[:3])[:HELD_SHOWN]}
    shown = [held for held in found.held if held.index in near]
    table(
        [Column("index"), Column("score"), Column("from the cut"), Column("held by", "word")],
        [(held.index, score(held.score), number(held.gap), held.side) for held in shown],
        title="Indices that one side alone holds"
        + (f", the {len(shown)} of {len(found.held)} nearest to the cut" if len(shown) < len(found.held) else "")
        + ", best score first",
    )


def _print_tokens(one: Comparison, most: int) -> None:
    from workbench.runs.divergence_words import token_place, token_words

    if not one.tokens:
        return
    parting = [token for token in one.tokens if token.parts]
    if not parting:
        compared = sum(token.state != "not comparable" for token in one.tokens)
        say(f"Tokens: none of {compared} parts." if compared else "Tokens: none is recorded on both sides.")
        return
    kept = sum(token.state == "logits differ" for token in parting)
    such = f", {kept} of them in the logits alone" if kept else ""
    say(f"Tokens: {len(parting)} of {len(one.tokens)} part{such}", "bold")
    lines(f"{token_place(token)}: {token_words(one, token)}" for token in parting[:most])
    if len(parting) > most:
        lines(["…"])
    say("")
