"""One plain sentence that says what happened to a row, the same on the command line and in the app."""

from __future__ import annotations

from workbench.analysis.risk import Risk
from workbench.runs.inspect import Inspection
from workbench.runs.report import Result


def finding(inspection: Inspection) -> str:
    """The sentence for an inspected row: of its worst result, and how many of the judged paths are findings."""
    worst = inspection.worst
    if worst is None:
        return "Nothing was judged."
    text = result_sentence(worst)
    taken = [result for result in inspection.results if result.line.refused is None]
    if len(taken) > 1:
        bad = sum(result.line.risk in ("at risk", "certain") for result in taken)
        text += f" Of the {len(taken)} paths that take this row, {bad} can lose winners."
    return text


def result_sentence(result: Result) -> str:
    """What one selection did, and why."""
    line = result.line
    who = f"{line.path} ({line.variant})" if line.path else f"The {line.engine} selection"
    if line.engine == "recorded" and line.path:
        who = f"The recorded selection (path {line.path})"
    of = min(line.k, line.length)
    if line.refused is not None:
        text = f"{who} was not run: {line.refused}."
        if result.risk is not None and result.risk.level is not None:
            text += f" Its risk is {result.risk.level}."
        return text
    if line.verdict == "invalid":
        faults = {
            "repeated": line.duplicates,
            "out of range": line.out_of_range,
            "never written": line.unwritten,
            "left empty": line.short,
        }
        named = ", ".join(f"{count} {name}" for name, count in faults.items() if count)
        return (
            f"{who} returned invalid slots ({named}) and lacks {_count(line.missing, 'value')} of the exact top {of}."
        )
    if line.verdict == "lossy":
        return f"{who} lost {_count(line.missing, 'winner')} of {of}{_why(result.risk, ': ')}."
    if line.verdict == "ties":
        text = f"{who} lost no value; among equal scores at the cut it took other members than the reference"
    else:
        text = f"{who} returned exactly the reference's {of} winners"
    return f"{text}{_outlook(result.risk)}."


def _why(risk: Risk | None, lead: str) -> str:
    if risk is None or risk.capacity is None or not risk.breach:
        return ""
    dropped = (risk.population or 0) - risk.capacity
    return (
        f"{lead}{risk.population} scores share the threshold bin {risk.threshold_bin} and the buffer holds "
        f"{risk.capacity}, so {dropped} {'was' if dropped == 1 else 'were'} dropped, the last to arrive"
    )


def _outlook(risk: Risk | None) -> str:
    if risk is None or risk.level is None:
        return ""
    if risk.level == "at risk":
        return (
            f" under this arrival order, but it is at risk: {_why(risk, '')}; a random order loses "
            f"{risk.expected_missing:.3g} on average"
        )
    if risk.breach and risk.buffered:
        return (
            f", although {risk.population} scores share the threshold bin and the buffer holds {risk.capacity}: "
            "whatever is dropped has an equal that stays"
        )
    return ", under every arrival order" if risk.level == "safe" else ""


def _count(number: int | None, noun: str) -> str:
    return f"{number or 0} {noun}{'' if number == 1 else 's'}"
