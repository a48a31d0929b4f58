"""What is said of a what-if, the same on the command line and in the app."""

from __future__ import annotations

from workbench.analysis.risk import LOSING, NOT_MODELLED, ORDERED, Risk
from workbench.analysis.whatif import LIKELY, Alteration, Enough, unalterable
from workbench.runs.law_words import arrives_together, law_sentence
from workbench.runs.whatif import WhatIf
from workbench.words import MINUS, listed, real

LABELS = {
    "capacity": "capacity",
    "rank_capacity": "capacity of a block",
    "key_bits": "key bits",
    "k": "k",
    "length": "length",
    "scale": "scale",
    "shift": "shift",
}


SHORT = {**LABELS, "rank_capacity": "per block", "key_bits": "bits"}  # where there is little room


def number(value: float) -> str:
    """A parameter's value: whole numbers in full, others with as many digits as tell them apart from their like."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else f"{value:.9g}"


def altered_words(alteration: Alteration) -> str:
    """What is altered, as in ``with a buffer of 6144 and scores scaled by 0.5``; empty for nothing."""
    said = {
        "capacity": "a buffer of {}",
        "rank_capacity": "{} stored a block",
        "key_bits": "a key of {} bits",
        "k": "k {}",
        "length": "the first {} scores only",
        "scale": "scores scaled by {}",
        "shift": "scores shifted by {}",
    }
    given = {name: number(value).replace("-", MINUS) for name, value in alteration.given.items()}
    if "scale" in given and "shift" in given:
        said["scale"] = "scores scaled by {} and then shifted by " + given.pop("shift")
    words = [said[name].format(text).replace("of 1 bits", "of 1 bit") for name, text in given.items()]
    return f"with {listed(words)}" if words else ""


def what_if_sentence(found: WhatIf) -> str:
    """What would become of the row, what becomes of it as it is, and which buffer would do."""
    return " ".join(what_if_sentences(found))


def what_if_sentences(found: WhatIf) -> list[str]:
    """``what_if_sentence`` in its parts, what answers the question first: what would become of the row, and which
    buffer would do where a buffer was asked for or nothing was, or what became of scores that were altered."""
    where, altered = f"{found.setting.path.name} ({found.setting.variant.name})", altered_words(found.alteration)
    least, scores = _least_sentence(found), _scores_sentence(found)
    given = found.alteration.given
    answers = [least if not given or {"capacity", "rank_capacity"} & set(given) else ""]
    answers += [scores if {"scale", "shift"} & set(given) else ""]
    if altered:
        would = _stands(found.after, "would be")
        why = _why(found.after, found.k, "would be")
        first = f"{altered[0].upper()}{altered[1:]} this row {would} on {where}{why}."
        as_it_is = f"As it is, it {_stands(found.before, 'is')}{_why_now(found)}."
    else:
        first = f"On {where} this row {_stands(found.before, 'is')}{_why(found.before, found.k, 'are')}."
        as_it_is = ""
    parts = [" ".join(filter(None, (first, *answers))), as_it_is, _ordered_sentence(found.after)]
    parts += [*(one for one in (least, scores) if one not in answers), _law_sentence(found)]
    return [part for part in parts if part]


def standing_word(risk: Risk) -> str:
    """How the row stands in a word: the level, ``fault`` where the selector does other harm than losing, ``refused``,
    ``not modelled`` or ``unknown``."""
    return "refused" if risk.refused else "fault" if risk.finding else risk.told


def _stands(risk: Risk, be: str) -> str:
    if risk.refused:
        return f"{be} refused"
    if risk.finding:
        return "faults" if be == "is" else be.replace("be", "fault")
    if risk.observed:
        return f"{be} not judged"
    if risk.level is None:
        return f"{be} of unknown risk"
    return f"{be} lossy for certain" if risk.level == "certain" else f"{be} {risk.level}"


def _why_now(found: WhatIf) -> str:
    """What makes the row stand so as it is; what was said already of the altered row is not said twice."""
    before, after = found.before, found.after
    if (before.refused, before.finding) == (after.refused, after.finding) != ((), ""):
        return " for the same reason"
    return _why(before, found.setting.k, "are")


def _why(risk: Risk, k: int, lost: str) -> str:
    """What makes it so, as in ``: 5000 scores share the threshold bin, the buffer holds 4096, …``."""
    if risk.refused:
        return f": {'; '.join(risk.refused)}"
    if risk.finding:
        return f": {risk.finding}"
    if risk.observed:
        return f": {NOT_MODELLED}: {risk.note}"
    parts = [] if risk.population is None else [_full(risk)]
    if risk.level == "safe" and risk.breach:
        parts.append("but all of the bin wins" if not risk.buffered else "but what is dropped has an equal that stays")
    if risk.level in LOSING and risk.expected_missing is not None:
        mean = real(risk.expected_missing, 4)
        lost = "is" if (mean, lost) == ("1", "are") else lost
        parts.append(f"{'and ' if parts else ''}{mean} of {k} winners {lost} lost on average")
    told = "; ".join(filter(None, (", ".join(parts), risk.note)))
    return f": {told}" if told else ""


def _full(risk: Risk) -> str:
    holds = f"the buffer holds {risk.room}"
    if risk.breach and risk.room != risk.capacity:
        holds = f"the blocks store {risk.room} of them"
    share = "score lies in" if risk.population == 1 else "scores share"
    return f"{risk.population} {share} the threshold bin, {holds}"


def _ordered_sentence(risk: Risk) -> str:
    """That the mean does not describe a row whose scores follow their position."""
    if risk.order_correlation is None or abs(risk.order_correlation) < ORDERED:
        return ""
    correlation = f"{risk.order_correlation:.2f}".replace("-", MINUS)
    return (
        f"Within the bin the scores follow their position (rank correlation {correlation}), and so does "
        f"real arrival: the mean is of random orders alone. From {risk.least_missing} to {risk.most_missing} values "
        "are lost, whatever the order."
    )


def _law_sentence(found: WhatIf) -> str:
    """Whose law the chances and means are, where they are not the path's own."""
    before, after = found.before, found.after
    return law_sentence(after.path, after.level, after.clean_at_most) or law_sentence(before.path, before.level)


def _least_sentence(found: WhatIf) -> str:
    """Which buffers would do; why none, where none would."""
    if unalterable(found.setting.path, found.setting.variant, "capacity"):
        return ""
    if found.after.refused or found.after.finding or found.after.level is None:
        return ""
    enough, likely = found.enough, found.likely
    if enough is None:
        return "No capacity makes it safe."
    if enough == Enough(1):
        return "Any buffer is enough."
    text = f"The least buffer that is safe holds {_held(enough)}"
    if likely is None or likely == enough:
        return f"{text}."
    orders = "orders that are random score by score" if arrives_together(found.after.path) else "random arrival orders"
    return f"{text}; from {_held(likely)} on, at least {100 * LIKELY:.0f} of 100 {orders} lose nothing."


def _held(enough: Enough) -> str:
    each = "" if enough.rank_capacity is None else f", and each block {enough.rank_capacity}"
    return f"{enough.capacity}{each}"


def _scores_sentence(found: WhatIf) -> str:
    """What became of scores beyond fp16, and of winners that are no longer told from losers."""
    if found.alteration.scale is None and found.alteration.shift is None:
        over = found.scores.overflowing[0]
        if not over or found.setting.row.dtype != "float32" or found.setting.path.key_bits is None:
            return ""
        if found.after.refused or found.after.finding:  # which no scale changes
            return ""
        return (
            f"{_scores(over)} {'rounds' if over == 1 else 'round'} to an infinity in the fp16 key, which has one bin "
            f"for all of that sign. {_fitting_sentence(found)}"
        )
    seen = found.scores
    parts = []
    if any(seen.overflowing):
        was, now = seen.overflowing
        parts.append(f"{_scores(now, 'None')} would round to an infinity in the fp16 key, where {was or 'none'} did.")
    if seen.ties_made:
        parts.append(
            f"By rounding, {_scores(seen.ties_made)} below the k-th would become equal to it and could take its place."
        )
    return " ".join(parts)


def _fitting_sentence(found: WhatIf) -> str:
    """What would become of the row, all else as altered, if its scores were scaled to what fp16 can hold."""
    scale = found.fitting_scale
    then = found.setting.risk(found.alteration.with_("scale", scale))
    loses = then.level in LOSING
    level = _stands(then, "would still be" if loses and found.after.level in LOSING else "would be")
    lost = ""
    if loses and then.expected_missing is not None:
        lost = f", with {real(then.expected_missing, 4)} of {found.k} winners lost on average"
    return f"Scaled by {number(scale)}, which brings every one within 65504, it {level}{lost}."


def _scores(count: int, none: str = "0 scores") -> str:
    return none if not count else f"{count} score{'' if count == 1 else 's'}"
