"""What a comparison of runs found, in a paragraph that can be pasted into a bug report."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.divergence.inputs import describe
from workbench.analysis.divergence.selections import Judged, SelectionDifference
from workbench.analysis.divergence.states import STATES
from workbench.analysis.divergence.tokens import TokenStep
from workbench.runs.divergence import Comparison, Detail, Divergence, Point
from workbench.words import listed, real


def several(divergence: Divergence) -> str:
    """The finding of one comparison, or of the earliest parting of several."""
    earliest = divergence.earliest
    text = finding(earliest)
    total = len(divergence.comparisons)
    if total == 1:
        return text
    parting = sum(comparison.parts for comparison in divergence.comparisons)
    if not parting:
        return f"None of {total} runs parts from {earliest.a}. {text}"
    return f"{text} Of {total} runs, {parting} part{'s' if parting == 1 else ''} from {earliest.a}" + (
        ", this one first." if parting > 1 else "."
    )


def finding(comparison: Comparison) -> str:
    """Where two runs part first, whose fault it is there, what else differs, and what became of the tokens."""
    return " ".join(sentences(comparison))


def sentences(comparison: Comparison) -> list[str]:
    """The finding in parts, of which the first stands alone."""
    first, token = comparison.first, comparison.first_token
    names = f"{comparison.b} parts from {comparison.a} at "
    said: list[str] = []
    if not comparison.parts:
        said.append(_together(comparison))
    token_leads = token is not None and (first is None or (first.step is not None and token.step < first.step))
    if token is not None and token_leads:
        said.append(f"{names}{token_place(token)}: {token_words(comparison, token)}.")
    if first is not None:
        lead = "The first point at which they part is " if token_leads else names
        said += _parting(comparison, first, f"{lead}{place(first)}: ")
    said += _others(comparison)
    if token is not None and not token_leads:
        said.append(f"At {token_place(token)}, {token_words(comparison, token)}.")
    elif comparison.tokens and token is None and comparison.parts:
        said.append(f"{_of_tokens(comparison)}.")
    flip = comparison.first_flip
    if flip is not None and flip is not token:
        said.append(f"The tokens themselves differ first at {token_place(flip)}: {token_words(comparison, flip)}.")
    elif flip is None and token is not None and token.state == "logits differ":
        known = sum(None not in (one.token_a, one.token_b) for one in comparison.tokens)
        if known:
            said.append(f"None of {known} captured tokens differs.")
    return [*said, *(f"Note: {note}." for note in comparison.notes)]


def place(point: Point) -> str:
    """Where a point is, as in ``step 3, layer 2, row 0``; what is not known is left out."""
    names = [f"{name} {value}" for name in ("step", "layer", "rank") if (value := getattr(point, name)) is not None]
    stored = point.a if point.a is not None else point.b
    if not names and stored is not None:
        return f"row {stored.row} of {stored.file}"
    if point.occurrence:
        names.append(f"call {point.occurrence + 1} of that name")
    return ", ".join([*names, f"row {point.row}"])


def names_of(points: Sequence[Point]) -> dict[str, list[str | int | None]]:
    """What tells listed points apart besides their rows, by name: what any of them has, the op where there are several,
    and the number of the ``call`` among those of one name where any name stands for several."""
    found: dict[str, list[str | int | None]] = {}
    for name in ("request", "step", "layer", "rank", "op"):
        values = [getattr(point, name) for point in points]
        if len(set(values)) > 1 if name == "op" else set(values) - {None}:
            found[name] = values
    if any(point.occurrence for point in points):
        found["call"] = [point.occurrence + 1 for point in points]
    return found


def token_place(token: TokenStep) -> str:
    """Where a token is, as in ``the token of step 12``."""
    which = f" ({token.place + 1} of that step)" if token.place else ""
    return f"the token of step {token.step}{which}"


def _together(comparison: Comparison) -> str:
    counts, total = comparison.counts, len(comparison.points)
    open_ = counts["not comparable"]
    recorded = "recorded on both sides"
    if any(point.mapped and point.state == "not comparable" for point in comparison.points):
        recorded += " as positions"
    every = "the one point" if total == 1 else f"all {total} points"
    if open_ == total:
        said = f"the inputs of {every} are bit-identical, and no selection is {recorded}"
    elif open_:
        said = f"{counts['same']} of {total} points are the same; of {open_} a selection is not {recorded}"
    else:
        said = f"{every} {'is' if total == 1 else 'are'} the same"
    tokens = f". {_of_tokens(comparison)}" if comparison.tokens else ""
    return f"{comparison.b} does not part from {comparison.a}: {said}{tokens}."


def _of_tokens(comparison: Comparison) -> str:
    """How many tokens are the same, where none part."""
    total = len(comparison.tokens)
    same = sum(token.state == "same" for token in comparison.tokens)
    if not same:
        return f"Of {total} token{'' if total == 1 else 's'} nothing is recorded on both sides"
    if same == total:
        return "The one token is the same" if total == 1 else f"All {total} tokens are the same"
    return (
        f"{same} of {total} tokens {'is' if same == 1 else 'are'} the same; of {total - same} neither a token nor "
        "logits are recorded on both sides"
    )


def _parting(comparison: Comparison, first: Point, lead: str) -> list[str]:
    """What happened at the first point, and whose fault it is."""
    detail = comparison.detail
    if first.state == "input differs":
        what = describe(detail.inputs) if detail is not None and detail.inputs is not None else first.what
        return [f"{lead}the selector is not accused, for its input differs: {what}.", upstream(comparison, first)]
    if detail is not None and detail.selections is not None and detail.selections.kind != "same":
        return [lead + _selections(comparison, detail, detail.selections)]
    owner = comparison.a if first.b is None else comparison.b
    if first.state == "reordered":
        return [f"{lead}the input and the selection are the same, but the runs have them in another order."]
    if first.state == "order varies":
        return [f"{lead}the input is the same, and so are the recorded entries, but in another order."]
    if first.state == "duplicate":
        return [f"{lead}{owner} has this call once more than the other run."]
    return [f"{lead}only {owner} has this row."]


def upstream(comparison: Comparison, point: Point) -> str:
    """Where to look for the cause of an input that differs: what fed it."""
    if point.what != "scores":
        return f"Look at the call: its {point.what} does not come from a score."
    before = [
        one
        for one in comparison.points
        if (one.request, one.rank) == (point.request, point.rank) and one.a is not None and one.b is not None
    ]
    if point.step is None or point.layer is None:
        return "The cause lies before it: the captures do not say which step and layer it is of."
    layers = [one for one in before if one.step == point.step and one.layer is not None and one.layer < point.layer]
    if layers:
        feeder = max(layers, key=lambda one: one.layer or 0)
        at = [one for one in layers if one.layer == feeder.layer]
        states = sorted({one.state for one in at}, key=list(STATES).index)
        return (
            f"Look upstream: at what layer {feeder.layer} put out at step {point.step} (its selections: "
            f"{listed(states)}), and at what layer {point.layer} computes before its selector."
        )
    if any(one.step is not None and one.step < point.step for one in before):
        tokens = [token for token in comparison.tokens if token.step < point.step]
        last = max((token.step for token in tokens), default=None)
        chosen = [token for token in tokens if token.step == last]
        told = ""
        if chosen:
            told = f" (tokens of step {last}: {listed(sorted({token.state for token in chosen}))})"
        return (
            f"Look upstream: it is the first captured layer of step {point.step}, fed by the token chosen before{told} "
            "and by what earlier steps left in the cache."
        )
    return (
        "Look upstream: nothing was captured before it; compare the prompt, the weights and what the layers below "
        "put out."
    )


def outside_words(length: int, cells: int) -> str:
    """Why a row that its length leaves judges nobody."""
    return (
        f"length {length} leaves the row, of which the capture has {cells} cell{'' if cells == 1 else 's'}: what an op "
        "reads or returns there cannot be told from it, so neither side is judged and the selector is not accused"
    )


KINDS = {
    "values vary": "the selections hold different values",
    "ties vary": "the selections hold the same values from other indices",
    "order varies": "the selections hold the same indices in another order",
}


def _selections(comparison: Comparison, detail: Detail, found: SelectionDifference) -> str:
    count = len(found.held)
    if detail.outside is not None:
        return (
            f"on input that is bit-identical as far as it was captured, {KINDS[found.kind]}; but "
            f"{outside_words(*detail.outside)}."
        )
    if not count and found.kind in ("values vary", "ties vary"):
        return (
            "on bit-identical input the selections hold the same indices, but differ in slots that repeat one or hold "
            f"no index of the row: {comparison.a} {_lost(found.a)}, {comparison.b} {_lost(found.b)}."
        ) + (_accused(comparison, found) if found.kind == "values vary" else "")
    if found.kind == "values vary":
        return (
            "on bit-identical input the selections hold different values: "
            f"{comparison.a} {_lost(found.a)}, {comparison.b} {_lost(found.b)}."
            f"{_accused(comparison, found)}{_of_nan(found)}"
        )
    if found.kind == "ties vary":
        return (
            f"on bit-identical input the selections hold the same values, but {count} indices differ between equal "
            f"scores ({_scores(found)}). No value is lost to the other run, but they hold other members "
            f"of a tie.{_both_lose(comparison, found)}"
        )
    whole = "invalid" not in (found.a.verdict, found.b.verdict)
    indices = f"{found.a.of} indices" if whole else "indices"
    return (
        f"on bit-identical input the selections hold the same {indices} in another order ({found.slots} slots "
        f"differ, the first is {found.first_slot}). No value is lost to the other run, but what sums over them in that "
        f"order can change in its low bits.{_both_lose(comparison, found)}"
    )


def _scores(found: SelectionDifference) -> str:
    values = list(dict.fromkeys(real(held.score, 9) for held in found.held))
    return listed(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")


def _lost(side: Judged) -> str:
    if side.verdict == "invalid":
        return f"returned invalid slots and lacks {side.missing or 'none'} of {side.of} winners"
    return f"lost {side.missing or 'none'} of {side.of} winners"


def _of_nan(found: SelectionDifference) -> str:
    if not found.nan:
        return ""
    one = found.nan == 1
    return (
        f" {found.nan} of {found.length} scores {'is' if one else 'are'} NaN, which the reference puts above +inf: a "
        f"selector that leaves NaN out lacks {'it' if one else 'them'}."
    )


def _accused(comparison: Comparison, found: SelectionDifference) -> str:
    guilty = [name for name, side in ((comparison.a, found.a), (comparison.b, found.b)) if side.lossy]
    who = "both runs" if len(guilty) > 1 else guilty[0] if guilty else "one of them"
    return f" The selector is at fault in {who}: its input was the same."


def _both_lose(comparison: Comparison, found: SelectionDifference) -> str:
    if not found.a.lossy and not found.b.lossy:
        return ""
    return f" Against the exact reference {comparison.a} {_lost(found.a)} and {comparison.b} {_lost(found.b)}."


def _others(comparison: Comparison) -> list[str]:
    """How many points are in which state, and where the selector is at fault later."""
    if not comparison.parts or not comparison.points:
        return []
    counts = [f"{count} {state}" for state, count in comparison.counts.items() if count]
    total = len(comparison.points)
    sentences = [f"Of {total} point{'' if total == 1 else 's'}: {', '.join(counts)}."]
    point = next((point for point in comparison.points if point.accuses), None)
    if point is not None and point is not comparison.first:
        sides = ((comparison.a, point.judged_a), (comparison.b, point.judged_b))
        lossy = [f"{name} {_lost(side)}" for name, side in sides if side is not None and side.lossy]
        sentences.append(f"The selector is at fault, first at {place(point)}: on bit-identical input, {listed(lossy)}.")
    return sentences


def token_words(comparison: Comparison, token: TokenStep) -> str:
    """What happened to a token, and what explains it."""
    if token.state in ("missing", "extra"):
        return f"only {comparison.a if token.state == 'missing' else comparison.b} has a token there"
    if token.state == "not comparable":
        return "neither a token nor logits are recorded on both sides"
    if token.state == "same":
        if token.token_a is None or token.token_a != token.token_b:
            return "the logits are bit-identical, and a token is not recorded on both sides"
        return f"both runs have token {token.token_a}{' from bit-identical logits' if token.identical else ''}"
    if token.state == "logits differ":
        both = token.token_a is not None and token.token_a == token.token_b
        chosen = f", though both runs have token {token.token_a}" if both else ""
        margins = [margin for margin in (token.a, token.b) if margin is not None and margin.ulps is not None]
        least = min(margins, key=lambda margin: margin.ulps or 0, default=None)
        if least is None or token.dtype is None:
            return f"{_kinds(token) or 'the logits are not bit-identical'}{chosen}"
        apart = f"{_ulps(least.ulps or 0, token)} apart ({real(least.margin, 4)})"
        return f"{_kinds(token) or 'the logits are not bit-identical'}{chosen}; the two best lie at least {apart}"
    return f"token {token.token_a} against {token.token_b}: {_flip(comparison, token)}"


def _flip(comparison: Comparison, token: TokenStep) -> str:
    logits = {
        True: "the logits are bit-identical",
        False: _kinds(token) or "the logits differ",
        None: "logits are not recorded on both sides",
    }[token.identical]
    names = {"a": comparison.a, "b": comparison.b}
    greedy = listed(names[side] for side in token.not_greedy)
    if greedy:
        return f"{logits}, and the token of {greedy} is not the best one there: not a greedy choice"
    if token.flip_ulps is None or token.flip_margin is None:
        either = any(dtype is not None for dtype in token.dtypes)
        nan = ", and one of the two is NaN" if token.dtype is not None and either else ""
        return f"{logits}{nan}, so nothing tells how close the choice was"
    moved = "" if not token.moved else f"; between the runs they moved by up to {real(token.moved, 4)}"
    if token.cause == "tie":
        return f"{logits}, and the two tie exactly: how ties are broken decides{moved}"
    ulps = f"{_ulps(token.flip_ulps, token)} ({real(token.flip_margin, 4)})"
    if token.cause == "near-tie":
        return f"{logits}, and the two lie at most {ulps} apart: a near-tie, which low bits turn over{moved}"
    if token.cause is None:
        far = f"up to {ulps} apart across zero, where ULPs do not tell how close the choice was"
        return f"{logits}, and the two lie {far}{moved}"
    return f"{logits}, and the two lie up to {ulps} apart: no near-tie explains it{moved}"


def _ulps(count: int, token: TokenStep) -> str:
    return f"{count} ULP{'' if count == 1 else 's'} of {token.dtype}"


def _kinds(token: TokenStep) -> str:
    """That the logits of both sides are of other kinds, in words; empty if they are of one."""
    for name, (one, other) in (("dtypes", token.dtypes), ("vocabularies", token.vocabularies)):
        if one != other and one is not None and other is not None:
            return f"the logits are of other {name}, {one} against {other}"
    return ""
