"""What an audit says in sentences, the same on the command line, in the app and on a page that is mailed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.audit.summary import Summary
from workbench.audit.tally import Tally
from workbench.words import UNKNOWN, listed

_PAST = {"audit": "audited", "scan": "scanned"}
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def audit_sentence(found: Summary) -> str:
    """How many rows lose winners, in production or by the analysis."""
    before = f"{unfinished_words(found)} " if found.unfinished else ""
    return before + _sentence(found)


def unfinished_words(found: Summary) -> str:
    """How far an audit or a scan is that is not finished; empty for others."""
    at = found.unfinished
    if at is None:
        return ""
    if found.kind == "scan":
        if at.units is None:
            return "The scan is not finished: its files are being looked at."
        done = (at.units or 0) - (at.open or 0)
        return f"The scan is not finished: {done:,} of {at.units:,} {_noun(at.units, 'unit')} of work are done."
    if at.units is None:
        return "The audit is not finished: its plan is not made yet; start it again to go on."
    return (
        f"The audit is not finished: {at.open:,} of {at.units:,} {_noun(at.units, 'unit')} of work "
        f"{_verb(at.open or 0, 'is', 'are')} open; start it again to go on, this is what was found so far."
    )


def _sentence(found: Summary) -> str:
    total = found.total
    if not total.rows:
        files = found.files.files
        return f"No row was {_PAST[found.kind]}" + (f" in {_files(files)}." if files else ".")
    of = f"{total.rows:,} {_noun(total.rows, 'row')}"
    if not total.recorded and not found.routed and not found.unrouted and not found.loses:
        return f"None of {of} was judged on a path that it reaches or may reach.{_errors(total)}"
    if not found.loses:
        return f"None of {of} loses winners{_calm(found)}.{_rest(found)}"
    told = f"{total.bad:,} of {of} {_verb(total.bad, 'loses', 'lose')} winners or can: {listed(_parts(found))}."
    return told + _rest(found)


def _parts(found: Summary) -> list[str]:
    total = found.total
    told = []
    if total.invalid:
        told.append(f"{total.invalid:,} recorded {_noun(total.invalid, 'selection')} invalid")
    if total.lossy:
        told.append(f"{total.lossy:,} recorded {_noun(total.lossy, 'selection')} lossy")
    if total.harmful:
        told.append(f"{total.harmful:,} {_noun(total.harmful, 'row')} on which the selector does harm")
    where = reach_words(found)
    if total.certain:
        told.append(f"{total.certain:,} certain to lose {where}")
    if total.at_risk:
        told.append(f"{total.at_risk:,} at risk{'' if total.certain else f' {where}'}")
    return told


def reach_words(found: Summary) -> str:
    """On which paths rows are judged."""
    if not found.unrouted:
        return "on the path that they reach"
    if not found.routed:
        return "on some path that they may reach, since their route is not known"
    many = f"{found.unrouted:,} {_noun(found.unrouted, 'row')}"
    return f"on the path that they reach, or may reach where that is not known ({many})"


def route_cure(found: Summary) -> str:
    """What makes the route of rows known, where it is not and can be said; else empty."""
    options = [f"--{name}" for name in ("op", "release", "device") if found.about["asked"].get(name) is None]
    if not found.unrouted or not options:
        return ""
    rows = f"{found.unrouted:,} {_noun(found.unrouted, 'row')}"
    if found.kind == "scan":
        names = listed(name for name in ("op", "release", "device") if found.about["asked"].get(name) is None)
        return f"Which path the op sends {rows} to is not known: choose {names}, which stand over what captures say."
    return (
        f"Which path the op sends {rows} to is not known: audit into another folder with {listed(options)}, "
        "which stand over what the captures say."
    )


def _calm(found: Summary) -> str:
    judged = f", {found.total.recorded:,} as recorded" if found.total.recorded else ""
    return f"{judged}, and none can {reach_words(found)}" if found.routed or found.unrouted else judged


def _rest(found: Summary) -> str:
    aside = found.risks[UNKNOWN] - found.total.errors
    told = f" Of {aside:,} no path that they reach or may reach was judged." if aside else ""
    return told + _errors(found.total)


def _errors(total: Tally) -> str:
    return f" {total.errors:,} could not be read or judged." if total.errors else ""


def fault_words(found: Summary) -> str:
    """What could not be audited, in a few words; empty if nothing."""
    told = []
    if found.files.of:
        told.append(f"{_files(found.files.of)} of {found.files.files:,} could not be {_PAST[found.kind]}")
    if found.total.errors:
        told.append(f"{found.total.errors:,} {_noun(found.total.errors, 'row')} could not be read or judged")
    return listed(told)


def about_words(found: Summary) -> str:
    """Where the summary is from: the output folder, and what was audited."""
    parts = [f"{found.total.rows:,} {_noun(found.total.rows, 'row')}"]
    if found.calls:
        parts.append(f"{found.calls:,} {_noun(found.calls, 'call')}")
    files = found.files
    if files.files:
        parts.append(f"{_files(files.files)} of {size_words(files.bytes)} ({states_words(files.states)})")
    return f"{found.name}: {listed(parts)}, {_PAST[found.kind]} from {found.folder}"


def states_words(states: Mapping[str, int]) -> str:
    """How many files are in each state, as in ``12 done and 1 failed``."""
    return listed(f"{count:,} {state}" for state, count in states.items())


def share_words(part: int, of: int) -> str:
    """A share, as in ``0.31 %``; never 0 % or 100 % where it is not."""
    if not of:
        return "–"
    share = 100 * part / of
    if part and share < 0.01:
        return "< 0.01 %"
    if part < of and share > 99.99:
        return "> 99.99 %"
    return f"{share:.4g} %"


def size_words(size: int) -> str:
    """Bytes as people read them, as in ``1.50 GB``."""
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{size} bytes" if not unit else f"{value:.3g} {_UNITS[unit]}"


def line_state(line: Mapping[str, Any]) -> str:
    """What a line says of its row in a word or two: its verdict, else its risk, else what else it tells."""
    if line["error"]:
        return "error"
    if line["verdict"]:
        return str(line["verdict"])
    if line["finding"] and line["risk"] in (None, "safe"):
        return "harmful"
    return str(line["risk"] or ("refused" if line["refused"] else UNKNOWN))


def _files(count: int) -> str:
    return f"{count:,} {_noun(count, 'file')}"


def _noun(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _verb(count: int, one: str, several: str) -> str:
    return one if count == 1 else several
