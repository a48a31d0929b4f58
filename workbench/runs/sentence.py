"""One plain sentence or two that say what happened to a row, the same on the command line and in the app."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.analysis.risk import LOSING, ORDERED, Risk
from workbench.analysis.verdict import LOST
from workbench.runs.inspect import Inspection, damage
from workbench.runs.law_words import random_order
from workbench.runs.report import Result
from workbench.runs.shrink import Shrunk
from workbench.words import average, few, listed


def finding(inspection: Inspection) -> str:
    """What happened to an inspected row: what production returned where that was recorded, else the worst result."""
    head = inspection.headline
    if head is None:
        return "Nothing was judged."
    if head.line.refused is not None and head.line.finding is None and len(inspection.results) > 1:
        return _none_ran(inspection.results)
    text = result_sentence(head)
    if head is inspection.recorded:
        return text + _beside_the_recording(head, inspection.results)
    if head.line.finding is not None:
        harmed = sum(result.line.finding is not None for result in inspection.results)
        many = len(judged_risks(inspection.results))
        text += f" {harmed} of the {many} judged paths do harm on this row." if harmed > 1 else ""
    taken = judged_risks(inspection.results)
    if len(taken) > 1:
        select = [risk for risk in taken if not risk.finding]
        bad = sum(risk.level in LOSING for risk in select)
        which = "other judged paths" if len(select) < len(taken) else "judged paths"
        text += f" Of the {len(select)} {which} that take this row, {bad or 'none'} can lose winners."
    risks = [result.risk for result in inspection.results if result.risk is not None]
    return text + not_modelled_words([risk.path for risk in risks if risk.observed and len(risks) > 1])


def judged_risks(results: Iterable[Result]) -> list[Risk]:
    """The risks of the judged paths that take the row."""
    return [result.risk for result in results if result.risk is not None and result.risk.judged]


def not_modelled_words(names: Sequence[str]) -> str:
    """That such paths take the row and are not judged, as a sentence after another; empty if there are none."""
    if not names:
        return ""
    several = len(names) > 1
    return f" {few(names)} {'take' if several else 'takes'} it and {'are' if several else 'is'} not modelled."


def result_sentence(result: Result) -> str:
    """What one selection did, and why."""
    line, who = result.line, _who(result)
    if line.refused is not None:
        why = line.refused.removeprefix(f"{line.path} {line.variant} is not run: ")  # the path is named already
        return f"{_name(result)} {'was not run' if line.path else 'was not judged'}: {why}.{_risk_unrun(result)}"
    of = 0 if result.verdict is None else result.verdict.wanted
    if not of and line.verdict == "exact":
        return f"{who} had nothing to select: {_why_nothing(result)}."
    if line.verdict == "invalid":
        faults = {
            "repeated": line.duplicates,
            "out of range": line.out_of_range,
            "never written": line.unwritten,
            "left empty": line.short,
        }
        named = ", ".join(f"{count} {name}" for name, count in faults.items() if count)
        lacks = f"lacks {_count(line.missing, 'value')} of the exact top {of}" if of else "nothing was to be selected"
        return f"{who} returned invalid slots ({named}) and {lacks}{_of_length(result.risk)}."
    if line.verdict == "lossy":
        return f"{who} lost {_count(line.missing, 'winner')} of {of}{_by_order(result)}{_why(result.risk)}."
    if line.verdict == "ties":
        text = f"{who} lost no value; among equal scores at the cut it took other members than the reference"
    else:
        text = f"{who} returned exactly the reference's {_count(of, 'winner')}"
    return text + ("." if line.engine == "recorded" else f"{_outlook(result.risk)}.")


def risk_words(risk: Risk) -> str:
    """Where a row stands on a path, as in ``vllm.filtered (stock): at risk, 16385 scores share …``."""
    why = _breach(risk) if risk.breach and risk.level in LOSING else risk.note
    return f"{risk.path} ({risk.variant}): {risk.level}{', ' if why else ''}{why}"


def shrunk_sentence(found: Shrunk, about: str) -> str:
    """What became of a row that was shrunk. ``about``: the row, as in ``row 2 of some.safetensors``."""
    capital = about[0].upper() + about[1:]
    where = f"{found.path} ({found.variant})"
    if found.fault is None:
        note = f" ({found.after.risk.note})" if found.after.risk.note else ""
        return f"{capital} shows no fault on {where}: no arrival order loses a value{note}. There is nothing to shrink."
    before, after = found.before, found.after
    size = f"{_count(after.length, 'score')}, k {after.k}"
    if (before.length, before.k) != (after.length, after.k):
        k = f"k from {before.k} to {after.k}" if before.k != after.k else f"k {after.k}"
        done = f"shrank from {_count(before.length, 'score')} to {after.length}, {k}"
    elif found.kept:
        done = f"got simpler values only: {size}"
    else:
        done = f"is as small as it gets: {size}" if found.is_minimum else f"did not get smaller yet: {size}"
    return f"{capital} {done}, and shows the same fault on {risk_words(after.risk)}."


def _why_nothing(result: Result) -> str:
    told = _of_length(result.risk).removeprefix(": ")
    return told or ("the row is empty" if result.line.length == 0 else f"its length is {result.line.length}")


def _of_length(risk: Risk | None) -> str:
    """What the row's length did, where nothing else decided."""
    return f": {risk.note}" if risk is not None and risk.note and risk.level in ("safe", "certain") else ""


def _risk_unrun(result: Result) -> str:
    """The risk of a path that was not run, and what it rests on if that is not said yet."""
    risk = result.risk
    if risk is None:
        return ""
    note = "" if risk.note in (result.line.refused or "") else risk.note
    if risk.level is None or risk.observed:
        named = "==" in note.split(" ")[0]  # as vllm==0.33.0
        return f" {note if named else note[0].upper() + note[1:]}." if note else ""
    return f" Its risk is {risk.level}{f': {note}' if note else ''}."


def _who(result: Result) -> str:
    """What selected: a model is named as one, since no released selector ran."""
    return f"The model of {_name(result)}" if result.line.engine == "model" else _name(result)


def _by_order(result: Result) -> str:
    """Whether so much is lost in every arrival order, or in that of this call, and what others lose. Nothing of what
    production returned."""
    risk = result.risk
    if result.line.engine not in ("model", "cuda") or risk is None:
        return ""
    if risk.least_missing is not None and risk.least_missing == risk.most_missing:
        return " in every arrival order"
    spread = spread_words(risk)
    return f" in one arrival order{f' ({spread})' if spread else ''}"


def spread_words(risk: Risk, order: str = "one") -> str:
    """What arrival orders lose, as in ``a random one loses 15.9 on average, any one 0 to 128``; empty if unknown.

    The mean is over orders that are random score by score. Where real threads arrive warp by warp it is told as such,
    and where real arrival follows the scores it is left out.

    Args:
        order: what one of them is called; ``order`` where none was spoken of yet.
    """
    if risk.least_missing is None:
        return ""
    if risk.least_missing == risk.most_missing:
        return f"every {order} loses {risk.least_missing}"
    span = f"{risk.least_missing} to {risk.most_missing}"
    follows = risk.order_correlation is not None and abs(risk.order_correlation) >= ORDERED
    if follows or risk.expected_missing is None:
        return f"any {order} loses {span}"
    return f"{random_order(risk.path, order)} loses {average(risk.expected_missing)} on average, any {order} {span}"


def _name(result: Result) -> str:
    line = result.line
    if line.engine == "recorded":
        return f"The recorded selection (path {line.path})" if line.path else "The recorded selection"
    return f"{line.path} ({line.variant})" if line.path else line.op or "The op"


def _none_ran(results: tuple[Result, ...]) -> str:
    """Why no judged path ran the row: the reason that all share, if there is one."""
    reasons = [result.line.refused.split("; ") for result in results if result.line.refused is not None]
    shared = [reason.split(", the path")[0] for reason in reasons[0]]
    shared = [text for text in shared if all(any(one.startswith(text) for one in others) for others in reasons)]
    because = f": {listed(shared)}" if shared else "; each has its own reason"
    return f"None of the {len(results)} paths was run{because}."


def _beside_the_recording(recorded: Result, results: tuple[Result, ...]) -> str:
    """How what production returned fits the path that the op takes."""
    lost = recorded.line.verdict in LOST
    reached = next((result for result in results if result.line.reached and result.risk is not None), None)
    if reached is None or reached.risk is None:
        return _who_could(lost, results)
    risk = reached.risk
    name = f"{risk.path} ({risk.variant})"
    if risk.finding:
        return f" As described, {name} does not return: {risk.finding}."
    if risk.level == "safe":
        if lost:
            return f" No arrival order of {name} does that: the selection is not of this path, or not of these scores."
        return f" No arrival order of {name} loses a value."
    if risk.level == "certain" and not lost:
        return f" Every arrival order of {name} loses some: the selection is not of this path, or not of these scores."
    if risk.level not in LOSING:
        return ""
    # The recorded selection's own sentence has the reason already where it lost.
    return f" {name} is {risk.level}: {'' if lost or not risk.breach else _breach(risk) + '; '}{_lost(risk)}."


def _who_could(lost: bool, results: Sequence[Result]) -> str:
    """Where the path is not known: which of the judged ones can lose winners on this row, worst as tables have them."""
    by_damage = sorted(results, key=damage, reverse=True)
    taken = [risk for risk in judged_risks(by_damage) if risk.level is not None]
    able = [risk for risk in taken if risk.level in LOSING]
    if not taken:
        return ""
    if not able:
        whom = f"{taken[0].path} cannot" if len(taken) == 1 else f"None of the {len(taken)} judged paths can"
        return f" {whom} {'do that' if lost else 'lose winners'} on this row."
    worst = able[0]
    because = (
        f"{worst.path}{' most' if len(taken) > 1 else ''}: {_breach(worst)}; {_lost(worst)}"
        if worst.breach
        else f"{worst.path}{_why(worst)}"
    )
    if len(taken) == 1:
        return f" The path that ran could be {because}."
    return f" Of the {len(taken)} judged paths that take this row, {len(able)} can lose winners, {because}."


def _why(risk: Risk | None) -> str:
    """Why winners were lost, where that is known."""
    if risk is None or risk.level not in LOSING:
        return ""
    return f": {_breach(risk)}" if risk.breach else f": {risk.note}" if risk.note else ""


def _breach(risk: Risk) -> str:
    dropped = (risk.population or 0) - (risk.stored or 0)
    return (
        f"{risk.population} scores share the threshold bin {risk.threshold_bin} and the buffer takes {risk.stored}, "
        f"so {dropped} {'is' if dropped == 1 else 'are'} dropped, the last to arrive"
    )


def _outlook(risk: Risk | None) -> str:
    """What other arrival orders would have done, where nothing was lost."""
    if risk is None or risk.level is None:
        return ""
    if risk.level in LOSING:
        return f" in this arrival order, but the path is {risk.level}: {_breach(risk)}; {_lost(risk)}"
    if risk.breach and risk.buffered:
        return (
            f"; {risk.population} scores share the threshold bin and the buffer takes {risk.stored}, but whatever is "
            "dropped has an equal that stays"
        )
    return ", and no arrival order loses a value"


def _lost(risk: Risk) -> str:
    return spread_words(risk, "order") or "nothing tells how much is lost"


def _count(number: int | None, noun: str) -> str:
    return f"{number or 0} {noun}{'' if number == 1 else 's'}"
